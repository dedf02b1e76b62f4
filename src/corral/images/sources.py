"""Where the packages come from: the host's own Debian mirrors, or those that were asked for."""

from __future__ import annotations

import os

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_APT = "/etc/apt"
_RELEASE = "/etc/os-release"
#: What mmdebstrap takes from Debian's public mirrors when it is told nothing else.
DEFAULT_SUITE = "stable"
#: Archives of one release that have the same suite in their name.
_POCKETS = ("", "-updates", "-security")


class Sources(Record):
    """What to tell mmdebstrap: a suite and mirrors, or a sources list for its stdin."""

    suite: str = ""
    mirrors: tuple[str, ...] = ()  # none: Debian's public ones
    listing: str = ""  # deb822 stanzas; if there are any, suite and mirrors are empty

    def arguments(self, target: str) -> list[str]:
        """The positional arguments of mmdebstrap: SUITE TARGET MIRROR..."""
        if self.listing:
            return ["", target, "-"]
        return [self.suite, target, *self.mirrors]


def choose_sources(suite: str = "", mirrors: tuple[str, ...] = (), *, root: str = "/") -> Sources:
    """What was asked for; else the host's own archives, if it is a Debian; else Debian's public ones.

    TRUST: of the host's archives only those of its Debian release are taken. Others that a host may have
    added (for a browser, for a newer Node.js) would put their packages into the image under Debian's names.
    """
    codename = _debian_codename(os.path.join(root, _RELEASE[1:]))
    if suite or mirrors:
        return Sources(suite or codename or DEFAULT_SUITE, mirrors)
    listing = "\n".join(_own_stanzas(os.path.join(root, _APT[1:]), codename)) if codename else ""
    return Sources(listing=listing) if listing else Sources(codename or DEFAULT_SUITE)


def _debian_codename(path: str) -> str:
    """`bookworm` on Debian 12; empty on anything else."""
    try:
        with open(path, encoding="utf-8") as file:
            pairs = dict(line.strip().split("=", 1) for line in file if "=" in line)
    except OSError:
        return ""
    is_debian = pairs.get("ID", "").strip('"') == "debian"
    return pairs.get("VERSION_CODENAME", "").strip('"') if is_debian else ""


def _own_stanzas(directory: str, codename: str) -> Iterator[str]:
    """The stanzas of the host's archives, in apt's newer format."""
    wanted = {f"{codename}{pocket}" for pocket in _POCKETS}
    for path in _files(directory):
        text = _read(path)
        fields = _stanzas(text) if path.endswith(".sources") else _one_line_entries(text)
        for stanza in fields:
            suites = [suite for suite in stanza.get("suites", "").split() if suite in wanted]
            usable = "deb" in stanza.get("types", "").split() and stanza.get("enabled", "yes") != "no"
            if not suites or not usable or not stanza.get("uris"):
                continue
            stanza |= {"types": "deb", "suites": " ".join(suites)}
            yield "\n".join(f"{name}: {value}" for name, value in stanza.items()) + "\n"


def _files(directory: str) -> list[str]:
    """What apt reads (sources.list(5)), in its order."""
    parts = os.path.join(directory, "sources.list.d")
    try:
        names = sorted(name for name in os.listdir(parts) if name.endswith((".list", ".sources")))
    except OSError:
        names = []
    return [os.path.join(directory, "sources.list"), *(os.path.join(parts, name) for name in names)]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:  # not there, or not for this user: then what is left decides
        return ""


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    """Stanzas of `Name: value`, without comments; a line that begins with a space continues a value."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for block in "\n".join(lines).split("\n\n"):
        stanza: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if line[:1].isspace() and name:
                stanza[name] += f"\n{line}"
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                stanza[name] = value.strip()
        if stanza:
            yield stanza


def _one_line_entries(text: str) -> Iterator[dict[str, str]]:
    """`deb [signed-by=KEY arch=amd64] URI SUITE COMPONENT...`."""
    names = {"arch": "architectures"}
    for line in text.splitlines():
        words = line.partition("#")[0].replace("[", " [ ", 1).replace("]", " ] ", 1).split()
        if not words or words[0] != "deb":
            continue
        options, words = [], words[1:]
        if words[:1] == ["["] and "]" in words:
            end = words.index("]")
            options, words = words[1:end], words[end + 1 :]
        if len(words) < 3:
            continue
        stanza = {"types": "deb", "uris": words[0], "suites": words[1], "components": " ".join(words[2:])}
        for option in options:
            name, _, value = option.partition("=")
            stanza[names.get(name.lower(), name.lower())] = value.replace(",", " ")
        yield stanza
