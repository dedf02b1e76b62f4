"""Write the generated parts of the documents: `python docs/generate.py --write`, or `--check` them.

A generated part lies between `<!-- generated: NAME -->` and `<!-- end -->`; what is around it is written
by hand. A test runs the check, so that a table which says something else than the code breaks the build.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "src"))

import click  # noqa: E402

from corral import __version__  # noqa: E402
from corral.backends._holes import HOLES  # noqa: E402
from corral.backends.registry import AUTO, BUILTIN, UNPROVED, get_backend  # noqa: E402
from corral.cli.commands import cli  # noqa: E402
from corral.cli.help import ALL_OPTIONS  # noqa: E402
from corral.config.keys import KEYS  # noqa: E402
from corral.config.schema import FILE_NAME, build_schema  # noqa: E402
from corral.images.recipe import ALIASES, REPOSITORY, VARIANTS, load_recipe  # noqa: E402
from corral.linux import landlock  # noqa: E402
from corral.model.enforcer import CGROUP2, Enforcer  # noqa: E402
from corral.model.feature import PROMISES, Feature  # noqa: E402
from corral.model.probe import LaunchTrial, ModuleRunner, Probe, Stat, ToolRun  # noqa: E402
from corral.model.rules.capability import parse_capability  # noqa: E402
from corral.model.rules.syscall_groups import GROUPS  # noqa: E402
from corral.planning.require import features_of  # noqa: E402
from corral.policy import preset  # noqa: E402
from corral.policy.preset import PRESETS, describe_preset  # noqa: E402
from corral.selftest.catalogue import PROBES  # noqa: E402

sys.path.insert(0, str(DOCS))
from man_page import render_man  # noqa: E402

#: The schema lies beside the code that makes it, so that it is installed with it.
SCHEMA = DOCS.parent / "src/corral/config" / FILE_NAME
MAN = DOCS / "corral.1"
_BEGIN, _END = "<!-- generated: {} -->", "<!-- end -->"
_WIDTH = 80
_KERNEL = "99.0"
_BY_GROUP = frozenset({Feature.LIMIT_MEMORY, Feature.LIMIT_CPU, Feature.LIMIT_CPU_TIME, Feature.LIMIT_PIDS})
_PRESET_FILES = Path(preset.__file__).parent / "presets"

#: One example for each kind and verb, and what it means.
EXAMPLES = {
    "filesystem:read:/docs": "read, list and execute what is there",
    "filesystem:write:${workspace}/out": "the same, and create, change, move and remove",
    "filesystem:deny:${workspace}/secrets": "hidden at any depth; overrides read and write",
    "filesystem:private:/tmp": "empty and writable; belongs to the run and is removed after it",
    "filesystem:protect:.git/hooks": "this name cannot be changed or created inside any writable path",
    "filesystem:tools:path": "read the programs on the caller's PATH, wherever they are installed",
    "network:none": "only a private loopback",
    "network:limited": "public addresses, ports 80 and 443",
    "network:full": "the host's network, its loopback included",
    "network:http:example.com": "this name by http",
    "network:https:api.example.com": "this name by https",
    "network:tcp:db.example.com:5432": "this name and port by TCP",
    "network:deny:ads.example.com": "never this name, whatever is permitted; `*.example.com`: all below it",
    "network:fronting": "TLS and HTTP may name a host other than the one that was looked up",
    "network:publish:3000": "a server inside is reachable at this port of localhost; `8080:3000`: at another",
    "traffic:limit:1GiB": "total bytes of all connections, in both directions",
    "traffic:rate:10MB": "the same, per second",
    "memory:limit:512MiB": "memory of all processes together, including swap",
    "cpu:limit:50%": "share of one processor for all processes together; `150%` or `1.5` for more",
    "cpu:time:10s": "processor time of all processes together",
    "pids:limit:64": "number of processes and threads",
    "memory:default:75%": (
        "a default, as a size or a share of the machine: enforced where the host can, otherwise recorded"
    ),
    "cpu:default:200%": "the same for processors",
    "pids:default:4096": "the same for processes and threads",
    "time:limit:2m30s": "time until SIGTERM; SIGKILL follows two seconds later",
    "output:limit:1MiB": "stdout and stderr together; the run ends beyond it",
    "file:limit:100MiB": "size of each file that is written",
    "files:limit:256": "open files of each process",
    "disk:limit:1GiB": "size of the private areas together",
    "disk:files:10000": "number of files and directories in the private areas together",
    "env:pass:LANG": "the caller's variable of this name; `LC_*` for all that begin with `LC_`",
    "env:set:MODE=test": "this variable with this value",
    "process:spawn": "the command may start other processes; every preset grants it",
    "process:debug": "and trace them, as `gdb` and `strace` do; nothing outside, nor corral's own processes",
    "process:none": "no other process: threads and `exec` still work; the default without a preset",
    "syscall:deny:@chmod": (
        "these system calls fail with EPERM: one call by name, or "
        "a [group](#groups-of-system-calls) of calls: " + ", ".join(f"`{name}`" for name in GROUPS)
    ),
    "module:call:json": "a WebAssembly module may call this one; a native command can call none",
    "refusal:deny": "corral reports the refusal, and the command continues",
    "refusal:warn": "the same, and corral reports guesses even if the command succeeds",
    "refusal:throttle": "a command that keeps trying waits longer for each answer",
    "refusal:terminate": "the first refusal that corral observes ends the command",
    "refusal:quarantine": "the first one freezes everything in the sandbox, for inspection",
    "feature:require:limit.memory": (
        "corral enforces this guarantee or runs nothing, even if the policy could do without it"
    ),
}


class ImaginaryHost:
    """As much of a host as a probe asks about: one that can do everything, except what it is told not to."""

    platform, machine, home = "linux", "x86_64", "/home/user"

    def __init__(self, *, uid: int = 1000, groups: bool = True, abi: int = landlock.NEWEST_ABI) -> None:
        self.uid = self.gid = uid
        self._groups = groups
        self._abi = abi

    def launcher(self) -> tuple[str, str]:
        return "/corral-launch", ""

    def landlock_abi(self) -> int:
        return self._abi

    def enforcers(self) -> tuple[Enforcer, ...]:
        return (Enforcer(CGROUP2, _BY_GROUP if self._groups else frozenset()),)

    def processors(self) -> tuple[int, int]:
        return 4, 4

    def try_launch(self, _spec: bytes) -> LaunchTrial:
        return LaunchTrial(False, "exec")

    def try_outer(self, _launch: object) -> LaunchTrial:
        return LaunchTrial(True, "exec")

    def environment(self) -> dict[str, str]:
        return {}

    def lstat(self, _path: str) -> None:
        return None

    def links(self, _path: str) -> tuple[str, ...]:
        return ()

    def read_text(self, _path: str, _limit_bytes: int) -> str:
        return _KERNEL

    def temporary_directory(self) -> str:
        return "/tmp"

    def which(self, name: str) -> str:
        return f"/usr/bin/{name}"

    def module_runner(self) -> ModuleRunner:
        return ModuleRunner(("/usr/bin/python3",))

    def run_tool(self, argv: tuple[str, ...], *, seconds: float = 10.0) -> ToolRun:
        if argv[1] == "--probe":
            return ToolRun(0, "wasmtime 99.0 bounded\n")
        engine, question = argv[0].rpartition("/")[2], argv[1]
        if question == "context":
            return ToolRun(0, "unix:///run/docker.sock\n")
        if question == "--version":
            return ToolRun(0, f"{engine} 99.0\n")
        if question == "import":
            return ToolRun(0, "sha256:99\n")
        return ToolRun(0, json.dumps(self._facts(engine)))

    def _facts(self, engine: str) -> dict[str, object]:
        """What an engine says of itself, the newest there can be."""
        if engine == "docker":
            names = ("MemoryLimit", "SwapLimit", "CpuCfsPeriod", "CpuCfsQuota", "PidsLimit")
            held = dict.fromkeys(names, self._groups)
            return {"ServerVersion": "99.0", "KernelVersion": _KERNEL, "CgroupDriver": "systemd", **held}
        controllers = ["memory", "cpu", "pids"] if self._groups else []
        host = {"kernel": _KERNEL, "cgroupVersion": "v2", "cgroupControllers": controllers}
        return {"host": {**host, "security": {"rootless": self.uid != 0}}, "version": {"Version": "99.0"}}


class ImaginaryMac(ImaginaryHost):
    """A Mac on which sandbox-exec denies what it should, and Lima runs a guest with all there is."""

    platform, machine, home = "darwin", "arm64", "/Users/user"

    def lstat(self, _path: str) -> Stat:  # type: ignore[override]
        return Stat(False, False, 1, 1)

    def run_tool(self, argv: tuple[str, ...], *, seconds: float = 10.0) -> ToolRun:
        if argv[1] == "-p":
            denies = "deny" in argv[2]
            return ToolRun(1, "", "Operation not permitted") if denies else ToolRun(0, "read")
        if argv[1] == "list":
            return ToolRun(0, json.dumps({"name": "default", "status": "Running"}))
        held = sorted(feature.value for feature in _probe("native", ImaginaryHost()).enforces)
        best = {"backend": "native", "available": True, "enforces": held}
        return ToolRun(0, json.dumps({"corral": __version__, "backends": [best]}))


#: The backends that are for another platform than Linux.
_MACS = frozenset({"seatbelt", "lima"})


def _imagine(backend: str, **facts: Any) -> ImaginaryHost:
    return (ImaginaryMac if backend in _MACS else ImaginaryHost)(**facts)


def _probe(backend: str, host: ImaginaryHost) -> Probe:
    return get_backend(backend).probe(host)  # type: ignore[arg-type]


#: Condition -> the number of its footnote.
_CONDITIONS: dict[str, int] = {}


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _module(backend: str) -> ModuleType:
    return import_module(BUILTIN[backend].partition(":")[0])


def _notes() -> dict[tuple[str, Feature], list[int]]:
    """The footnotes of each cell: conditions, numbered as they come up."""
    found: dict[tuple[str, Feature], list[int]] = {}
    for backend in BUILTIN:
        for features, condition in getattr(_module(backend), "CONDITIONS", ()):
            number = _CONDITIONS.setdefault(condition, len(_CONDITIONS) + 1)
            for feature in features:
                found.setdefault((backend, feature), []).append(number)
    return found


def matrix() -> str:
    """The most that each backend claims on any host, and the conditions."""
    notes = _notes()

    def cell(backend: str, feature: Feature) -> str:
        if feature in _module(backend).CLAIMS:
            return " ".join(["yes", *(f"[{number}]" for number in notes.get((backend, feature), ()))])
        return "approx." if feature in dict(_probe(backend, _imagine(backend)).approximates) else "–"

    rows = [
        [f"`{feature.value}`", PROMISES[feature], *(cell(backend, feature) for backend in BUILTIN)]
        for feature in Feature
    ]
    table = _table(["feature", "promise", *(f"`{backend}`" for backend in BUILTIN)], rows)
    lines = [f"[{number}] {condition}" for condition, number in _CONDITIONS.items()]
    lines += [
        f"`{backend}` is not proved by the project's tests: {why}"
        for backend, why in UNPROVED.items()
        if backend in BUILTIN
    ]
    return "\n\n".join([table, "\n".join(f"- {line}" for line in lines)])


def approximations() -> str:
    """What each backend does where it does not enforce."""
    # Where Landlock lacks something, more is only approximated.
    oldest = {"landlock": (3, ", before Landlock ABI 6")}
    rows = []
    for backend in BUILTIN:
        newest = dict(_probe(backend, _imagine(backend)).approximates)
        abi, before = oldest.get(backend, (0, ", without Landlock"))
        older = dict(_probe(backend, _imagine(backend, abi=abi)).approximates)
        for feature, how in (newest | older).items():
            when = "" if feature in newest else before
            rows.append([f"`{backend}`{when}", f"`{feature.value}`", how])
    return _table(["backend", "feature", "what is done instead"], rows)


def kernels() -> str:
    """What changes with the kernel's Landlock ABI."""
    rows = []
    for abi in range(landlock.NEWEST_ABI + 1):
        cells = [_kernel_cell("native", abi), _kernel_cell("landlock", abi)]
        before = landlock.gaps(abi - 1) if abi > 1 else ()
        ended = "; ".join(gap for gap in before if gap not in landlock.gaps(abi))
        if ended or abi < 2:
            rows.append([str(abi), *cells, ended])
    return _table(["ABI", "`native`", "`landlock`", "below this ABI"], rows)


