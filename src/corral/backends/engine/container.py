"""What a user says about the container itself: its image, volumes and ports. Checked, and as arguments."""

from __future__ import annotations

from corral.backends.engine.mounts import View, check_place, is_beneath, join_words
from corral.linux import landlock
from corral.linux.spec import Expect, ExpectFlag, PathRule
from corral.model.container import WRITABLE
from corral.model.errors import PolicyError, UnenforceableError
from corral.model.feature import Feature
from corral.model.policy import FsAccess, NetMode
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.backends.engine.mounts import Place
    from corral.model.container import Container
    from corral.model.plan import Grant, Plan, ResolvedPolicy

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_IMAGE_MARKS = _LETTERS | frozenset("._-/:@+")
_LOOPBACK = "127.0.0.1"


class Volume(Record):
    """A volume that the engine keeps, by its name."""

    name: str
    path: str
    read_only: bool

    def argument(self) -> str:
        """The value of `--mount`."""
        words = ["type=volume", f"src={self.name}", f"dst={self.path}"]
        return join_words([*words, "readonly"] if self.read_only else words)

    def expect(self) -> Expect:
        """A mount of its own; nobody knows its number beforehand."""
        flags = ExpectFlag.OTHER | ExpectFlag.MOUNT_POINT
        return Expect(self.path, flags | ExpectFlag.READ_ONLY if self.read_only else flags)

    def rule(self, abi: int) -> PathRule:
        """The same for Landlock."""
        rights = landlock.read_rights if self.read_only else landlock.write_rights
        return PathRule(rights(abi, is_directory=True), self.path)


_TRANSPORTS = frozenset(
    {"dir", "oci", "oci-archive", "docker-archive", "docker-daemon", "containers-storage"}
)


def check_image(image: str) -> str:
    """Return the name of an image. Raises PolicyError for what would be read as something else."""
    # Podman takes `oci:/a/path` for a place to load an image from, whoever has written it.
    is_elsewhere = "//" in image or ":/" in image or image.partition(":")[0] in _TRANSPORTS
    if not image or image[0] not in _LETTERS or not set(image) <= _IMAGE_MARKS or is_elsewhere:
        raise PolicyError(
            "container-image",
            f"{image!r} is not the name of an image",
            why="a name begins with a letter or digit, and holds letters, digits and . _ - / : @ besides",
            fix="write it as in `docker images`, such as python:3.12-slim",
        )
    return image


def check_workspace(path: str) -> None:
    """Raise PolicyError for a place that the workspace cannot have. Empty: its own."""
    if path:
        _check_absolute(path, "the workspace")
        check_place(path)


def check_root(container: Container, plan: Plan, *, is_owner: bool) -> None:
    """Raise for a root that would be writable in name only, or that no limit of the policy's holds."""
    if container.root != WRITABLE:
        return
    if not is_owner:
        raise PolicyError(
            "container-root",
            "the root of the container cannot be writable",
            why="the files of the image belong to root, and with an engine that runs as root you are not",
            fix="use a rootless engine, such as --backend podman, or leave out container.root",
        )
    limits = plan.resolved.limits
    unheld = frozenset(
        feature
        for feature, limit in (
            (Feature.LIMIT_DISK, limits.disk_bytes),
            (Feature.LIMIT_DISK_FILES, limits.disk_files),
        )
        if limit is not None
    )
    if unheld - plan.waived:
        raise UnenforceableError(
            "unenforceable",
            "a writable root has no limit of disk",
            why="it is where the engine keeps its data, and no engine bounds it everywhere",
            fix="leave out container.root, or the limit of disk",
            lacking=unheld,
        )


def read_volumes(
    container: Container, resolved: ResolvedPolicy
) -> tuple[tuple[Volume, ...], tuple[View, ...]]:
    """Volumes of the engine, and granted paths of the host that are to appear elsewhere.

    Raises PolicyError for what cannot be read, and for a path that the policy does not grant.
    """
    named, views = [], []
    for text in container.volumes:
        source, path, read_only = _split(text)
        _check_absolute(path, f"the volume {text!r}")
        check_place(path)
        if source.startswith("/"):
            views.append(_granted_view(source, path, resolved, read_only=read_only))
            continue
        if source[0] not in _LETTERS or not set(source) <= _LETTERS | frozenset("._-"):
            raise _bad_volume(text, "a name has letters, digits and . _ - only")
        named.append(Volume(source, path, read_only))
    return tuple(named), tuple(views)


