"""Backend and Host: the whole extension surface, and the one door to the machine."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from corral.model.enforcer import Enforcer
    from corral.model.launch import Launch
    from corral.model.plan import FileStamp, Plan
    from corral.model.probe import Entries, LaunchTrial, ModuleRunner, Probe, Stat, ToolRun

    class Backend(Protocol):
        """One way to enforce a plan.

        One that asks programs of the host, or whose answer depends on the caller's environment, has an
        attribute `depends` as well: a `Dependence`.
        """

        name: str

        def probe(self, host: Host) -> Probe:
            """Say what this host offers. Never raises, never writes."""

        def lower(self, plan: Plan, probe: Probe) -> Launch:
            """Turn a plan into a launch. Pure: the same plan and probe give the same launch.

            Must name a mechanism in `enforced` for every required feature that the probe claims.
            """

    class Host(Protocol):
        """Ambient authority, behind one door. Tests have another implementation."""

        platform: str
        machine: str
        uid: int
        gid: int
        home: str

        def environment(self) -> Mapping[str, str]:
            """The caller's environment."""

        def cwd(self) -> str:
            """The caller's working directory."""

        def lstat(self, path: str) -> Stat | None:
            """Look at a path without following its last link; None if there is nothing."""

        def readlink(self, path: str) -> str:
            """The text of a symbolic link."""

        def links(self, path: str) -> tuple[str, ...]:
            """Names of the symbolic links in a directory; empty if it cannot be listed."""

        def subdirectories(self, path: str) -> tuple[str, ...]:
            """Names of the directories in a directory, links left out; empty if it cannot be listed."""

        def entries(self, path: str) -> Entries | None:
            """The names in a directory; None if it cannot be listed."""

        def read_text(self, path: str, limit_bytes: int) -> str:
            """The beginning of a file; empty if it cannot be read."""

        def stamp(self, path: str) -> FileStamp:
            """How a file is that may be read; what it leads to, if it is a link."""

        def launcher(self) -> tuple[str, str]:
            """Path of corral-launch, or an empty path and the reason why there is none."""

        def landlock_abi(self) -> int:
            """The kernel's Landlock ABI; 0 if it has none."""

        def enforcers(self) -> tuple[Enforcer, ...]:
            """What can hold limits for a whole tree, proved, the best first."""

        def processors(self) -> tuple[int, int]:
            """How many processors the caller may use now, and how many there are."""

        def try_launch(self, spec: bytes) -> LaunchTrial:
            """Run the launcher with a spec and say how far it came."""

        def which(self, name: str) -> str:
            """The absolute path of a program on the caller's PATH; empty if there is none."""

        def tool_path(self) -> str:
            """The caller's PATH, without where commands may have put programs: for tools that use others."""

        def run_tool(self, argv: tuple[str, ...], *, seconds: float = 10.0) -> ToolRun:
            """Ask a program of the host something, with the caller's environment and without any input."""

        def try_outer(self, launch: Launch) -> LaunchTrial:
            """Carry out a launch that has an outer program, and say how far its launcher came."""

        def corral_files(self) -> tuple[str, ...]:
            """Directories that corral itself runs from."""

        def control_directories(self) -> tuple[str, ...]:
            """Where named sessions are reached: hidden from every command."""

        def module_runner(self) -> ModuleRunner:
            """What runs a WebAssembly module, or why there is nothing that can."""

        def copies_directory(self) -> str:
            """Where the runner may keep copies of configurations; empty if nowhere. Never granted."""

        def temporary_directory(self) -> str:
            """Where private scratch directories go."""
