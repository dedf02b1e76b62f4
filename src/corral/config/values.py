"""What the values of a configuration can be: each kind reads a value of a file, or the text of a variable."""

from __future__ import annotations

from corral.model.container import (
    EXAMPLES,
    parse_image,
    parse_inside,
    parse_name,
    parse_port,
    parse_user,
    parse_volume,
)
from corral.model.errors import CapabilitySyntaxError
from corral.model.feature import Feature
from corral.model.network.endpoint import has_port, host_in_url, parse_endpoint, parse_host
from corral.model.record import Record
from corral.model.rules.capability import parse_capability

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any


#: The workspace has the same path inside a container as outside.
SAME = "same"


class WrongValue(ValueError):
    """A value that a key cannot have; `fix` says what would do."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix


class Kind(Record):
    """One kind of value. `read` gives the canonical form, or raises WrongValue."""

    name: str  # with its article, for messages: "a size"
    schema: Mapping[str, Any]
    read: Callable[[Any], Any]
    element: Kind | None = None  # of a list, or of the values of a table
    is_table: bool = False
    separator: str = ","  # between the elements in an environment variable

    def from_text(self, text: str) -> object:
        """The value that an environment variable or a flag stands for, before it is read."""
        if self.element is not None and not self.is_table:
            return [part.strip() for part in text.split(self.separator) if part.strip()]
        if self.is_table:
            pairs = [part.partition("=") for part in text.split(self.separator) if part.strip()]
            if not all(equals for _, equals, _ in pairs):
                raise WrongValue(f"{describe(text)} has a part without =", "write NAME=VALUE,NAME=VALUE")
            return {name.strip(): value for name, _, value in pairs}
        if self.schema.get("type") == "boolean":
            return _BOOLEAN_WORDS.get(text.strip().lower(), text)
        return text


_BOOLEAN_WORDS = {"1": True, "true": True, "yes": True, "on": True} | {
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}
_MOST_TEXT = 32_768


def nearest(word: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """`did you mean ...?`, or all there is."""
    import difflib

    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    return f"did you mean {near[0]!r}?" if near else otherwise or f"use one of: {', '.join(names)}"


def describe(value: object) -> str:
    """A value as a message names it: short, and without the secrets that a long one may hold."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (dict, list)):
        return "a table" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def choice(words: tuple[str, ...]) -> Kind:
    """One of some words."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise WrongValue(f"{describe(value)} is not one of the choices", nearest(str(value), words))
        return value

    return Kind("one of the choices", {"type": "string", "enum": list(words)}, read)


def list_of(element: Kind) -> Kind:
    """A list whose elements are all of one kind; the elements are read one by one."""

    def read(value: object) -> list[Any]:
        if not isinstance(value, list):
            raise WrongValue(f"{describe(value)} is not a list", f"write a list, each of it {element.name}")
        return value

    separator = ":" if element.name == "a path" else ","
    schema = {"type": "array", "items": element.schema}
    return Kind("a list", schema, read, element, separator=separator)


def table_of(element: Kind) -> Kind:
    """A table with free names whose values are all of one kind."""

    def read(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise WrongValue(f"{describe(value)} is not a table", 'write a table, such as { CI = "1" }')
        return value

    schema = {"type": "object", "additionalProperties": element.schema}
    return Kind("a table", schema, read, element, is_table=True)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise WrongValue(
            f"{describe(value)} is neither true nor false", "write true or false, without quotes"
        )
    return value


def _text(value: object) -> str:
    if value == "":
        raise WrongValue("the text is empty", "write something, or leave the key out")
    return _any_text(value)


def _any_text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value or len(value) > _MOST_TEXT:
        raise WrongValue(f"{describe(value)} is not a text", 'write it in quotes: "1"')
    return value


def _tool(value: object) -> str:
    if isinstance(value, str) and value.startswith(("/", "~/")):
        return _path(value)
    if not isinstance(value, str) or not value or "/" in value or not value.isprintable():
        raise WrongValue(
            f"{describe(value)} is not a program", "write the name of a program, or its whole path"
        )
    return value


def _limit(capability: str, example: str) -> Callable[[object], str]:
    """A number or a text that this capability takes; what comes out is its canonical text."""

    def read(value: object) -> str:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise WrongValue(f"{describe(value)} cannot limit anything", f"write it as in {example}")
        return _target(
            capability, value if isinstance(value, str) else format_number(value), f"write it as in {example}"
        )

    return read


def format_number(value: float) -> str:
    """A number without an exponent, which no quantity has."""
    return str(value) if isinstance(value, int) else f"{value:.6f}"


def _grant(capability: str, fix: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if not isinstance(value, str):
            raise WrongValue(f"{describe(value)} is not a text", fix)
        return _target(capability, value, fix)

    return read


def _target(capability: str, text: str, fix: str) -> str:
    try:
        return parse_capability(f"{capability}:{text}").target
    except CapabilitySyntaxError as problem:
        raise WrongValue(problem.why, fix) from None


def read_assignment(name: str, value: str) -> tuple[str, str]:
    """A variable and its value. Raises WrongValue."""
    try:
        if "=" in name:
            raise WrongValue(f"{describe(name)} is not the name of a variable", 'write NAME = "value"')
        parse_capability(f"env:set:{name}={value}")
    except CapabilitySyntaxError as problem:
        raise WrongValue(problem.why, 'write NAME = "value"') from None
    return name, value


def _path(value: object, capability: str = "filesystem:write") -> str:
    fix = "begin it with /, ~/ or ${workspace}/"
    if isinstance(value, str) and value.startswith(("/", "~/", "${workspace}/")):
        fix = r"write it without * ? [ and \, or with a backslash before each that is meant itself"
    if isinstance(value, str) and value.startswith("$HOME"):
        fix = f"write ~{value.removeprefix('$HOME')}"
    elif isinstance(value, str) and value and not value.startswith(("/", "~", "$")):
        fix = f"write ${{workspace}}/{value.removeprefix('./')} for a path in the project"
    return _grant(capability, fix)(value)


def _path_or_pattern(value: object) -> str:
    return _path(value, "filesystem:deny")


def _domain(value: object) -> str:
    """A name stands for http and https; with a port it stands for that port alone."""
    fix = "write a name, *.name or name:port"
    if isinstance(value, str) and host_in_url(value):
        raise WrongValue(f"{describe(value)} is a URL, not a host name", f'write "{host_in_url(value)}"')
    if not isinstance(value, str) or not value or "/" in value:
        raise WrongValue(f"{describe(value)} is not the name of a host", fix)
    try:
        if has_port(value):
            return str(parse_endpoint("tcp", value)).removeprefix("tcp:")
        return str(parse_endpoint("https", value)).removeprefix("https:")
    except ValueError as problem:
        raise WrongValue(str(problem), fix) from None


def _host(value: object) -> str:
    if not isinstance(value, str) or "/" in value:
        raise WrongValue(f"{describe(value)} is not the name of a host", "write a name or *.name")
    if value.rpartition(":")[2].isdigit() and value.count(":") == 1:
        raise WrongValue(f"{describe(value)}: a denial is for all ports", "leave the port out")
    try:
        return parse_host(value)
    except ValueError as problem:
        raise WrongValue(str(problem), "write a name or *.name") from None


def _capability(value: object) -> str:
    if not isinstance(value, str):
        raise WrongValue(f"{describe(value)} is not a capability", 'write it in quotes: "network:none"')
    try:
        return str(parse_capability(value))
    except CapabilitySyntaxError as problem:
        raise WrongValue(f"{problem.why} (column {problem.column} of it)", problem.fix) from None


def _feature(value: object) -> str:
    names = tuple(feature.value for feature in Feature)
    if value not in names:
        raise WrongValue(f"there is no feature {describe(value)}", nearest(str(value), names))
    return str(value)


def _of_container(what: str, parse: Callable[[str], str], *words: str) -> Callable[[object], str]:
    """A setting for container engines, or one of some words."""

    def read(value: object) -> str:
        fix = f'write it as in "{EXAMPLES[what]}"'
        if not isinstance(value, str):
            raise WrongValue(f"{describe(value)} is not a text", fix)
        try:
            return value if value in words else parse(value)
        except ValueError as problem:
            raise WrongValue(f"{describe(value)}: {problem}", fix) from None

    return read


_STRING = {"type": "string"}
_QUANTITY = {"type": ["string", "number"]}
_PATH_SCHEMA = {"type": "string", "pattern": r"^(/|~(/|$)|\$\{workspace\}(/|$))"}

_PATTERN_SCHEMA = {"type": "string", "pattern": r"^(/|~(/|$)|\$\{workspace\}(/|$)|\*\*/|[^/]*[*?\[][^/]*/?$)"}

BOOLEAN = Kind("true or false", {"type": "boolean"}, _boolean)
TEXT = Kind("a text", {"type": "string", "minLength": 1}, _text)
ANY_TEXT = Kind("a text", {"type": "string"}, _any_text)
TOOL = Kind("a program", {"type": "string", "pattern": "^([^/]+$|/|~/)"}, _tool)
IMAGE = Kind("an image", {"type": "string", "minLength": 1}, _of_container("image", parse_image))
INSIDE = Kind("a path inside", _STRING, _of_container("workspace", parse_inside, SAME))
PORT = Kind("a port", _STRING, _of_container("port", parse_port))
VOLUME = Kind("a volume", _STRING, _of_container("volume", parse_volume))
USER = Kind("a user", _STRING, _of_container("user", parse_user))
NAME = Kind("a name", _STRING, _of_container("name", parse_name))
MEMORY = Kind("a size", _QUANTITY, _limit("memory:limit", '"2G" or "512MiB"'))
MEMORY_DEFAULT = Kind("a size", _QUANTITY, _limit("memory:default", '"75%" or "8GiB"'))
SIZE = Kind("a size", _QUANTITY, _limit("output:limit", '"100MB" or "1GiB"'))
SHARE = Kind("a share", _QUANTITY, _limit("cpu:limit", '2.0 or "50%"'))
COUNT = Kind("a number", _QUANTITY, _limit("pids:limit", "256"))
FILES = Kind("a number", _QUANTITY, _limit("files:limit", "1024"))
DURATION = Kind("a duration", _QUANTITY, _limit("time:limit", '"90s" or "2m30s"'))
PATH = Kind("a path", _PATH_SCHEMA, _path)
PATTERN = Kind("a path", _PATTERN_SCHEMA, _path_or_pattern)
DOMAIN = Kind("a host", _STRING, _domain)
HOST = Kind("a host", _STRING, _host)
VARIABLE = Kind("a name", _STRING, _grant("env:pass", "write the name of a variable, such as LANG"))
CAPABILITY = Kind("a capability", {"type": "string", "pattern": "^[a-z]+:[a-z]+(:|$)"}, _capability)
FEATURE = Kind("a feature", {"type": "string", "enum": [feature.value for feature in Feature]}, _feature)
