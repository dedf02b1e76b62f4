"""Registry: the backends by name, in the order in which `auto` prefers them. One line each."""

from __future__ import annotations

from importlib import import_module

from corral.model.errors import PolicyError, UnenforceableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.backend import Backend

BUILTIN = {
    "native": "corral.backends.native:NativeBackend",
    "landlock": "corral.backends.landlock:LandlockBackend",
    "bubblewrap": "corral.backends.bubblewrap:BubblewrapBackend",
    "firejail": "corral.backends.firejail:FirejailBackend",
    "podman": "corral.backends.podman:PodmanBackend",
    "docker": "corral.backends.docker:DockerBackend",
    "seatbelt": "corral.backends.seatbelt:SeatbeltBackend",
    "lima": "corral.backends.lima:LimaBackend",
    "none": "corral.backends.none:NoneBackend",
}
#: What `auto` tries on each platform. `none` is never among them: it must be asked for by name.
AUTO = {
    "linux": ("native", "landlock", "bubblewrap", "firejail", "podman", "docker"),
    "darwin": ("seatbelt", "lima", "docker", "podman"),
}

AUTO_NAME = "auto"
UNCONFINED = "none"
#: Every name that a configuration may hold, those of other platforms and of later versions included.
NAMES = (
    *(AUTO_NAME, "native", "landlock", "bubblewrap", "firejail", "docker", "podman"),
    *("lima", "seatbelt", "wasm", UNCONFINED),
)


def get_backend(name: str) -> Backend:
    """Return a backend by name. Raises PolicyError for an unknown one."""
    if name in NAMES and name not in BUILTIN:
        raise UnenforceableError(
            "backend-missing",
            f"the backend {name!r} cannot be used",
            why="this version of corral does not have it",
            fix=f"choose another: {', '.join((AUTO_NAME, *BUILTIN))}",
        )
    if name not in BUILTIN:
        raise PolicyError(
            "unknown-backend",
            f"there is no backend {name!r}",
            why=f"the backends are {', '.join((AUTO_NAME, *BUILTIN))}",
            fix="choose one of them with --backend",
        )
    module, _, attribute = BUILTIN[name].partition(":")
    backend: Backend = getattr(import_module(module), attribute)()
    return backend


def names_for(choice: str, platform: str) -> tuple[str, ...]:
    """The backends to try, in order, for what the user chose."""
    return AUTO.get(platform, ()) if choice == AUTO_NAME else (choice,)