def check_volumes(named: Iterable[Volume], placed: Iterable[Place]) -> None:
    """Raise PolicyError for a volume in a path of the host: the engine would make its place there."""
    tops = [place.path for place in placed]
    for volume in named:
        inside = next((top for top in tops if is_beneath(volume.path, top)), "")
        if inside:
            raise _bad_volume(
                f"{volume.name}:{volume.path}", f"{inside} is the host's, and nothing is made there"
            )


def publish_arguments(container: Container, net: NetMode) -> Iterator[str]:
    """Ports of the host that lead into the container: on the loopback address, unless one is given."""
    if container.ports and net is not NetMode.FULL:
        raise PolicyError(
            "container-ports",
            f"the port {container.ports[0]!r} cannot be published",
            why="the policy grants no network, and a published port is a way in",
            fix="grant `network:full`, or publish no port",
        )
    for text in container.ports:
        yield from ("--publish", _port(text))


def listening(container: Container) -> tuple[str, ...]:
    """What has to listen on this machine where ports are published: protocol, address, port."""
    found = []
    for text in map(_port, container.ports):
        mapping, _, protocol = text.partition("/")
        address, port, _ = mapping.rsplit(":", 2)
        found.append(f"{protocol or 'tcp'} {address.strip('[]')} {port}")
    return tuple(found)


def _port(text: str) -> str:
    mapping, slash, protocol = text.partition("/")
    address, _, rest = mapping.rpartition("]:") if mapping.startswith("[") else ("", "", mapping)
    parts = rest.split(":")
    if address:
        address += "]"
    elif len(parts) == 3:
        address = parts.pop(0)
    numbers = len(parts) == 2 and all(map(_is_port, parts))
    plain = set(address) <= frozenset("0123456789abcdefABCDEF.:[]")
    if not numbers or not plain or (slash and protocol not in {"tcp", "udp"}):
        raise PolicyError(
            "container-ports",
            f"{text!r} is not a port to publish",
            why="it has the form [ADDRESS:]HOST:CONTAINER[/udp]",
            fix="write 8080:80, or 0.0.0.0:8080:80 for other machines as well",
        )
    return f"{address or _LOOPBACK}:{':'.join(parts)}{slash}{protocol}"


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536


def _split(text: str) -> tuple[str, str, bool]:
    """SOURCE:/PATH[:ro]. The place begins at the last `:/`, so a source may hold colons."""
    body, read_only = (text[:-3], True) if text.endswith(":ro") else (text.removesuffix(":rw"), False)
    source, colon, path = body.rpartition(":/")
    if not source or not colon:
        raise _bad_volume(
            text, "it has the form NAME:/PATH or /GRANTED/PATH:/PATH, with :ro at the end if so meant"
        )
    return source, f"/{path}", read_only


def _granted_view(source: str, path: str, resolved: ResolvedPolicy, *, read_only: bool) -> View:
    named = (grant for grant in resolved.grants if not grant.is_system)
    grant = next((each for each in named if _is_at(each, source)), None)
    if grant is None:
        access = "read" if read_only else "write"
        raise _ungranted(source, "the policy does not grant that very path", access)
    if not read_only and grant.access is not FsAccess.WRITE:
        raise _ungranted(source, "the policy grants it for reading only", "write")
    return View(grant.target.path, path, read_only)


def _is_at(grant: Grant, source: str) -> bool:
    return source in {grant.target.path, grant.target.requested}


def _check_absolute(path: str, what: str) -> None:
    if not path.startswith("/") or any(part in {"", ".", ".."} for part in path[1:].split("/")):
        raise PolicyError(
            "container-place",
            f"{what} cannot be at {path!r}",
            why="a place in a container is an absolute path, without . and .. and double slashes",
            fix="write a path such as /workspace",
        )


def _bad_volume(text: str, why: str) -> PolicyError:
    return PolicyError(
        "container-volume",
        f"the volume {text!r} cannot be mounted",
        why=why,
        fix="write name:/path, or /granted/path:/path:ro; `corral explain` shows what is granted",
    )


def _ungranted(source: str, why: str, access: str) -> PolicyError:
    return PolicyError(
        "container-volume",
        f"{source} cannot be mounted as a volume",
        why=why,
        fix=f"add `filesystem:{access}:{source}` to the policy, or :ro to the volume",
    )
