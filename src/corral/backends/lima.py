"""Lima: `limactl shell` into a virtual machine with Linux, where another corral enforces the policy.

Guarantees   what the guest's best backend enforces, except fs.deny, fs.protect and proc.contained
Mechanism    the guest's corral gets the command and the whole policy, and applies or refuses it; the
             virtual machine is an additional wall
Not covered  fs.deny and fs.protect: the guest enforces names as the policy spells them, and a
             case-insensitive macOS disk has other names for the same file; proc.contained: if limactl is
             killed, the guest's corral continues until the command ends or times out. Paths outside the
             mounts are the guest's own, and so are tools, users and the home directory. Arguments and
             variables are visible in the process lists of both machines. Signals end limactl and are not
             passed on. A command that a signal or a limit ended has the exit status that a shell would show
Order        irrelevant: corral starts one program, and then asks the guest whether the command ran
"""

from __future__ import annotations

from corral import __version__
from corral.backends import _gateway as gateway
from corral.model.errors import UnenforceableError
from corral.model.feature import RUNNER_FEATURES, Feature
from corral.model.launch import Launch
from corral.model.plan import StdioMode
from corral.model.policy import EnvPolicy, FsAccess
from corral.model.probe import Dependence, Probe
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.model.backend import Host
    from corral.model.plan import Plan
    from corral.model.policy import FsRule, Policy

INSTANCE = "default"
_GUEST_SECONDS = 60.0
#: The whole command goes through ssh as one argument of a shell, which has 128 KiB (execve(2)).
_MOST_REQUEST_BYTES = 96 * 1024

