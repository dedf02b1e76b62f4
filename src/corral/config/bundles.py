"""Find the hosts that the user's own clients go to: mirrors and private indexes instead of the public ones.

TRUST: only the user's and the system's files say so, and never one in the workspace, which a command or a
project may have written; but for `@git`, whose remotes stand in the repository's own configuration, which
commands cannot change. No program is asked: one on the PATH could lie in the workspace.
"""

from __future__ import annotations

import contextlib
import glob
import os

from corral.model.errors import PolicyError
from corral.model.network.bundles import DEFAULT_HOSTS
from corral.model.network.endpoint import is_address, is_localhost
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_MOST_BYTES = 1024 * 1024
#: Without the colon: `git@host:path` is no URL.
_SCHEMES = ("https://", "http://", "ssh://", "git://")
_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._:")
_PORTS = {"ssh://": ":22", "git://": ":9418"}


class ConfigurationFile(Record):
    """Where it is looked."""

    workspace: str
    home: str
    variables: Mapping[str, str]
    root: str = "/"


class Bundle(Record):
    name: str
    hosts: tuple[str, ...]
    origins: tuple[str, ...]  # files and variables that say so; empty: the client's own default


def expand_bundles(allowed: Iterable[str], place: ConfigurationFile) -> list[str]:
    """Hosts, with those of each bundle in its place. Raises PolicyError for one that is none, or empty."""
    found: dict[str, None] = {}
    for text in allowed:
        if not text.startswith("@"):
            found[text] = None
            continue
        bundle = find_bundle(text[1:], place)
        if not bundle.hosts:
            raise PolicyError(
                "empty-bundle",
                f"{text} contains no host here",
                why="nothing on this machine says which hosts these are",
                fix="name the hosts: --allow HOST; `corral policy bundles` shows what each bundle means here",
            )
        found |= dict.fromkeys(bundle.hosts)
    return list(found)


def find_bundle(name: str, place: ConfigurationFile) -> Bundle:
    """What a bundle means here. Raises PolicyError if there is none of that name."""
    if name not in DEFAULT_HOSTS:
        raise PolicyError(
            "unknown-bundle",
            f"there is no bundle @{name[:40]}",
            why=f"the bundles are {', '.join(f'@{known}' for known in DEFAULT_HOSTS)}",
            fix="choose one of them, or name the hosts",
        )
    hosts: dict[str, None] = {}
    origins: dict[str, None] = {}
    for origin, urls in _READERS[name](place):
        named = [host for host in map(_host, urls) if host]
        if named:
            hosts |= dict.fromkeys(named)
            origins[origin] = None
    return Bundle(name, tuple(hosts) or DEFAULT_HOSTS[name], tuple(origins))


def find_bundles(place: ConfigurationFile) -> list[Bundle]:
    """All of them."""
    return [find_bundle(name, place) for name in DEFAULT_HOSTS]


def _host(url: str) -> str:
    """The host of a URL, with the port that it needs; empty for what is none, as a file."""
    url = url.strip().strip("\"'").removeprefix("sparse+").removeprefix("registry+")
    scheme = next((scheme for scheme in _SCHEMES if url.lower().startswith(scheme)), "")
    if not scheme and "@" in url.partition(":")[0] and ":" in url:  # git@host:path
        return _plain(url.partition("@")[2].partition(":")[0].lower() + ":22")
    if not scheme:
        return ""
    # A login in a URL is the user's own, and nobody else's to see.
    authority = url[len(scheme) :].partition("/")[0].rpartition("@")[2].lower()
    return _plain(authority if ":" in authority else authority + _PORTS.get(scheme, ""))


def _plain(host: str) -> str:
    """A host, unless it is a pattern or none at all: a `*` would stand for every host there is."""
    return host if _CHARACTERS.issuperset(host) and host.strip(".:-") == host else ""