def _kernel_cell(backend: str, abi: int) -> str:
    probe, best = _probe(backend, ImaginaryHost(abi=abi)), _probe(backend, ImaginaryHost())
    if not probe.available:
        return "does not work"
    missing = sorted(f"`{feature.value}`" for feature in best.enforces - probe.enforces)
    return f"without {', '.join(missing)}" if missing else "works"


def backends() -> str:
    """What each backend says about itself."""
    parts = ["`auto` takes the first backend that enforces everything, in this order:", _auto_orders()]
    for name, target in BUILTIN.items():
        text = import_module(target.partition(":")[0]).__doc__ or ""
        parts.append(f"### {name}\n\n```\n{text.strip()}\n```")
    return "\n\n".join(parts)


def _auto_orders() -> str:
    titles = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
    rows = []
    for platform, names in AUTO.items():
        later = [name for name in names if name not in BUILTIN]
        order = ", ".join(f"`{name}`" for name in names if name in BUILTIN) or "none yet"
        rows.append([titles[platform], order, ", ".join(f"`{name}`" for name in later) or "–"])
    return _table(["platform", "order", "not in this version"], rows)


def holes() -> str:
    """Known holes of the programs that backends use."""
    rows = [
        [
            f"`{hole.tool}`",
            hole.reference,
            hole.what,
            ", ".join(hole.fixed),
            "yes" if hole.affects else "no",
            hole.why,
        ]
        for hole in HOLES
    ]
    return _table(["program", "hole", "what", "fixed in", "affects corral", "why"], rows)


