"""Firejail: `firejail` (set-user-id root) makes namespaces and hides files, corral-launch runs inside.

Guarantees   everything but net.ports, net.domains, limit.disk and limit.disk-files; fs.metadata for anyone
             but root; memory, cpu and pids limits with control groups
Mechanism    pid, net, ipc, mount and uts namespaces and binds by firejail, with a profile for each run;
             inside, by the launcher: Landlock, seccomp, rlimits. The launcher checks what firejail did from
             inside, before the command runs: if firejail believes it is already in a sandbox, it makes
             none, and it skips what it cannot do.
Not covered  as root: modes and times of / and /run/firejail; file systems that the host mounts below a
             granted path during the run; sockets of the host inside a granted directory; private areas are
             not bounded; $HOME is elsewhere
Order        lines go from shallow to deep, because they also apply to mounts further down; protected paths
             below a cover or a private area are mounted before it
"""

from __future__ import annotations

from functools import lru_cache

from corral.backends import _firejail_profile as profiles
from corral.backends import _inner as inner
from corral.backends import _launcher as common
from corral.backends import _limits as limiting
from corral.backends._firejail_profile import ProfileRule, ProfileRuleKind
from corral.linux import landlock
from corral.linux.encode import encode_command, encode_expects, encode_paths, encode_resolved, join
from corral.linux.filter import SocketPolicy
from corral.linux.spec import Landlock, PathRule, Spec
from corral.model.feature import Feature
from corral.model.launch import Inside, Launch, Outer, StartFailure
from corral.model.plan import PrivateFile
from corral.model.policy import NetMode
from corral.model.probe import LISTENS, Dependence, Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.backends._firejail_profile import ProfileFiles
    from corral.model.backend import Host
    from corral.model.plan import Plan, ResolvedPolicy

PROGRAM = "firejail"
#: The first that starts a program without a shell; CVE-2022-31214 and CVE-2021-26910 are fixed in it.
_LEAST_VERSION = (0, 9, 72)
#: ABI 3 holds truncation; ABI 6 keeps the command from ending the launcher, which is not PID 1 here.
_LEAST_ABI, _SCOPES_ABI = 3, 6
_START_SECONDS = 20.0

#: A firejail that sees no process of the kernel takes itself to be in a sandbox, and runs the program without
#: another one. In what it knows as a container it does its work.
_ENVIRONMENT = (("container", "docker"),)
#: No rewriting of /etc and /var, and nothing made in the caller's home and in /run/user.
_KEPT = (
    *("--allusers", "--writable-etc", "--writable-var", "--writable-var-log"),
    *("--writable-run-user", "--keep-config-pulse"),
)
_DEVICES = (
    *("--private-dev", "--no3d", "--nosound", "--notv", "--nodvd", "--nou2f", "--novideo", "--noinput"),
)
_CONFINEMENT = ("--nonewprivs", "--ipc-namespace")

#: By name: what corral learns to promise later is not promised here by itself.
_CLAIMS = frozenset(
    {
        *(Feature.FS_READ, Feature.FS_WRITE, Feature.FS_METADATA, Feature.FS_DENY),
        *(Feature.FS_PROTECT, Feature.FS_PRIVATE, Feature.NET_NONE, Feature.IPC_PRIVATE),
        *(Feature.PROC_HIDDEN, Feature.PROC_SHIELDED, Feature.PROC_CONTAINED, Feature.PROC_SINGLE),
        *(Feature.PRIVILEGES, Feature.SYSCALLS, Feature.ENVIRONMENT, Feature.DESCRIPTORS),
        *(Feature.TERMINAL, Feature.LIMIT_WALL, Feature.LIMIT_OUTPUT),
        *(Feature.LIMIT_FILE_SIZE, Feature.LIMIT_OPEN_FILES),
    }
)
CLAIMS = _CLAIMS | limiting.BY_GROUPS
#: Where it claims less, and for whom.
CONDITIONS = (
    (limiting.BY_GROUPS, limiting.GROUPS_NEEDED),
    common.LOCK_CONDITION,
    (frozenset({Feature.FS_METADATA}), "not as root"),
)
_APPROXIMATES_ROOT = (
    (Feature.FS_METADATA, "read-only binds, but for the root directory itself and /run/firejail"),
)

