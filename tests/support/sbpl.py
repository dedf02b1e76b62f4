"""An evaluator of Seatbelt profiles, written from what is publicly known of the language, and not from ours.

Sources: "Apple's Sandbox Guide" (fG!, 2011), "The Apple Sandbox" (Blazakis, 2011), the comments in Chromium's
profiles, and the profiles that macOS ships. What it does not know it refuses, so that a profile that uses a
word which nobody has seen fails here.

Two readings of the order of rules are found in the wild, and both are evaluated:

LAST     of all rules that fit an operation, the last one decides
SPECIAL  the rules for the operation itself are asked first, then those of the wider `file-write*`, then
         `file*`, then `default`; among rules for the same operation the last one decides
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Form = str | "Text" | list["Form"]


class Reading(Enum):
    LAST = "last"
    SPECIAL = "special"


class Text(str):
    """A string of the profile, as opposed to a symbol."""

    __slots__ = ()


class UnknownWord(Exception):
    """The profile says something that this evaluator has never heard of."""


@dataclass(frozen=True)
class Request:
    operation: str
    path: str = ""
    remote: str = ""  # host:port
    local: str = ""
    target: str = "others"  # self, same-sandbox, others
    name: str = ""  # of a sysctl or of a service
    extensions: frozenset[str] = frozenset()


OPERATIONS = frozenset(
    """
    appleevent-send authorization-right-obtain darwin-notification-post device-camera device-microphone
    distributed-notification-post dynamic-code-generation file-chroot file-clone file-ioctl
    file-issue-extension file-link file-map-executable file-mount file-mount-update file-read-data
    file-read-metadata file-read-xattr file-revoke file-search file-unmount file-write-acl
    file-write-create file-write-data file-write-flags file-write-mode file-write-mount file-write-owner
    file-write-setugid file-write-times file-write-umount file-write-unlink file-write-xattr
    forbidden-exec-sugid fs-snapshot-create generic-issue-extension hid-control iokit-get-properties
    iokit-issue-extension iokit-open iokit-set-properties ipc-posix-sem ipc-posix-shm-read-data
    ipc-posix-shm-write-create ipc-posix-shm-write-data ipc-posix-shm-write-unlink ipc-sysv-msg
    ipc-sysv-sem ipc-sysv-shm job-creation lsopen mach-bootstrap mach-cross-domain-lookup
    mach-host-special-port-set mach-issue-extension mach-lookup mach-per-user-lookup mach-priv-host-port
    mach-priv-task-port mach-register mach-task-name necp-client-open network-bind network-inbound
    network-outbound nvram-delete nvram-get nvram-set process-codesigning-status-get process-exec
    process-exec-interpreter process-fork process-info-listpids process-info-pidfdinfo
    process-info-pidinfo process-info-setcontrol pseudo-tty signal sysctl-read sysctl-write system-acct
    system-audit system-automount system-chud system-debug system-fsctl system-info system-kext-load
    system-lcid system-mac-label system-nfssvc system-package-check system-privilege system-reboot
    system-sched system-set-time system-socket system-suspend-resume system-swap user-preference-read
    user-preference-write
    """.split()
)
#: `(deny default)` does not deny them: crbug.com/799149, and what Chromium's profile denies since then.
ALLOWED_BY_DEFAULT = ("iokit-get-properties", "process-info", "nvram", "file-map-executable")

_TOKEN = re.compile(
    r"""\s+|;[^\n]*|(?P<open>\()|(?P<close>\))|(?P<raw>\#"(?:[^"\\]|\\.)*")
                        |(?P<text>"(?:[^"\\]|\\.)*")|(?P<symbol>[^\s()";]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r"}


def parse(text: str) -> list[Form]:
    """All forms of a profile. Raises UnknownWord for what is no form."""
    stack: list[list[Form]] = [[]]
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise UnknownWord(text[place : place + 40])
        place = found.end()
        if found["open"]:
            stack.append([])
        elif found["close"]:
            if len(stack) == 1:
                raise UnknownWord("a parenthesis too many")
            done = stack.pop()
            stack[-1].append(done)
        elif found["text"] is not None:
            stack[-1].append(Text(_unescape(found["text"][1:-1])))
        elif found["raw"] is not None:
            stack[-1].append(Text(found["raw"][2:-1]))
        elif found["symbol"] is not None:
            stack[-1].append(found["symbol"])
    if len(stack) != 1:
        raise UnknownWord("a parenthesis is not closed")
    return stack[0]


def unparse(form: Form) -> str:
    """A form as text again: profiles are mutated as forms."""
    if isinstance(form, list):
        return f"({' '.join(map(unparse, form))})"
    if isinstance(form, Text):
        inner = form.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + inner.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") + '"'
    return form


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        if found[1] not in _ESCAPED:
            raise UnknownWord(found[0])
        return _ESCAPED[found[1]]

    return re.sub(r"\\(.)", one, text, flags=re.DOTALL)