def capabilities() -> str:
    """Every kind and verb, with the feature that it makes a policy require."""
    rows = []
    for example, meaning in EXAMPLES.items():
        capability = parse_capability(example)
        needed = ", ".join(f"`{feature.value}`" for feature in features_of(capability)) or "none"
        target = "" if not capability.target else f"`{capability.target}`"
        rows.append([capability.kind, capability.verb, target, f"`{example}`", meaning, needed])
    return _table(["kind", "verb", "target", "example", "meaning", "feature"], rows)


def presets() -> str:
    """Each preset: its sentence and its own lines."""
    parts = []
    for name in PRESETS:
        lines = "\n".join(_own_lines(name))
        parts.append(f"### {name}\n\n{_sentence(describe_preset(name))}\n\n```\n{lines}\n```")
    return "\n\n".join(parts)


def shared(name: str) -> str:
    """A file that presets build on."""
    return "```\n" + "\n".join(_own_lines(name)) + "\n```"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _own_lines(name: str) -> list[str]:
    lines = (_PRESET_FILES / f"{name}.caps").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith(f"# {name}:")).strip().splitlines()


def commands() -> str:
    """The help of the program and of each command, those of groups included."""
    top = click.Context(
        cli, info_name="corral", terminal_width=_WIDTH, max_content_width=_WIDTH, **cli.context_settings
    )
    top.meta[ALL_OPTIONS] = True
    return "\n\n".join(_help(cli, top))