_NOT_SETUID = "as root: `chmod u+s /usr/bin/firejail`; and do not run it where no_new_privs is set"
_SETTINGS = "see /etc/firejail/firejail.config and /etc/firejail/firejail.users, or use another backend"
_FAILURES = (
    StartFailure("needs to be SUID", "outer", "firejail has no privileges here", _NOT_SETUID),
    StartFailure("Error clone:", "outer", "firejail may not make namespaces here", _NOT_SETUID),
    StartFailure("is not allowed to use", "outer", "this user may not use firejail", _SETTINGS),
    StartFailure(
        "feature is disabled", "outer", "firejail's settings forbid what a sandbox needs", _SETTINGS
    ),
    StartFailure(
        "invalid whitelist path",
        "outer",
        "firejail cannot show one of the granted paths",
        "grant the directory above it, or use another backend",
    ),
    StartFailure(
        "too long arguments",
        "outer",
        "a path is too long for firejail",
        "use a shorter one, or another backend",
    ),
    StartFailure(
        "no suitable",
        "outer",
        "corral's launcher cannot be seen in firejail's sandbox",
        "install corral outside of /run, /proc, /sys and /dev",
    ),
)


class FirejailBackend:
    name = "firejail"
    depends = Dependence(programs=(PROGRAM,))

    def probe(self, host: Host) -> Probe:
        """Try all of it, on a command that does not exist."""
        unusable = common.base_probe(self.name, host, PROGRAM)
        if unusable is not None:
            return unusable
        program = host.which(PROGRAM)
        said = host.run_tool((program, "--version"))
        version = _read_version(said.output)
        if not version:
            reason = f"`firejail --version` failed: {said.errors.strip() or said.output.strip()}"
            fix = "check that it works for this user, who needs an entry in the password file"
            return Probe(self.name, False, reason=reason, fix=fix)
        if tuple(map(int, version.split("."))) < _LEAST_VERSION:
            least = ".".join(map(str, _LEAST_VERSION))
            reason = f"firejail {version} is too old: {least} is needed"
            return Probe(self.name, False, reason=reason, fix="install a newer one", version=version)
        abi = host.landlock_abi()
        if abi < _LEAST_ABI:
            reason = f"the kernel has Landlock ABI {abi}, and {_LEAST_ABI} is needed (Linux 6.2)"
            fix = "use a newer kernel, or boot this one with `lsm=landlock,...`"
            return Probe(self.name, False, reason=reason, fix=fix, version=version)
        probe = self._found(host, program, version, abi)
        found = common.try_parts(lambda lock, _: host.try_outer(_trial(probe, host, lock=lock)))
        return common.judge_outer(found.about(probe), found.trial, PROGRAM, _NOT_SETUID)

    def _found(self, host: Host, program: str, version: str, abi: int) -> Probe:
        holders = limiting.without_supervisor(limiting.find_holders(host, namespaced=False))
        is_root = host.uid == 0
        return Probe(
            self.name,
            True,
            (_CLAIMS - {Feature.FS_METADATA} if is_root else _CLAIMS) | holders.claims,
            version=version,
            details=(
                ("launcher", host.launcher()[0]),
                ("program", program),
                ("landlock_abi", str(abi)),
                ("machine", host.machine),
                (LISTENS, "yes"),
                ("root_links", "/".join(host.links("/"))),
                *holders.details(),
            ),
            approximates=_APPROXIMATES_ROOT if is_root else (),
        )

    def lower(self, plan: Plan, probe: Probe) -> Launch:
        """A profile for firejail, and a spec for the launcher inside."""
        abi, resolved = int(probe.detail("landlock_abi")), plan.resolved
        inner.check_abstract_sockets(plan, abi)
        is_locked = common.is_locked(probe)
        holders = limiting.read_holders(probe, plan.resolved)
        scratch = f"{resolved.scratch}/corral-{plan.run_id}"
        home = f"{scratch}/home" if resolved.private else ""
        files = _files(plan, probe, home)
        command = common.command_spec(plan, _redirected(plan.env, home, files.areas) if home else plan.env)
        write = landlock.write_rights(abi, is_directory=True)
        areas = (*files.areas, home) if home else files.areas
        return Launch(
            backend=self.name,
            argv=(
                *(probe.detail("program"), "--quiet", f"--profile={scratch}/profile"),
                *(*_options(abi, files, resolved.uid, is_locked=is_locked), *_network(resolved)),
                *(probe.detail("launcher"), "--control", "3"),
            ),
            env=_ENVIRONMENT,
            enforced={**_mechanisms(plan, abi), **limiting.mechanisms(resolved.limits, holders)},
            spec=join(
                _encoded_resolved(resolved, probe, common.telling_of(plan), is_kept=plan.command.keeps),
                encode_expects(files.expects),
                encode_paths(PathRule(write, path) for path in areas),
                encode_command(command),
            ),
            outer=Outer(probe.detail("launcher"), start_seconds=_START_SECONDS, failures=_FAILURES),
            scratch=scratch,
            scratch_files=tuple(_scratch_files(resolved, scratch, home, files)),
            group=limiting.group_request(resolved.limits, holders, launcher_pids=0, ends_by_group=False),
            inside=Inside(command.env),
        )