#: The guest's network is not the host's, and what its gateway says has no way back yet.
_OF_GATEWAY = gateway.CLAIMS | {Feature.NET_EXCEPT}
_WITHHELD = frozenset({Feature.FS_DENY, Feature.FS_PROTECT, Feature.FS_TRIAL, Feature.PROC_CONTAINED})
CLAIMS = frozenset(Feature) - _OF_GATEWAY - _WITHHELD - {Feature.PROC_IDENTITY}
#: Where it claims less, and for whom.
CONDITIONS = ((CLAIMS, "if the corral inside the machine claims it"),)
_APPROXIMATES = (
    (Feature.FS_DENY, "the guest enforces the path as spelled; the disk may accept other spellings"),
    (Feature.FS_PROTECT, "the guest enforces the path as spelled; the disk may accept other spellings"),
    (Feature.PROC_CONTAINED, "the guest ends all processes, but does not notice if limactl is killed"),
)
#: The guest has its own.
_OF_THE_GUEST = frozenset({"HOME", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER", "CORRAL_SANDBOX"})

#: $0 is the sign, then: limactl, the instance, the run, the request.
#: ORDER: a machine that cannot be reached is found out first. The note is asked for when the status is there.
#: Who loses the machine in between cannot know whether the command ran: that is told as a killed command.
_SCRIPT = """\
"$1" shell --workdir / "$2" true </dev/null || exit 125
exec 3<&0
"$1" shell --workdir / "$2" corral guest "$4" <&3 3<&- &
child=$!
exec 3<&-
trap 'kill -TERM "$child" 2>/dev/null' HUP INT QUIT TERM
wait "$child"
status=$?
while kill -0 "$child" 2>/dev/null; do
wait "$child"
status=$?
done
told=$("$1" shell --workdir / "$2" corral guest --told "$3" </dev/null 2>/dev/null)
case $told in
ran) : >"$0" && exit "$status" ;;
refused | nothing) exit "$status" ;;
esac
: >"$0"
kill -KILL $$
"""


class GuestMount(Record):
    location: str
    is_writable: bool


class LimaBackend:
    name = "lima"
    depends = Dependence(programs=("limactl",), variables=("LIMA_HOME",))

    def probe(self, host: Host) -> Probe:
        """Ask the instance that runs already; none is started, which would take minutes and change things."""
        limactl = host.which("limactl")
        if not limactl:
            fix = f"`brew install lima`, `limactl start {INSTANCE}`, and install corral in the machine"
            return Probe(self.name, False, reason="there is no limactl on the PATH", fix=fix)
        listed = host.run_tool((limactl, "list", "--json"))
        instance = _find_instance(listed.output) if listed.status == 0 else None
        if instance is None:
            why = listed.errors.strip().partition("\n")[0] if listed.status else "it is not in the list"
            return _unavailable(f"Lima has no instance {INSTANCE!r}: {why}", f"limactl start {INSTANCE}")
        if instance.get("status") != "Running":
            why = f"the instance {INSTANCE!r} is not running, but {instance.get('status', 'in no state')}"
            return _unavailable(why, f"limactl start {INSTANCE}")
        asking = (limactl, "shell", "--workdir", "/", INSTANCE, "corral", "doctor", "--json")
        asked = host.run_tool(asking, seconds=_GUEST_SECONDS)
        guest = _load(asked.output)
        install = f"limactl shell {INSTANCE} pip install corral=={__version__}"
        if not isinstance(guest, dict) or not isinstance(guest.get("backends"), list):
            why = asked.errors.strip().rpartition("\n")[2] or f"exit status {asked.status}"
            return _unavailable(f"there is no corral in the instance {INSTANCE!r}: {why}", install)
        if guest.get("corral") != __version__:
            why = f"the instance has corral {guest.get('corral')}, and this is {__version__}"
            return _unavailable(why, install)
        return self._found(limactl, instance, guest, host)

    def _found(self, limactl: str, instance: dict[str, Any], guest: dict[str, Any], host: Host) -> Probe:
        import json

        # The one confines nothing, the other runs modules.
        usable = [
            backend
            for backend in guest["backends"]
            if backend["available"] and backend["backend"] not in {"none", "wasm"}
        ]
        if not usable:
            return _unavailable(
                f"corral can confine nothing in the instance {INSTANCE!r}",
                f"limactl shell {INSTANCE} corral doctor",
            )
        best = max(usable, key=lambda backend: len(backend["enforces"]))
        known = {feature.value: feature for feature in Feature}
        enforces = frozenset(known[name] for name in best["enforces"] if name in known)
        mounts = [[mount.location, mount.is_writable] for mount in _mounts(instance)]
        held = ",".join(sorted(feature.value for feature in enforces & _WITHHELD))
        details = [("limactl", limactl), ("guest", best["backend"]), ("held", held)]
        details.append(("mounts", json.dumps(mounts)))
        if place := host.environment().get("LIMA_HOME", ""):
            details.append(("lima_home", json.dumps(place)))
        return Probe(
            self.name,
            True,
            (enforces | RUNNER_FEATURES) & CLAIMS,
            version=f"instance {INSTANCE}, {best['backend']} inside",
            details=tuple(details),
            approximates=_APPROXIMATES,
        )

    def lower(self, plan: Plan, probe: Probe) -> Launch:
        """A shell script that sends the guest's corral on a request and asks what became of it."""
        from corral.policy.remote_request import RemoteRequest, encode_request

        mounts = [GuestMount(*pair) for pair in _load(probe.detail("mounts"))]
        _check_program(plan, probe.detail("limactl"))
        _check_mounts(plan, mounts)
        held = probe.detail("held").split(",")
        request = encode_request(
            RemoteRequest(
                run_id=plan.run_id,
                argv=plan.command.argv,
                cwd=plan.command.cwd,
                workspace=plan.resolved.workspace,
                policy=_for_guest(plan),
                # What the guest can hold as far as it can see, it holds: to waive it is to promise less.
                waived=tuple(sorted({feature.value for feature in plan.waived} - set(held))),
                terminal=plan.command.stdio is StdioMode.TERMINAL,
            )
        )
        if len(request) > _MOST_REQUEST_BYTES:
            raise _refused(
                "the command and its policy are too long for the way into the virtual machine",
                f"they have {len(request)} bytes, and ssh takes {_MOST_REQUEST_BYTES}",
                "pass data on stdin or in a file",
            )
        scratch = f"{plan.resolved.scratch}/corral-{plan.run_id}"
        sign = f"{scratch}/started"
        limactl = probe.detail("limactl")
        place = probe.detail("lima_home")
        more = (("LIMA_HOME", _load(place)),) if place else ()
        guest = f"{probe.detail('guest')} in the instance {INSTANCE} of Lima"
        return Launch(
            backend=self.name,
            argv=("/bin/sh", "-c", _SCRIPT, sign, limactl, INSTANCE, plan.run_id, request),
            env=(*plan.env, *more),
            enforced={
                feature: guest for feature in plan.requires & probe.enforces if feature not in RUNNER_FEATURES
            },
            scratch=scratch,
            started=sign,
        )


def _for_guest(plan: Plan) -> Policy:
    """The same policy, with this machine's home and variables where it means them."""
    policy, home = plan.policy, plan.resolved.home
    passed = frozenset(name for name in policy.env.passed if name in _OF_THE_GUEST)
    fixed = tuple((name, value) for name, value in plan.env if name not in _OF_THE_GUEST)
    return policy.replace(
        fs=tuple(_of_this_machine(rule, home) for rule in policy.fs),
        env=EnvPolicy(passed, fixed),
        limits=plan.resolved.limits,  # with the defaults that it has said it holds: there is no other record
        defaults=policy.defaults.replace(**dict.fromkeys(plan.resolved.held_defaults)),
    )


def _of_this_machine(rule: FsRule, home: str) -> FsRule:
    """What somebody wrote down is of this machine; what a preset grants, if it is there, is of the guest."""
    if rule.optional:
        return rule
    return rule.replace(
        path=_expanded(rule.path, home), within=tuple(_expanded(path, home) for path in rule.within)
    )


def _expanded(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _check_program(plan: Plan, limactl: str) -> None:
    # TRUST: an earlier command may have made it, or changed it.
    for grant in plan.resolved.grants:
        root = grant.target.path
        if grant.access is FsAccess.WRITE and (limactl == root or _is_inside(limactl, root)):
            raise _refused(
                f"{limactl} is not believed",
                f"it lies in {root}, which commands may write to",
                "install Lima elsewhere, or take that directory out of the PATH",
            )


def _check_mounts(plan: Plan, mounts: list[GuestMount]) -> None:
    """Whatever of this machine the policy is about must be there inside, by the same name."""
    resolved = plan.resolved
    wanted = {(resolved.workspace, False), (plan.command.cwd, False)}
    for grant in resolved.grants:
        if grant.access is FsAccess.WRITE:
            wanted.add((grant.target.path, True))
    for rule in plan.policy.fs:
        if not rule.optional and rule.access is FsAccess.READ and not rule.path.startswith("${workspace}"):
            wanted.add((_expanded(rule.path, resolved.home), False))
    for path, writes in sorted(wanted):
        above = [mount for mount in mounts if path == mount.location or _is_inside(path, mount.location)]
        nearest = max(above, key=lambda mount: len(mount.location), default=None)
        if nearest is None or (writes and not nearest.is_writable):
            raise _not_mounted(path, writes=writes, is_there=nearest is not None)


def _not_mounted(path: str, *, writes: bool, is_there: bool) -> UnenforceableError:
    missing = "can only be read there" if is_there else "is not mounted there"
    mount = f'.mounts += [{{"location": "{path}"{", writable: true" if writes else ""}}}]'
    return _refused(
        f"{path} cannot be used in the virtual machine",
        f"it {missing}, by its own path",
        f"limactl stop {INSTANCE}; limactl edit {INSTANCE} --set '{mount}'; limactl start {INSTANCE}",
    )


def _refused(what: str, why: str, fix: str) -> UnenforceableError:
    lacking = frozenset({Feature.FS_READ, Feature.FS_WRITE})
    return UnenforceableError("unenforceable", what, why=why, fix=fix, lacking=lacking)


def _unavailable(reason: str, fix: str) -> Probe:
    return Probe("lima", False, reason=reason, fix=f"`{fix}`")


def _find_instance(output: str) -> dict[str, Any] | None:
    """`limactl list --json` prints an object for each instance, one on each line."""
    for line in output.splitlines():
        found = _load(line)
        if isinstance(found, dict) and found.get("name") == INSTANCE:
            return found
    return None


def _mounts(instance: dict[str, Any]) -> list[GuestMount]:
    """Those that appear inside by their own path. `~` is expanded by Lima itself in what it lists."""
    config = instance.get("config")
    listed = config.get("mounts") if isinstance(config, dict) else None
    found = []
    for mount in listed or ():
        location = str(mount.get("location", "")).rstrip("/") or "/"
        if location.startswith("/") and (mount.get("mountPoint") or location).rstrip("/") == location:
            found.append(GuestMount(location, mount.get("writable") is True))
    return found


def _is_inside(path: str, root: str) -> bool:
    return path.startswith(f"{root.rstrip('/')}/")


def _load(text: str) -> Any:
    import json  # only this backend reads any

    try:
        return json.loads(text)
    except ValueError:
        return None