def _help(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"## {context.command_path}\n\n```\n{_stripped(command.get_help(context))}\n```"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.commands[name]
            yield from _help(
                inner,
                click.Context(
                    inner, info_name=name, parent=context, terminal_width=_WIDTH, max_content_width=_WIDTH
                ),
            )


def keys() -> str:
    """Every key of a configuration, with its variable and an example."""
    rows = []
    for key in KEYS:
        names = ", ".join(f"`{name}`" for name in (key.name, *key.aliases))
        rows.append([names, key.kind.name, key.meaning, f"`{json.dumps(key.example)}`", f"`{key.variable}`"])
    return _table(["key", "value", "meaning", "example", "variable"], rows)


def schema() -> str:
    """The JSON Schema that is shipped."""
    return json.dumps(build_schema(), indent=2) + "\n"


def man() -> str:
    """The man page, which the wheel installs."""
    return render_man(cli, __version__)


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


#: File -> name of a part -> its text.
def escapes() -> str:
    """Every attack of the self-test."""
    rows = [
        [f"`{probe.name}`", probe.title.rstrip("."), f"`{probe.feature.value}`", probe.source]
        for probe in sorted(PROBES, key=lambda probe: (probe.feature.value, probe.name))
    ]
    return _table(["probe", "the attack", "breaks", "source"], rows)


def variants() -> str:
    """What each variant of the container image is for, and the packages that its recipe names."""
    rows = []
    for variant in VARIANTS:
        recipe = load_recipe(variant)
        rows.append([f"`{recipe.names[0]}`", recipe.description, ", ".join(recipe.packages)])
    rows += [
        [f"`{REPOSITORY}:{alias}`", f"another name for `{variant}`", ""] for alias, variant in ALIASES.items()
    ]
    return _table(["image", "what it is for", "packages"], rows)


_CORPUS = DOCS.parent / "tests/unit/shell_check/corpus"


def tallies() -> str:
    """How the built-in rules do on the corpus."""
    from corral.shell_check.check import check

    rows = []
    for name, title in (("benign", "of real projects"), ("hostile", "hostile")):
        lines = (_CORPUS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line) for line in lines]
        found = [check(entry["command"]).verdict.value for entry in entries]
        counts = [str(found.count(verdict)) for verdict in ("allow", "ask", "deny")]
        right = sum(entry["expect"] == verdict for entry, verdict in zip(entries, found, strict=True))
        rows.append([title, str(len(found)), *counts, f"{right / len(found):.1%}"])
    return _table(["commands", "number", "`allow`", "`ask`", "`deny`", "as expected"], rows)