def _read_version(text: str) -> str:
    """`firejail version 0.9.72` and more lines -> `0.9.72`; empty if it says none."""
    word = text.partition("\n")[0].rpartition(" ")[2]
    parts = []
    for part in word.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        parts.append(digits)
        if digits != part:
            break
    return ".".join(parts)


def _options(abi: int, files: ProfileFiles, uid: int, *, is_locked: bool) -> tuple[str, ...]:
    """What every sandbox has. Descriptor 3 is the launcher's way to corral; it takes no other along."""
    kept = ",".join(common.LOCKING_CAPABILITIES).lower()
    return (
        *("--keep-fd=3", *_KEPT, *(("--keep-var-tmp",) if files.keeps_var_tmp else ())),
        *(*_DEVICES, *_CONFINEMENT),
        f"--caps.keep={kept}" if is_locked and uid == 0 else "--caps.drop=all",
        # Costs 100 ms: where the kernel lets the command end the launcher, all must end with it.
        *(("--deterministic-shutdown",) if abi < _SCOPES_ABI else ()),
    )


def _network(resolved: ResolvedPolicy) -> tuple[str, ...]:
    return ("--net=none",) if resolved.net.mode is not NetMode.FULL else ()


def _files(plan: Plan, probe: Probe, home: str) -> ProfileFiles:
    resolved = plan.resolved
    own = [ProfileRule(probe.detail("launcher"), ProfileRuleKind.READ)]
    if home:
        own.append(ProfileRule(home, ProfileRuleKind.WRITE))
    return profiles.make_files(
        (*own, *profiles.resolved_rules(resolved), *profiles.protection(plan)),
        links=resolved.links,
        root_links=_root_links(probe),
        private=resolved.private,
        home=resolved.home,
        is_locked=common.is_locked(probe),
    )


def _root_links(probe: Probe) -> tuple[str, ...]:
    return tuple(filter(None, probe.detail("root_links").split("/")))


def _scratch_files(
    resolved: ResolvedPolicy, scratch: str, home: str, files: ProfileFiles
) -> list[PrivateFile]:
    profile = "".join(f"{line}\n" for line in files.lines)
    made = [PrivateFile(f"{scratch}/profile", profile.encode("utf-8", "surrogateescape"))]
    if home:
        made.append(PrivateFile(home, b"", mode=0o700, is_directory=True))
        made += [
            PrivateFile(f"{home}/{file.path.removeprefix(resolved.home + '/')}", file.content)
            for file in resolved.private_files
        ]
    return made


