"""The situations whose launches are kept as golden files."""

from __future__ import annotations

from dataclasses import dataclass, field

from corral.backends.registry import BUILTIN, MODULES, get_backend
from corral.model.feature import Feature
from corral.model.plan import Command
from corral.planning.build import build, nested_repositories
from corral.planning.defaults import hold_defaults
from corral.planning.resolved_policy import resolve_policy
from corral.policy.compose import build_policy
from corral.policy.preset import hidden_in_homes
from support.fake_host import FakeHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.plan import Plan
    from corral.model.probe import Probe

#: Those that are for a Mac have cases of their own: support.mac.
LINUX = tuple(name for name in BUILTIN if name not in {"seatbelt", "lima", MODULES})
WORKSPACE = "/home/ann/project"
RUN_ID = "0123456789abcdef"

REPOSITORY = {
    f"{WORKSPACE}/.git/config": "[core]\n\tbare = false\n",
    f"{WORKSPACE}/.git/hooks/": "",
    f"{WORKSPACE}/.git/HEAD": "ref: refs/heads/main",
    f"{WORKSPACE}/README.md": "hello",
    "/home/ann/.gitconfig": "[user]\nname = Ann\nemail = ann@example.org\n[credential]\nhelper = store\n",
}
#: A worktree whose repository lies beside it; both sides point at each other.
LINKED = {
    f"{WORKSPACE}/.git": "gitdir: /home/ann/main/.git/worktrees/project\n",
    "/home/ann/main/.git/worktrees/project/gitdir": f"{WORKSPACE}/.git\n",
    "/home/ann/main/.git/worktrees/project/commondir": "../..\n",
    "/home/ann/main/.git/worktrees/project/HEAD": "ref: refs/heads/topic\n",
    "/home/ann/main/.git/refs/heads/main": "",
    "/home/ann/main/.git/config": "[core]\n\tbare = false\n",
    "/home/ann/main/.git/hooks/": "",
    "/home/ann/main/.git/HEAD": "ref: refs/heads/main",
    "/home/ann/main/.git/objects/": "",
}
TOOLS = {
    "/home/ann/.pyenv/shims/python": "#!/bin/sh",
    "/home/ann/.pyenv/versions/3.11/bin/python3.11": "elf",
    "/home/ann/.pyenv/versions/3.11/lib/python3.11/os.py": "",
    f"{WORKSPACE}/.venv/bin/python": "-> /home/ann/.pyenv/versions/3.11/bin/python3.11",
    f"{WORKSPACE}/.venv/pyvenv.cfg": "home = /home/ann/.pyenv/versions/3.11/bin",
    "/home/ann/.cargo/bin/cargo": "elf",
    "/home/ann/.cargo/credentials.toml": "the secret",
    "/home/ann/.cargo/registry/": "",
    "/home/ann/.rustup/": "",
    "/home/ann/.local/bin/uv": "elf",
    "/home/ann/.local/share/keyrings/login.keyring": "the secret",
}
_PATH = (
    "/home/ann/.pyenv/shims",
    "/home/ann/.cargo/bin",
    "/home/ann/.local/bin",
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
)


BY_GROUPS = frozenset({Feature.LIMIT_MEMORY, Feature.LIMIT_CPU, Feature.LIMIT_CPU_TIME, Feature.LIMIT_PIDS})
_LIMITS = (
    "memory:limit:512MiB",
    "cpu:limit:50%",
    "pids:limit:64",
    "time:limit:90s",
    "output:limit:1MiB",
    "file:limit:100MiB",
    "files:limit:256",
    "disk:limit:100MB",
    "disk:files:1000",
)


@dataclass(frozen=True)
class Case:
    name: str
    preset: str = "moderate"
    files: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    uid: int = 1000
    holds: frozenset[Feature] = BY_GROUPS
    like: str = "moderate-git"  # its golden files are differences from those of this case


CASES = (
    Case("moderate-git", files=REPOSITORY),
    Case("moderate-root", files=REPOSITORY, uid=0),
    Case("strict", "strict", files=REPOSITORY),
    Case("permissive", "permissive", files={**REPOSITORY, "/home/ann/.cache/pip/": ""}),
    Case(
        "deny-inside",
        files={**REPOSITORY, f"{WORKSPACE}/secrets/key": "the secret"},
        capabilities=("filesystem:deny:${workspace}/secrets", "filesystem:deny:${workspace}/later"),
    ),
    Case(
        "patterns",
        files={**REPOSITORY, f"{WORKSPACE}/deep/a.pem": "the secret", f"{WORKSPACE}/bin/run.sh": "#!"},
        capabilities=("filesystem:deny:*.pem", "filesystem:protect:bin/*.sh"),
    ),
    Case("deny-repository", files=REPOSITORY, capabilities=("filesystem:deny:${workspace}/.git",)),
    Case("linked-worktree", files=LINKED),
    Case("tools", files={**REPOSITORY, **TOOLS}, env={"PATH": ":".join(_PATH)}),
    Case("net-full", files=REPOSITORY, capabilities=("network:full",)),
    Case(
        "net-named",
        files=REPOSITORY,
        capabilities=("network:https:api.example.com", "network:tcp:db.example.com:5432", "traffic:rate:1MB"),
    ),
    Case("limits", files=REPOSITORY, capabilities=(*_LIMITS, "cpu:time:30s")),
    Case("limits-without-groups", files=REPOSITORY, capabilities=_LIMITS, holds=frozenset(), like="limits"),
    Case(
        "limits-without-groups-root",
        files=REPOSITORY,
        capabilities=_LIMITS,
        holds=frozenset(),
        uid=0,
        like="limits-without-groups",
    ),
    Case("single", files=REPOSITORY, capabilities=("process:none",)),
    Case("deny-syscalls", files=REPOSITORY, capabilities=("syscall:deny:chmod", "env:set:MODE=test")),
)


def host_of(case: Case) -> FakeHost:
    return FakeHost(case.files, env=case.env, uid=case.uid, cwd=WORKSPACE, holds=case.holds)


def fake_probe(name: str, host: FakeHost | None = None) -> Probe:
    return get_backend(name).probe(host or FakeHost(holds=BY_GROUPS))


def plan_of(case: Case, probe: Probe) -> Plan:
    """The plan of a case, its run identifier fixed; what a backend does not claim is waived."""
    host = host_of(case)
    policy = build_policy(case.preset, case.capabilities)
    resolved = resolve_policy(policy, WORKSPACE, host, hidden_in_homes())
    command = Command(("/bin/sh", "-c", "make"), WORKSPACE)
    plan = build(
        policy,
        command,
        resolved,
        host,
        run_id=RUN_ID,
        nested=nested_repositories(resolved, host),
        waived=resolved.requires - probe.enforces,
    )
    return hold_defaults(plan, probe)
