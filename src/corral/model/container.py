"""Container: what a container engine is told besides the policy. Other backends have no use for it."""

from __future__ import annotations

from corral.model.arguments import wrong_argument
from corral.model.errors import PolicyError
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_IMAGE = "corral/sandbox:latest"
#: Where the workspace appears inside, unless it keeps its own path.
WORKSPACE = "/workspace"

_ALPHANUMERIC = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_IMAGE_CHARACTERS = _ALPHANUMERIC | frozenset("._-/:@")
_NAME_CHARACTERS = _ALPHANUMERIC | frozenset("._-")
_MOST_CHARACTERS = 512
_MOST_PORT = 65_535


class Container(Record):
    image: str = DEFAULT_IMAGE
    workspace: str = WORKSPACE  # empty: its own path
    ports: tuple[str, ...] = ()  # "[address:]host:container[/udp]", with `network:full` only
    volumes: tuple[str, ...] = ()  # "name:/path[:ro]", or "/granted/path:/path[:ro]"
    entrypoint: tuple[str, ...] = ()  # put before every command


def check_container(container: Container) -> None:
    """Raise PolicyError for what no engine should be told."""
    if not isinstance(container, Container):
        raise wrong_argument("container", container, "a corral.Container", "corral.Container(image='x')")
    _check("image", container.image, parse_image)
    if container.workspace:
        _check("workspace", container.workspace, parse_inside)
    for port in container.ports:
        _check("port", port, parse_port)
    for volume in container.volumes:
        _check("volume", volume, parse_volume)


def _check(what: str, text: str, parse: Callable[[str], str]) -> None:
    try:
        parse(text)
    except ValueError as problem:
        raise PolicyError(
            "container-setting",
            f"{text!r} cannot be the {what} of a container",
            why=str(problem),
            fix=f"write it as in {EXAMPLES[what]}",
        ) from None


#: How each setting is written.
EXAMPLES = {
    "image": "python:3.12-slim",
    "workspace": WORKSPACE,
    "port": "127.0.0.1:8080:80",
    "volume": "cache:/cache",
}


def parse_image(text: str) -> str:
    """The name of an image. Raises ValueError.

    TRUST: it becomes an argument of the engine, and one that begins with `-` would be an option.
    """
    if not text or len(text) > _MOST_CHARACTERS or text[0] not in _ALPHANUMERIC:
        raise ValueError("the name of an image begins with a letter or a digit")
    if not _IMAGE_CHARACTERS.issuperset(text):
        raise ValueError("the name of an image has letters, digits and . _ - / : @")
    return text


def parse_inside(text: str) -> str:
    """A path inside the container. Raises ValueError."""
    parts = text.split("/")[1:]
    if not text.startswith("/") or text == "/" or not all(parts) or {".", ".."} & set(parts):
        raise ValueError("a path inside is absolute, without `.`, `..` or a slash too many, and not / itself")
    if not text.isprintable() or len(text) > _MOST_CHARACTERS or set(text) & set(":,"):
        raise ValueError("a path inside has no colon, no comma and nothing that cannot be printed")
    return text


def parse_port(text: str) -> str:
    """`[address:]host:container[/udp]`. Raises ValueError."""
    numbers, slash, protocol = text.partition("/")
    if slash and protocol not in {"tcp", "udp"}:
        raise ValueError("the protocol of a port is tcp or udp")
    rest, _, inside = numbers.rpartition(":")
    address, colon, outside = rest.rpartition(":")
    if not all(
        number.isascii() and number.isdigit() and 0 < int(number) <= _MOST_PORT
        for number in (inside, outside)
    ):
        raise ValueError("a port is published as [ADDRESS:]HOST:CONTAINER, both of them numbers up to 65535")
    if colon and not _is_address(address):
        raise ValueError("the address is that of an interface, an IPv6 one in brackets")
    return text


def _is_address(text: str) -> bool:
    import ipaddress

    try:
        if text.startswith("[") and text.endswith("]"):
            return bool(ipaddress.IPv6Address(text[1:-1]))
        return bool(ipaddress.IPv4Address(text))
    except ValueError:
        return False


def parse_volume(text: str) -> str:
    """`name:/path[:ro]` or `/path/of/the/host:/path[:ro]`. Raises ValueError."""
    source, _, rest = text.partition(":")
    target, colon, mode = rest.partition(":")
    if colon and mode not in {"ro", "rw"}:
        raise ValueError("the mode of a volume is ro or rw")
    parse_inside(target)
    if source.startswith("/"):
        parse_inside(source)
    elif not source or source[0] not in _ALPHANUMERIC or not _NAME_CHARACTERS.issuperset(source):
        raise ValueError("the name of a volume has letters, digits and . _ -")
    return text