def _redirected(
    env: tuple[tuple[str, str], ...], home: str, areas: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    # git gives up on a system configuration that is there and cannot be read.
    changed = {"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"}
    if "/tmp" not in areas:
        changed["TMPDIR"] = home
    return tuple(sorted({**dict(env), **changed}.items()))


@lru_cache(maxsize=64)
def _encoded_resolved(
    resolved: ResolvedPolicy, probe: Probe, telling: common.Telling, *, is_kept: bool
) -> tuple[int, bytes]:
    rules = _landlock(resolved, int(probe.detail("landlock_abi")))
    spec = inner.resolved_spec(resolved, probe, telling, is_kept=is_kept)
    return encode_resolved(spec.replace(landlock=rules))


def _landlock(resolved: ResolvedPolicy, abi: int) -> Landlock:
    """Here it is the first wall, since firejail leaves the root directory and its own files in sight."""
    read, device = landlock.read_rights, landlock.device_rights
    listing = read(abi, is_directory=True, execute=False) & ~landlock.FsRight.READ_FILE
    paths = [PathRule(read(abi, is_directory=True, execute=False), "/proc")]
    paths += [PathRule(device(abi), f"/dev/{name}") for name in common.DEVICES]
    paths.append(PathRule(device(abi) | listing, "/dev/pts"))
    for rule in common.grant_rules(resolved, abi):
        is_other = profiles.top_of(rule.path) == profiles.SYSFS
        paths.append(rule.replace(device=0, inode=0) if is_other else rule)
    return Landlock(landlock.handled_fs(abi), 0, landlock.scoped(abi), tuple(paths))


def _mechanisms(plan: Plan, abi: int) -> dict[Feature, str]:
    lock = landlock.describe(abi)
    metadata = {Feature.FS_METADATA: "firejail's mounts: read-only, or hidden"}
    return {
        Feature.FS_READ: f"{lock} + firejail's mounts",
        Feature.FS_WRITE: f"{lock} + firejail's read-only mounts",
        **(metadata if plan.resolved.uid != 0 else {}),
        Feature.FS_DENY: "covered, or read-only, by firejail's mounts",
        Feature.FS_PROTECT: "firejail's read-only mounts, pinned; what is missing is guarded",
        Feature.FS_PRIVATE: "firejail's tmpfs, and a fresh directory as $HOME",
        Feature.PROC_HIDDEN: "pid namespace",
        Feature.PROC_SHIELDED: f"pid namespace + {lock}",
        Feature.PROC_CONTAINED: "pid namespace: all end with firejail",
        Feature.IPC_PRIVATE: f"ipc namespace + {lock}",
        **common.MECHANISMS,
        **({Feature.NET_NONE: "net namespace with loopback only"} if common.network_is_private(plan) else {}),
        **common.single_process(plan),
    }


def _trial(probe: Probe, host: Host, *, lock: bool) -> Launch:
    """As a run would be, without files of the host; in arguments, for a probe writes nothing."""
    abi = int(probe.detail("landlock_abi"))
    launcher = probe.detail("launcher")
    files = profiles.make_files(
        (ProfileRule(launcher, ProfileRuleKind.READ),),
        root_links=_root_links(probe),
        home=host.home,
        is_locked=lock,
    )
    told = tuple("--" + line.replace(" ", "=", 1) for line in files.lines)
    spec = Spec(
        argv=("/corral-trial",),
        cwd="/",
        inside=True,
        uid_map=common.id_map(host.uid, host.uid) if lock else "",
        gid_map=common.id_map(host.uid, host.gid) if lock else "",
        lock=lock,
        landlock=inner.trial_landlock(abi),
        seccomp=common.compile_seccomp(host.machine, SocketPolicy.NAMESPACED, by_filter=False),
        expects=files.expects,
    )
    return Launch(
        backend=probe.backend,
        argv=(
            *(probe.detail("program"), "--quiet", "--noprofile", *told),
            *_options(abi, files, host.uid, is_locked=lock),
            *("--net=none", launcher, "--control", "3"),
        ),
        env=_ENVIRONMENT,
        enforced={},
        spec=join(encode_resolved(spec), encode_command(spec)),
        outer=Outer(start_seconds=_START_SECONDS, failures=_FAILURES),
    )
