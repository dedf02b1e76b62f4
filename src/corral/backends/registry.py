"""Registry: the backends by name, in the order in which `auto` prefers them. One line each."""

from __future__ import annotations

from importlib import import_module

from corral.model.errors import PolicyError

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
    "wasm": "corral.backends.wasm:WasmBackend",
    "none": "corral.backends.none:NoneBackend",
}
#: What `auto` tries on each platform, in this order, as far as this version has it. `none` is never among
#: them, nor `wasm`, which runs modules and no commands: they must be asked for by name.
AUTO = {
    "linux": ("native", "landlock", "bubblewrap", "firejail", "podman", "docker"),
    "darwin": ("seatbelt", "lima", "docker", "podman"),
    "win32": ("docker",),
}

#: Claims that no test of this project proves, since it needs a platform that the tests do not run on, and
#: what is tested instead.
UNPROVED = {
    "seatbelt": "it needs macOS; here a stand-in for sandbox-exec proves its claims",
    "lima": "it needs a virtual machine; only its instructions are tested",
}

#: It runs WebAssembly modules; commands that are none it cannot start. Its claims are proved with modules.
MODULES = "wasm"

AUTO_NAME = "auto"
UNCONFINED = "none"
#: Every name that a configuration may hold, those of other platforms included.
NAMES = (AUTO_NAME, *BUILTIN)
#: Those that run commands in containers, and need an image.
ENGINES = frozenset({"docker", "podman"})
#: Those that `auto` may be told to choose from.
CONFINING = tuple(name for name in NAMES if name not in {AUTO_NAME, UNCONFINED, MODULES})


def get_backend(name: str) -> Backend:
    """Return a backend by name. Raises PolicyError for an unknown one."""
    if name not in BUILTIN:
        raise PolicyError(
            "unknown-backend",
            f"there is no backend {name!r}",
            why=f"the backends are {', '.join((AUTO_NAME, *BUILTIN))}",
            fix="choose one of them",
        )
    module, _, attribute = BUILTIN[name].partition(":")
    backend: Backend = getattr(import_module(module), attribute)()
    return backend


def names_for(choice: str, platform: str, order: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The backends to try, in order, for what the user chose; `order` takes the place of `auto`'s own."""
    if choice != AUTO_NAME:
        return (choice,)
    return tuple(name for name in order or AUTO.get(platform, ()) if name in BUILTIN)


def check_runs_commands(name: str) -> None:
    """Raise PolicyError for a backend on which no command can be tried."""
    if name == MODULES:
        raise PolicyError(
            "modules-only",
            f"no command can be tried on {MODULES}",
            why="it runs WebAssembly modules, and no commands",
            fix="try modules: `corral selftest isolation`, limits, capabilities or violations",
        )


def check_order(order: tuple[str, ...]) -> None:
    """Raise PolicyError for an order that `auto` cannot follow."""
    for name in order:
        if name not in CONFINING:
            raise PolicyError(
                "auto-order",
                f"`auto` cannot choose {name!r}",
                why=f"`{UNCONFINED}` confines nothing, and must be chosen explicitly"
                if name == UNCONFINED
                else f"{MODULES} runs modules, and no commands"
                if name == MODULES
                else f"it chooses among {', '.join(CONFINING)}",
                fix="leave it out of `backends`",
            )
