"""Ask a container engine what it is, and what of that keeps corral from using it.

The claims rest on what the engine says of itself. That a command runs in it is tried (`trial.py`),
and every launch is looked at from inside before its command runs.
"""

from __future__ import annotations

from corral.backends import _launcher as common
from corral.backends._holes import find_gate, read_version
from corral.backends.engine import messages as words
from corral.backends.engine.limits import BOUNDS_FILES, engine_limit_features
from corral.backends.engine.messages import DOCKER, PODMAN
from corral.backends.engine.mounts import follow_links
from corral.backends.engine.trial import try_engine
from corral.linux.encode import encode
from corral.linux.spec import Spec
from corral.model.container import DEFAULT_IMAGE
from corral.model.feature import Feature
from corral.model.probe import LIMITS_FILE, LISTENS, Probe, read_hard_limits
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from corral.model.backend import Host

    Facts = Mapping[str, object]

_CLAIMS = frozenset(Feature) - {
    Feature.FS_TRIAL,
    Feature.PROC_IDENTITY,
    Feature.NET_EXCEPT,
    Feature.LIMIT_MEMORY,
    Feature.LIMIT_CPU,
    Feature.LIMIT_CPU_TIME,
    Feature.LIMIT_PIDS,
    Feature.LIMIT_DISK_FILES,
}
_WITHOUT_LANDLOCK = "what is not granted is read-only, except /dev and volumes that the image declares"
_SECONDS = 20.0
_YES = "yes"
_RELEASE, _PID_MAX = "/proc/sys/kernel/osrelease", "/proc/sys/kernel/pid_max"
_MOST_FILES = 1_048_576  # more than this no container of podman's ever has


class _Unusable(Exception):
    """Why an engine cannot be used, and how to fix that."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.reason, self.fix = reason, fix


class _Answer(Record):
    """What an engine says of itself, in words that both have."""

    facts: Facts  # all of it
    version: str
    kernel: str
    runtime: str  # its name and version
    is_rootless: bool
    is_remapped: bool  # root inside is nobody outside, unless the run says otherwise
    has_selinux: bool
    nonrecursive: str  # the option of a mount
    storage: str = ""  # its driver for images and containers
    endpoint: str = ""  # of docker: what its context leads to now
    chosen_runtime: str = ""  # of podman: another program than its own choice

    def traits(self) -> tuple[tuple[str, bool], ...]:
        return (("rootless", self.is_rootless), ("remapped", self.is_remapped), ("selinux", self.has_selinux))


def probe_engine(engine: str, host: Host) -> Probe:
    """Say what an engine offers here. Never raises."""
    if host.platform != "linux":
        return Probe(engine, False, reason=words.ELSEWHERE, fix=words.ELSEWHERE_FIX)
    unusable = common.base_probe(engine, host)
    if unusable is not None:
        return unusable
    trial = host.try_launch(encode(Spec(argv=("/corral-trial",), cwd="/")))
    if trial.phase != "exec":
        reason, fix = common.explain_trial(trial)
        return Probe(engine, False, reason=reason, fix=fix)
    program = host.which(engine)
    if not program:
        package = "docker.io" if engine == DOCKER else engine
        fix = f"install it (`apt-get install {package}`), or use another backend"
        return Probe(engine, False, reason=f"there is no `{engine}` on the PATH", fix=fix)
    try:
        answer = (_ask_docker if engine == DOCKER else _ask_podman)(program, host)
        variables = _variables(engine, host, answer.endpoint)
        _check_version(engine, answer.version)
        _check_kernel(engine, answer.kernel, host)
        _check_holes(answer.runtime)
    except _Unusable as problem:
        return Probe(engine, False, reason=problem.reason, fix=problem.fix)
    return try_engine(_claims(engine, program, answer, variables, host), host)


def _claims(
    engine: str, program: str, answer: _Answer, variables: tuple[tuple[str, str], ...], host: Host
) -> Probe:
    """What follows from the answer, if the engine does as it says."""
    abi = host.landlock_abi()
    held = _CLAIMS | _limits(engine, answer.facts)
    has_image = host.run_tool((program, "image", "inspect", DEFAULT_IMAGE), seconds=_SECONDS).status == 0
    return Probe(
        engine,
        True,
        held if abi else held - {Feature.FS_WRITE},
        version=answer.version,
        details=(
            *(("launcher", host.launcher()[0]), ("program", program)),
            *(("landlock_abi", str(abi)), ("machine", host.machine), (LISTENS, _YES)),
            *(("runtime", answer.runtime), ("nonrecursive", answer.nonrecursive)),
            *(("chosen runtime", answer.chosen_runtime), ("storage", answer.storage)),
            *((name, _YES if is_so else "") for name, is_so in answer.traits()),
            ("default image", _YES if has_image else ""),
            *((f"limit {name}", str(value)) for name, value in _ceilings(host)),
            *((f"socket {number}", path) for number, path in enumerate(_sockets(host, answer.endpoint))),
            *((f"env {name}", value) for name, value in variables),
        ),
        approximates=() if abi else ((Feature.FS_WRITE, _WITHOUT_LANDLOCK),),
    )


def _ceilings(host: Host) -> Iterator[tuple[str, int]]:
    """The caller's hard limits, or less where that takes nothing away.

    Podman lowers its own to these numbers first, and only a privileged one could raise them again.
    """
    processes = host.read_text(_PID_MAX, 20).strip()
    most = {"nofile": _MOST_FILES, "nproc": int(processes) if processes.isdigit() else _MOST_FILES}
    for name, value in read_hard_limits(host.read_text(LIMITS_FILE, 8192)):
        yield name, most[name] if value < 0 else min(value, most[name])


def _limits(engine: str, facts: Facts) -> frozenset[Feature]:
    held = engine_limit_features(engine, facts)
    if BOUNDS_FILES[engine]:
        held |= {Feature.LIMIT_DISK_FILES}
    if Feature.LIMIT_CPU in held:
        # The launcher looks at the container's own group; a run whose group is not found does not begin.
        held |= {Feature.LIMIT_CPU_TIME}
    return held


def _variables(engine: str, host: Host, endpoint: str) -> tuple[tuple[str, str], ...]:
    """What the engine's command line is given. A context that changes later has no say any more."""
    environment = host.environment()
    found = {name: environment[name] for name in words.VARIABLES[engine] if name in environment}
    if "PATH" in found:  # podman starts helpers by their names
        found["PATH"] = host.tool_path()
    if endpoint:
        found["DOCKER_HOST"] = endpoint
        found.pop("DOCKER_CONTEXT", None)
    for name, value in found.items():
        if len(value.splitlines()) > 1:
            raise _Unusable(f"the variable {name} holds a line break", f"set {name} to one line, or unset it")
    return tuple(sorted(found.items()))