class Profile:
    """A profile that was understood to the last word."""

    def __init__(self, text: str) -> None:
        forms = parse(text)
        if forms[0] != ["version", "1"]:
            raise UnknownWord(f"it must begin with (version 1), not {forms[0]}")
        #: (is it allowed, the operation as written, the filters), in the order of the text
        self.rules: list[tuple[bool, str, list[Form]]] = []
        for form in forms[1:]:
            self.rules += _rules(form)
        self._about: dict[str, list[tuple[tuple[int, int, bool], list[Form]]]] = {}

    def decides(self, request: Request, reading: Reading) -> bool:
        """Whether the operation is allowed."""
        return _decide(self._fitting(request), request, reading)

    def allows(self, request: Request) -> bool:
        """Whether it is allowed by both readings. Raises AssertionError if they differ."""
        fitting = self._fitting(request)
        first, second = (_decide(fitting, request, reading) for reading in Reading)
        assert first == second, f"the order of the rules matters for {request}"
        return first

    def _fitting(self, request: Request) -> list[tuple[int, int, bool]]:
        """(how special, place in the text, is it allowed) of every rule that is about the request."""
        if request.operation not in OPERATIONS:
            raise UnknownWord(request.operation)
        if request.operation not in self._about:
            self._about[request.operation] = [
                ((_width(operation), number, allowed), filters)
                for number, (allowed, operation, filters) in enumerate(self.rules)
                if _covers(operation, request.operation)
            ]
        return [rule for rule, filters in self._about[request.operation] if _fits_any(filters, request)]


def _decide(fitting: list[tuple[int, int, bool]], request: Request, reading: Reading) -> bool:
    if not fitting:
        return request.operation.startswith(ALLOWED_BY_DEFAULT)
    if reading is Reading.LAST:
        return max(fitting, key=lambda rule: rule[1])[2]
    return max(fitting)[2]


def _rules(form: Form) -> Iterator[tuple[bool, str, list[Form]]]:
    if not isinstance(form, list) or not form or form[0] not in {"allow", "deny"}:
        raise UnknownWord(str(form))
    operations = [word for word in form[1:] if isinstance(word, str)]
    filters = [word for word in form[1:] if isinstance(word, list)]
    if not operations or any(isinstance(word, Text) for word in operations):
        raise UnknownWord(str(form))
    for part in filters:
        _check(part)
    for operation in operations:
        known = operation == "default" or any(_covers(operation, name) for name in OPERATIONS)
        if not known:
            raise UnknownWord(operation)
        yield form[0] == "allow", operation, filters


def _covers(written: str, operation: str) -> bool:
    if written == "default":
        return not operation.startswith(ALLOWED_BY_DEFAULT)
    return operation.startswith(written[:-1]) if written.endswith("*") else operation == written


def _width(written: str) -> int:
    """The longer the name, the more special the operation; one without a star is the most special."""
    if written == "default":
        return -1
    return len(written) * 2 + (not written.endswith("*"))


_ONE_TEXT = frozenset(
    ["literal", "subpath", "prefix", "regex", "sysctl-name", "sysctl-name-prefix", "global-name", "extension"]
)


def _check(part: Form) -> None:
    match part:
        case [str(word), Text()] if word in _ONE_TEXT:
            if word == "subpath" and part[1] != "/" and part[1].endswith("/"):
                raise UnknownWord("a subpath that ends in a slash fits nothing")
        case ["require-all" | "require-any", _, *rest]:
            for inner in (part[1], *rest):
                _check(inner)
        case ["require-not", inner]:
            _check(inner)
        case ["remote" | "local", "ip" | "tcp" | "udp", Text() as where]:
            host, _, port = where.partition(":")
            if host not in {"*", "localhost"} or not (port == "*" or port.isdigit()):
                raise UnknownWord(f"{where}: Seatbelt knows no addresses but * and localhost")
        case ["target", "self" | "same-sandbox" | "others"]:
            pass
        case _:
            raise UnknownWord(unparse(part))


def _fits_any(filters: list[Form], request: Request) -> bool:
    return not filters or any(_fits(part, request) for part in filters)


def _fits(part: Form, request: Request) -> bool:
    word, *rest = part
    match word:
        case "literal":
            return request.path == rest[0]
        case "subpath":
            return request.path == rest[0] or request.path.startswith(rest[0].rstrip("/") + "/")
        case "prefix":
            return request.path.startswith(rest[0])
        case "regex":
            return bool(request.path) and _regex(rest[0]).search(request.path.encode()) is not None
        case "require-all":
            return all(_fits(inner, request) for inner in rest)
        case "require-any":
            return any(_fits(inner, request) for inner in rest)
        case "require-not":
            return not _fits(rest[0], request)
        case "remote" | "local":
            return _reaches(rest[1], request.remote if word == "remote" else request.local)
        case "target":
            return rest[0] == request.target or (rest[0], request.target) == ("same-sandbox", "self")
        case "extension":
            return rest[0] in request.extensions
        case "sysctl-name" | "global-name":
            return request.name == rest[0]
        case "sysctl-name-prefix":
            return request.name.startswith(rest[0])
    raise UnknownWord(str(part))


@lru_cache(maxsize=4096)
def _regex(pattern: str) -> re.Pattern[bytes]:
    """Extended regular expressions over bytes; `$` is the end of the path and of nothing else."""
    return re.compile(re.sub(rb"(?<!\\)\$", rb"\\Z", pattern.encode()), re.DOTALL)


def _reaches(where: str, address: str) -> bool:
    if not address:
        return False
    host, port = where.rsplit(":", 1)
    asked_host, asked_port = address.rsplit(":", 1)
    is_local = asked_host in {"localhost", "127.0.0.1", "::1"}
    return (host == "*" or is_local) and port in {"*", asked_port}
