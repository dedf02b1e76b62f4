"""Words about container engines: what they say when they fail, which versions will do, where they listen.

Nothing here decides what is enforced; it is what people read.
"""

from __future__ import annotations

from corral.model.container import DEFAULT_IMAGE
from corral.model.feature import Feature
from corral.model.launch import Fetch, StartFailure

DOCKER, PODMAN = "docker", "podman"

#: Where an engine claims less.
CONDITIONS = (
    (
        frozenset({Feature.LIMIT_MEMORY, Feature.LIMIT_CPU, Feature.LIMIT_CPU_TIME, Feature.LIMIT_PIDS}),
        "needs an engine with control groups and their controllers",
    ),
    (frozenset({Feature.FS_WRITE}), "needs Landlock"),
)

#: Why they are not used from macOS and Windows. cli/windows.py, which imports nothing, says the same.
ELSEWHERE = (
    "its containers are in a virtual machine with a separate Linux (Docker Desktop), in which the launcher "
    "could not see that what is mounted is what was meant"
)
ELSEWHERE_FIX = (
    "use --backend seatbelt or lima on a Mac; on Windows install corral inside WSL2, which is Linux "
    "and reaches Docker Desktop's engine too"
)

#: Of the caller's environment, what the engines' command lines depend on. They are given nothing else.
VARIABLES = {
    DOCKER: (
        *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
        *("DOCKER_API_VERSION", "XDG_RUNTIME_DIR", "HOME", "PATH"),
    ),
    PODMAN: (
        *("CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE", "CONTAINERS_STORAGE_CONF"),
        *("STORAGE_DRIVER", "STORAGE_OPTS", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
        *("DBUS_SESSION_BUS_ADDRESS", "TMPDIR", "HOME", "PATH"),
    ),
}

#: Where engines listen. Whoever can connect there is root on the host, or as good as its owner.
SYSTEM_SOCKETS = (
    *("/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"),
    *("/run/crio/crio.sock", "/run/buildkit/buildkitd.sock"),
)
HOME_SOCKETS = (
    *(".docker/run/docker.sock", ".docker/desktop/docker.sock", ".colima/default/docker.sock"),
    *(".orbstack/run/docker.sock", ".rd/docker.sock", ".lima/docker/sock/docker.sock"),
)
RUNTIME_SOCKETS = ("docker.sock", "podman/podman.sock", "containerd-rootless/api.sock")


#: What has every option that corral relies on.
LEAST_VERSIONS = {DOCKER: (20, 10), PODMAN: (4, 0)}

_MISSING = ("No such image", "image not known", "Unable to find image")
_DENIED = ("permission denied while trying to connect",)
_UNREACHABLE = (
    *("Cannot connect to the Docker daemon", "failed to connect to the docker API"),
    *("error during connect", "unable to connect to Podman", "Cannot connect to Podman"),
)
_TAKEN = "is already in use"
_BLIND = ("bind source path does not exist", "statfs /")


def describe_denied(engine: str) -> tuple[str, str]:
    """(reason, fix) for a caller who may not use the engine."""
    return (
        f"the caller may not use the {engine} engine: permission denied on its socket",
        "join its group (`sudo usermod -aG docker $USER`, then `newgrp docker`; that is as good as root), "
        "or use a rootless engine or --backend podman",
    )


def describe_unreachable(engine: str) -> tuple[str, str]:
    """(reason, fix) for an engine that does not answer."""
    fixes = {
        DOCKER: "start it (`sudo systemctl start docker`), or fix DOCKER_HOST or the context of docker",
        PODMAN: "unset CONTAINER_HOST, so that podman runs locally",
    }
    return f"the {engine} engine cannot be reached", fixes[engine]


def read_complaint(text: str, engine: str, command: str = "info") -> tuple[str, str]:
    """(reason, fix) for what an engine said instead of an answer."""
    if any(needle in text for needle in _DENIED):
        return describe_denied(engine)
    if any(needle in text for needle in _UNREACHABLE):
        return describe_unreachable(engine)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = lines[-1][:300] if lines else "it said nothing"
    return f"`{engine} {command}` failed: {said}", f"run `{engine} info` and fix what it complains about"


def advise_storage(engine: str, driver: str) -> str:
    """What makes starts slow, and what would make them quick; empty if nothing does."""
    if driver != "vfs":
        return ""
    slow = "its storage driver is vfs, which copies the whole image for every container"
    if engine == DOCKER:
        return f'{slow}: set "storage-driver": "overlay2" in its daemon.json; images have to be made again'
    return (
        f'{slow}: with Linux 5.13, or with fuse-overlayfs installed, set `driver = "overlay"` in '
        "storage.conf (~/.config/containers; for root /etc/containers) and run `podman system reset`, which "
        "removes all images"
    )


def start_failures(engine: str, image: str, name: str = "") -> tuple[StartFailure, ...]:
    """What it means when no container came to be, by what the engine said. The first that fits counts."""
    denied, unreachable = describe_denied(engine), describe_unreachable(engine)
    found = [
        StartFailure(
            _TAKEN,
            "container-name",
            f"there is a container {name!r} already",
            f"choose another name, or remove that one (`{engine} rm {name}`) if it is yours",
        ),
        *(StartFailure(needle, "engine-denied", *denied) for needle in _DENIED),
        *(StartFailure(needle, "engine-unreachable", *unreachable) for needle in _UNREACHABLE),
        *(
            StartFailure(needle, "image-missing", f"there is no image {image!r}", _how_to_get(engine, image))
            for needle in _MISSING
        ),
        StartFailure(
            "no space left on device",
            "engine-disk-full",
            f"the {engine} engine has no space left",
            f"free some space where it keeps its data (`{engine} system df`, `{engine} system prune`)",
        ),
        StartFailure(
            "error setting rlimit",
            "engine-failed",
            f"the {engine} engine may not set the limits (`ulimit`) that it is configured with",
            "lower the default ulimits in its configuration, or raise the hard limits it is started with",
        ),
        *(
            StartFailure(
                needle,
                "engine-blind",
                f"the {engine} engine does not see the files of this machine as the caller does",
                "point TMPDIR to a directory that it sees (an engine from a snap sees the home only)",
            )
            for needle in _BLIND
        ),
        StartFailure(
            "",
            "engine-failed",
            f"the {engine} engine could not start the container",
            f"read what it said; `{engine} info` and `corral doctor` may say more",
        ),
    ]
    return tuple(found)


def is_own_image(image: str) -> bool:
    """Whether corral builds it. TRUST: no registry has one of that name that is corral's."""
    return image.partition(":")[0].partition("@")[0] == DEFAULT_IMAGE.partition(":")[0]


def fetch_request(program: str, image: str) -> Fetch | None:
    """How an image is looked for, and fetched if it is not there; None for those that are built here."""
    if is_own_image(image):
        return None
    look = (program, "image", "inspect", "--format", "{{.Id}}", image)
    return Fetch(image, look, (program, "pull", "--quiet", image))


def _how_to_get(engine: str, image: str) -> str:
    if not is_own_image(image):
        return f'`{engine} pull {image}`, or `container.pull = "missing"` in your own configuration'
    variant = image.partition(":")[2] or "latest"
    return f"`corral image build {variant}`"