def _sockets(host: Host, endpoint: str) -> Iterator[str]:
    """Sockets of engines that are there: no grant may reach them."""
    runtime = host.environment().get("XDG_RUNTIME_DIR", "") or f"/run/user/{host.uid}"
    places = [*words.SYSTEM_SOCKETS, *(f"{host.home}/{name}" for name in words.HOME_SOCKETS)]
    places += [f"{runtime}/{name}" for name in words.RUNTIME_SOCKETS]
    named = [host.environment().get(name, "") for name in ("DOCKER_HOST", "CONTAINER_HOST")]
    for address in (endpoint, *named):
        scheme, _, path = address.partition("://")
        places += [path] if scheme == "unix" and path.startswith("/") else []
    for path in dict.fromkeys(places):
        real = follow_links(path, lambda step: _link_text(host, step))  # as a grant would be
        stat = host.lstat(real)
        if stat is not None and stat.is_socket and len(real.splitlines()) == 1:
            yield real


def _link_text(host: Host, path: str) -> str | None:
    stat = host.lstat(path)
    return host.readlink(path) if stat is not None and stat.is_link else None


def _ask_docker(program: str, host: Host) -> _Answer:
    endpoint = _find_endpoint(program, host)
    facts = _ask(DOCKER, host, program, "info", "--format", "{{json .}}")
    if "host" in facts:
        raise _Unusable("the `docker` on the PATH is podman", "use --backend podman")
    said = facts.get("ServerErrors")
    if said or not facts.get("ServerVersion"):
        raise _Unusable(*words.read_complaint(str(said or ""), DOCKER))
    options = [str(option) for option in _list(facts.get("SecurityOptions"))]
    client = str(_mapping(facts.get("ClientInfo")).get("Version") or facts["ServerVersion"])
    parts = _mapping(_ask(DOCKER, host, program, "version", "--format", "{{json .}}").get("Server"))
    components = [_mapping(part) for part in _list(parts.get("Components"))]
    versions = {str(part.get("Name")): str(part.get("Version")) for part in components}
    runtime = str(facts.get("DefaultRuntime", ""))
    return _Answer(
        facts=facts,
        version=str(facts["ServerVersion"]),
        kernel=str(facts.get("KernelVersion", "")),
        runtime=f"{runtime} {versions.get(runtime, '')}".strip(),
        is_rootless="name=rootless" in options,
        is_remapped="name=userns" in options,
        has_selinux="name=selinux" in options,
        nonrecursive="bind-recursive=disabled" if read_version(client) >= (25,) else "bind-nonrecursive=true",
        storage=str(facts.get("Driver", "")),
        endpoint=endpoint,
    )


