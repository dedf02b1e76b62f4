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
_MOST_NAME = 128
_MOST_PORT = 65_535
_MOST_ID = 2**32 - 2  # the one above stands for nobody at all

#: Who the command is inside: the caller's own numbers, or 0.
CALLER, ROOT = "caller", "root"
#: When an image is fetched: never, or where the engine does not have it.
NEVER, MISSING = PULLS = ("never", "missing")
#: Which network `network:full` means: that of the host, or one of the engine's own.
HOST, BRIDGE = NETWORKS = ("host", "bridge")
#: Whether what the image holds can be changed, for as long as the container lasts.
READ_ONLY, WRITABLE = ROOTS = ("read-only", "writable")


class Container(Record):
    image: str = DEFAULT_IMAGE
    workspace: str = WORKSPACE  # empty: its own path
    ports: tuple[str, ...] = ()  # "[address:]host:container[/udp]", with `network:full` only
    volumes: tuple[str, ...] = ()  # "name:/path[:ro]", or "/granted/path:/path[:ro]"
    entrypoint: tuple[str, ...] = ()  # put before every command
    user: str = CALLER  # "root" or "UID[:GID]" inside; outside it is the caller in every case
    name: str = ""  # of the container; empty: one of its own for each run
    start_seconds: float | None = None  # until it must have started
    pull: str = NEVER
    network: str = HOST  # with `network:full` only
    root: str = READ_ONLY
    keep: bool = False  # the engine keeps the container when the run is over


def describe_container(container: Container) -> tuple[str, ...]:
    """What is said of it that is not the default, but for the image: `root writable`."""
    plain = Container()
    return tuple(
        f"{name} {' '.join(value) if isinstance(value, tuple) else value}"
        for name in container._fields
        if (value := getattr(container, name)) != getattr(plain, name) and name != "image"
    )


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
    _check("user", container.user, parse_user)
    if container.name:
        _check("name", container.name, parse_name)
    for what, value, choices in (
        ("pull", container.pull, PULLS),
        ("network", container.network, NETWORKS),
        ("root", container.root, ROOTS),
    ):
        if value not in choices:
            raise PolicyError(
                "container-setting",
                f"{value!r} cannot be the {what} of a container",
                why=f"it is one of {', '.join(choices)}",
                fix=f"write {what}={choices[1]!r}, or leave it out",
            )
    seconds = container.start_seconds
    if seconds is not None and not (isinstance(seconds, int | float) and 0 < seconds < float("inf")):
        raise wrong_argument("start_seconds", seconds, "a number of seconds above 0", "start_seconds=120")


def _check(what: str, text: str, parse: Callable[[str], str]) -> None:
    if not isinstance(text, str):
        raise wrong_argument(what, text, "a text", f"{what}={EXAMPLES[what]!r}")
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
    "user": "1000:1000",
    "name": "my-review",
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


def parse_user(text: str) -> str:
    """`caller`, `root` or `UID[:GID]`. Raises ValueError."""
    if text != CALLER:
        user_ids(text)
    return text


def user_ids(text: str) -> tuple[int, int]:
    """User and group inside, of anyone but `caller`. Raises ValueError.

    Numbers only: what a name means is up to the image.
    """
    if text == ROOT:
        return 0, 0
    user, colon, group = text.partition(":")
    numbers = [user, group] if colon else [user, user]
    if not all(number.isascii() and number.isdigit() and int(number) <= _MOST_ID for number in numbers):
        raise ValueError(f"a user is `{CALLER}`, `{ROOT}` or numbers: UID or UID:GID")
    return int(numbers[0]), int(numbers[1])


def parse_name(text: str) -> str:
    """The name of a container. Raises ValueError."""
    if (
        not 1 < len(text) <= _MOST_NAME
        or text[0] not in _ALPHANUMERIC
        or not _NAME_CHARACTERS.issuperset(text)
    ):
        raise ValueError("the name of a container has letters, digits and . _ -, two of them or more")
    return text