def rules() -> str:
    """Every built-in rule, with one of its examples."""
    from corral.shell_check.load_rules import builtin_rules

    rows = []
    for rule in builtin_rules().rules:
        example = rule.match[0].replace("\n", " ").replace("|", "\\|")
        shown = example if example.isascii() else ascii(example)
        tick = "``" if "`" in shown else "`"
        rows.append([f"`{rule.name}`", rule.kind, rule.verdict.value, rule.sentence, f"{tick}{shown}{tick}"])
    return _table(["rule", "kind", "verdict", "it", "for example"], rows)


PARTS = {
    "check.md": {"tallies": tallies, "rules": rules},
    "escapes.md": {"escapes": escapes},
    "backends.md": {
        "matrix": matrix,
        "holes": holes,
        "approximations": approximations,
        "kernels": kernels,
        "backends": backends,
    },
    "cli.md": {"commands": commands},
    "configuration.md": {"keys": keys},
    "images.md": {"variants": variants},
    "policy.md": {
        "capabilities": capabilities,
        "presets": presets,
        "system": lambda: shared("_system"),
        "protected": lambda: shared("_protected"),
        "homes": lambda: shared("_homes"),
    },
}


def render(name: str) -> str:
    """A document as it should be: its generated parts made anew."""
    text = (DOCS / name).read_text(encoding="utf-8")
    for part, make in PARTS[name].items():
        begin = _BEGIN.format(part)
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(_END)
        if not found or not closed:
            raise ValueError(f"{name} has no part {part!r}")
        text = f"{before}{begin}\n{make()}\n{_END}{after}"
    return text


def outdated() -> list[str]:
    """Documents whose generated parts are not what the code says."""
    stale = [name for name in PARTS if (DOCS / name).read_text(encoding="utf-8") != render(name)]
    whole = {SCHEMA: schema(), MAN: man()}
    return [
        *stale,
        *(
            path.name
            for path, text in whole.items()
            if not path.exists() or path.read_text(encoding="utf-8") != text
        ),
    ]


def main(arguments: list[str]) -> int:
    """`--write` the parts, or `--check` that nothing would change."""
    if arguments == ["--write"]:
        for name in PARTS:
            (DOCS / name).write_text(render(name), encoding="utf-8")
        SCHEMA.write_text(schema(), encoding="utf-8")
        MAN.write_text(man(), encoding="utf-8")
        return 0
    if arguments == ["--check"]:
        stale = outdated()
        sys.stderr.writelines(f"{name} is out of date: python docs/generate.py --write\n" for name in stale)
        return 1 if stale else 0
    sys.stderr.write("usage: python docs/generate.py --write | --check\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