def _ask_podman(program: str, host: Host) -> _Answer:
    facts = _ask(PODMAN, host, program, "info", "--format", "json")
    about, version = _mapping(facts.get("host")), _mapping(facts.get("version"))
    security, runtime = _mapping(about.get("security")), _mapping(about.get("ociRuntime"))
    if about.get("serviceIsRemote"):
        raise _Unusable("podman works on another machine here, or in a virtual one", "unset CONTAINER_HOST")
    name = str(runtime.get("name", "")).rpartition("/")[2]
    said, chosen = str(runtime.get("version", "")), ""
    if name == "crun" and about.get("cgroupVersion") == "v1" and host.which("runc"):
        # Where both versions of control groups are mounted, as distributions did, crun gives up.
        name, chosen = "runc", host.which("runc")
        said = host.run_tool((chosen, "--version"), seconds=_SECONDS).output
    lines = said.splitlines() or [""]
    return _Answer(
        facts=facts,
        version=str(version.get("Version", "")),
        kernel=str(about.get("kernel", "")),
        runtime=f"{name} {lines[0].rpartition(' ')[2]}".strip(),
        is_rootless=security.get("rootless") is not False,
        is_remapped=False,
        has_selinux=security.get("selinuxEnabled") is not False,
        nonrecursive="bind-nonrecursive=true",
        storage=str(_mapping(facts.get("store")).get("graphDriverName", "")),
        chosen_runtime=chosen,
    )


def _ask(engine: str, host: Host, *argv: str) -> Facts:
    import json  # only probes come here

    answer = host.run_tool(argv, seconds=_SECONDS)
    try:
        facts = json.loads(answer.output) if answer.output.strip() else None
    except ValueError:
        facts = None
    if answer.status != 0 or not isinstance(facts, dict):
        raise _Unusable(*words.read_complaint(answer.errors or answer.output, engine))
    return facts


def _find_endpoint(program: str, host: Host) -> str:
    """Where docker's commands go, which is a socket here.

    TRUST: paths, sockets and control groups are those of this machine, or nothing holds.
    """
    form = "{{.Endpoints.docker.Host}}"
    endpoint = host.environment().get("DOCKER_HOST", "")
    if not endpoint:
        endpoint = host.run_tool(
            (program, "context", "inspect", "--format", form), seconds=_SECONDS
        ).output.strip()
    if endpoint and not endpoint.startswith("unix://"):
        raise _Unusable(
            f"docker works on another machine: {endpoint}",
            "unset DOCKER_HOST, or choose an engine of this machine with `docker context use default`",
        )
    return endpoint


def _check_kernel(engine: str, kernel: str, host: Host) -> None:
    own = host.read_text(_RELEASE, 200).strip()
    if not kernel or kernel != own:
        raise _Unusable(
            f"{engine} runs its containers on another machine, or in a virtual one: the kernel there is "
            f"{kernel or 'unknown'}, and here {own or 'unknown'}",
            "use an engine that runs on this machine itself, such as --backend podman",
        )


def _check_version(engine: str, version: str) -> None:
    least = words.LEAST_VERSIONS[engine]
    if read_version(version) < least:
        needed = ".".join(map(str, least))
        raise _Unusable(
            f"{engine} {version or 'of an unknown version'} is too old: {needed} is needed", "upgrade it"
        )


def _check_holes(runtime: str) -> None:
    """Raise for a hole that a run of corral's would open."""
    program, _, version = runtime.partition(" ")
    hole = find_gate(program, version) if version else None
    if hole is not None:
        reason = f"{runtime} has {hole.reference}: {hole.what}, and corral is affected: {hole.why}"
        raise _Unusable(reason, f"upgrade {program} to {hole.fixed[-1]} or later")


def _mapping(value: object) -> Facts:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
