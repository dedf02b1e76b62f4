"""A Mac in memory, and the situations whose launches there are kept as golden files."""

from __future__ import annotations

import json

from corral import __version__
from corral.backends.registry import get_backend
from corral.model.feature import Feature
from corral.model.plan import Command, StdioMode
from corral.model.probe import ToolRun
from corral.model.rules.pattern import escape
from corral.planning.build import build, nested_repositories
from corral.planning.resolved_policy import resolve_policy
from corral.policy.compose import build_policy
from support.fake_host import FakeHost
from support.golden_cases import RUN_ID, Case

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from corral.model.plan import Plan
    from corral.model.policy import Policy
    from corral.model.probe import Probe

#: The backends for it.
MAC = ("seatbelt", "lima")
HOME = "/Users/ada"
WORKSPACE = "/Users/ada/project"
SCRATCH = "/private/tmp"
PROFILES = f"{HOME}/.local/state/corral/profiles"

#: What every Mac has.
SYSTEM = {
    "/usr/bin/sandbox-exec": "elf",
    "/usr/bin/git": "elf",
    "/usr/lib/dyld": "elf",
    "/usr/sbin/": "",
    "/bin/sh": "elf",
    "/sbin/": "",
    "/System/Library/Frameworks/": "",
    "/Library/": "",
    "/private/tmp/": "",
    "/private/var/tmp/": "",
    "/private/etc/hosts": "127.0.0.1 localhost",
    "/private/etc/passwd": "root:*:0:0",
    "/private/etc/master.passwd": "the secret",
    "/tmp": "-> private/tmp",
    "/var": "-> private/var",
    "/etc": "-> private/etc",
    "/opt/corral/bin/corral-launch": "",
    f"{HOME}/.ssh/id_ed25519": "the secret",
    f"{HOME}/Library/Keychains/": "",
}
_GUEST = {
    "v": 1,
    "corral": __version__,
    "backends": [
        {"backend": "native", "available": True, "enforces": sorted(feature.value for feature in Feature)},
        {"backend": "landlock", "available": False, "enforces": []},
        {"backend": "none", "available": True, "enforces": ["environment"]},
    ],
}
INSTANCE = {
    "name": "default",
    "status": "Running",
    "config": {
        "mounts": [
            {"location": "/Users/ada", "mountPoint": "/Users/ada", "writable": True},
            {"location": "/opt/data", "writable": False},
            {"location": "/private", "mountPoint": "/mnt/private", "writable": True},
        ]
    },
}
LIMACTL: Mapping[str, ToolRun] = {
    "list --json": ToolRun(0, json.dumps({"name": "other"}) + "\n" + json.dumps(INSTANCE) + "\n"),
    "shell --workdir / default corral doctor --json": ToolRun(0, json.dumps(_GUEST)),
}
SANDBOX_EXEC: Mapping[str, Mapping[str, ToolRun]] = {
    "sandbox-exec": {
        "-p (version 1)(allow default) ": ToolRun(0, "127.0.0.1 localhost\n"),
        "-p (version 1)(allow default)(deny": ToolRun(1, "", "cat: /etc/hosts: Operation not permitted\n"),
    }
}


class MacHost(FakeHost):
    """As FakeHost, with the paths of macOS."""

    platform = "darwin"
    machine = "arm64"

    def __init__(
        self,
        files: Mapping[str, str] = {},
        *,
        env: Mapping[str, str] = {},
        uid: int = 501,
        tools: Mapping[str, Mapping[str, ToolRun]] = {**SANDBOX_EXEC, "limactl": LIMACTL},
        corral_files: tuple[str, ...] = ("/opt/corral",),
    ) -> None:
        super().__init__(
            {**SYSTEM, **files},
            env=env,
            home=HOME,
            cwd=WORKSPACE,
            uid=uid,
            system=False,
            corral_files=corral_files,
            tools=tools,
        )

    def launcher(self) -> tuple[str, str]:
        return "", "it is a program for Linux"

    def landlock_abi(self) -> int:
        return 0

    def copies_directory(self) -> str:
        return f"{HOME}/.local/state/corral/copies"

    def temporary_directory(self) -> str:
        return SCRATCH


REPOSITORY = {
    f"{WORKSPACE}/.git/config": "[core]\n\tbare = false\n",
    f"{WORKSPACE}/.git/hooks/": "",
    f"{WORKSPACE}/.git/HEAD": "ref: refs/heads/main",
    f"{WORKSPACE}/README.md": "hello",
    f"{HOME}/.gitconfig": "[user]\nname = Ada\nemail = ada@example.org\n[credential]\nhelper = store\n",
}
ODD = f'{HOME}/it\'s "odd" \\ née'

MAC_CASES = (
    Case("moderate-git", files=REPOSITORY),
    Case("moderate-root", files=REPOSITORY, uid=0),
    Case("strict", "strict", files=REPOSITORY),
    Case(
        "deny-inside",
        files={**REPOSITORY, f"{WORKSPACE}/secrets/key": "the secret", f"{WORKSPACE}/lib/fixed/x": ""},
        capabilities=(
            "filesystem:deny:${workspace}/secrets",
            "filesystem:deny:${workspace}/later",
            "filesystem:read:${workspace}/lib/fixed",
        ),
    ),
    Case("odd-names", files={f"{ODD}/x": ""}, capabilities=(f"filesystem:write:{escape(ODD)}",)),
    Case("net-full", files=REPOSITORY, capabilities=("network:full",)),
    Case("limits", files=REPOSITORY, capabilities=("file:limit:100MiB", "files:limit:256", "time:limit:90s")),
    Case("single", files=REPOSITORY, capabilities=("process:none",)),
)


def mac_probe(name: str, host: MacHost | None = None) -> Probe:
    return get_backend(name).probe(host or MacHost())


def mac_plan(
    policy: Policy,
    host: MacHost,
    probe: Probe,
    *,
    stdio: StdioMode = StdioMode.CAPTURE,
    argv: tuple[str, ...] = ("/bin/sh", "-c", "make"),
) -> Plan:
    """A plan on a Mac; what a backend does not claim is waived."""
    resolved = resolve_policy(policy, WORKSPACE, host)
    return build(
        policy,
        Command(argv, WORKSPACE, stdio=stdio),
        resolved,
        host,
        run_id=RUN_ID,
        nested=nested_repositories(resolved, host),
        waived=resolved.requires - probe.enforces,
    )


def mac_plan_of(case: Case, probe: Probe) -> Plan:
    host = MacHost(case.files, env=case.env, uid=case.uid)
    return mac_plan(build_policy(case.preset, case.capabilities), host, probe)