def _read(place: ConfigurationFile, *paths: str) -> Iterator[tuple[str, str]]:
    """The text of each file that is there and lies outside of the workspace."""
    for path in paths:
        real = os.path.realpath(path)
        if f"{real}/".startswith(f"{os.path.realpath(place.workspace)}/"):
            continue
        with contextlib.suppress(OSError), open(real, "rb") as file:
            yield path, file.read(_MOST_BYTES).decode("utf-8", "replace")


def _values(text: str, is_wanted: Callable[[str], bool]) -> Iterator[str]:
    """The words behind `key =` for the keys that are wanted; indented lines go on."""
    going_on = False
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith(("#", ";")):
            continue
        key, equals, value = bare.partition("=")
        if equals and not line[:1].isspace() and " " not in key.strip():
            going_on = is_wanted(key.strip().lower().replace("_", "-"))
            if going_on:
                yield from value.split()
        elif going_on and line[:1].isspace():
            yield from bare.split()
        else:
            going_on = False


def _variables(place: ConfigurationFile, *names: str) -> Iterator[tuple[str, Iterable[str]]]:
    for name in names:
        if place.variables.get(name):
            yield f"${name}", place.variables[name].replace(",", " ").replace("|", " ").split()


def _pip(place: ConfigurationFile) -> Iterator[tuple[str, Iterable[str]]]:
    yield from _variables(place, "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
    homes = (f"{place.home}/.config/pip/pip.conf", f"{place.home}/.pip/pip.conf")
    for path, text in _read(place, os.path.join(place.root, "etc/pip.conf"), *homes):
        yield path, _values(text, lambda key: key in {"index-url", "extra-index-url"})


def _npm(place: ConfigurationFile) -> Iterator[tuple[str, Iterable[str]]]:
    yield from _variables(place, "npm_config_registry", "NPM_CONFIG_REGISTRY")
    for path, text in _read(place, os.path.join(place.root, "etc/npmrc"), f"{place.home}/.npmrc"):
        yield path, _values(text, lambda key: key == "registry" or key.endswith(":registry"))


def _cargo(place: ConfigurationFile) -> Iterator[tuple[str, Iterable[str]]]:
    home = place.variables.get("CARGO_HOME") or f"{place.home}/.cargo"
    for path, text in _read(place, f"{home}/config.toml", f"{home}/config"):
        yield path, _values(text, lambda key: key in {"registry", "index"})


def _go(place: ConfigurationFile) -> Iterator[tuple[str, Iterable[str]]]:
    yield from _variables(place, "GOPROXY")
    for path, text in _read(place, f"{place.home}/.config/go/env"):
        yield (
            path,
            (word for value in _values(text, lambda key: key == "goproxy") for word in value.split(",")),
        )


def _apt(place: ConfigurationFile) -> Iterator[tuple[str, Iterable[str]]]:
    top = os.path.join(place.root, "etc/apt")
    lists = sorted(glob.glob(f"{top}/sources.list.d/*.list") + glob.glob(f"{top}/sources.list.d/*.sources"))
    for path, text in _read(place, f"{top}/sources.list", *lists):
        lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
        yield path, [word for line in lines for word in line.split() if "://" in word]


def _git(place: ConfigurationFile) -> Iterator[tuple[str, Iterable[str]]]:
    """This repository's remotes, if its configuration is where commands cannot change it."""
    from corral.git_formats.config import read_config

    path = os.path.join(place.workspace, ".git", "config")
    with contextlib.suppress(OSError, ValueError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            entries = read_config(file.read(_MOST_BYTES))
        keys = {"url", "pushurl"}
        urls = [entry.value or "" for entry in entries if entry.section == "remote" and entry.key in keys]
        # TRUST: whoever made the repository wrote them: names of hosts, and no address of a private network.
        yield path, [url for url in urls if not _is_own(_host(url))]


def _is_own(host: str) -> bool:
    name = host.rpartition(":")[0] or host
    return is_address(name) or is_localhost(name)


_READERS: dict[str, Callable[[ConfigurationFile], Iterator[tuple[str, Iterable[str]]]]] = {
    "pip": _pip,
    "npm": _npm,
    "cargo": _cargo,
    "go": _go,
    "apt": _apt,
    "git": _git,
}
