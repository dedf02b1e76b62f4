"""The options of `run`, `shell` and `explain`: one table, read by click and by the quick parser."""

from __future__ import annotations

from corral.model.record import Record


class Option(Record):
    name: str  # the key in the parsed options
    flags: tuple[str, ...]
    help: str
    metavar: str = ""  # empty: a switch
    multiple: bool = False
    value: object = True  # what a switch stands for


OPTIONS: tuple[Option, ...] = (
    Option(
        "profile",
        ("-p", "--profile", "--sandbox-profile"),
        "A preset: strict, moderate (default), permissive.",
        "NAME",
    ),
    Option("agent", ("--agent",), "Use the settings of this agent in the configuration.", "NAME"),
    Option("sandbox", ("--sandbox",), "Run in the sandbox (default),"),
    Option("sandbox", ("--no-sandbox",), "or without one. The same as --backend none.", value=False),
    Option("backend", ("--backend",), "auto (default), or one that `corral doctor` lists.", "NAME"),
    Option("image", ("--image",), "The container image, for docker and podman.", "NAME"),
    Option("read", ("--read",), "Let it read a path.", "PATH", multiple=True),
    Option("write", ("--write",), "Let it read and write a path.", "PATH", multiple=True),
    Option("deny", ("--deny",), "Hide a path or pattern in a granted directory.", "PATH", multiple=True),
    Option(
        "deny_from",
        ("--deny-from",),
        "Hide what matches the patterns in a file, one per line.",
        "FILE",
        multiple=True,
    ),
    Option("net", ("--net",), "none (default), limited or full.", "MODE"),
    Option(
        "allow",
        ("--allow",),
        "Allow a host: example.org, *.example.com, db:5432, @pip.",
        "HOST",
        multiple=True,
    ),
    Option("publish", ("--publish",), "Reach its server at localhost:PORT.", "PORT", multiple=True),
    Option("cap", ("--cap",), "Add a capability, such as filesystem:read:/docs.", "TEXT", multiple=True),
    Option("env", ("--env",), "Pass a variable (NAME), or set one (NAME=VALUE).", "NAME", multiple=True),
    Option("memory", ("--memory",), "Memory for all its processes: 512m, 1GiB.", "SIZE"),
    Option("cpus", ("--cpus",), "Share of the processors: 1.5, 50%.", "SHARE"),
    Option("pids", ("--pids",), "Number of processes.", "COUNT"),
    Option("timeout", ("--timeout",), "Stop it after this time: 90s, 2m30s.", "TIME"),
    Option("output_limit", ("--output-limit",), "Bytes it may print.", "SIZE"),
    Option(
        "require",
        ("--require",),
        "Run only if this feature is enforced: limit.memory,limit.pids.",
        "FEATURE",
        multiple=True,
    ),
    Option(
        "waive",
        ("--waive",),
        "Give up a feature, on record: fs.metadata,proc.hidden.",
        "FEATURE",
        multiple=True,
    ),
    Option("cwd", ("--cwd",), "Directory to work in: the workspace.", "DIR"),
    Option("config", ("--config",), "Read this file instead of your own configuration.", "FILE"),
    Option("no_config", ("--no-config",), "Read no configuration: neither files nor CORRAL_* variables."),
    Option("trial", ("--try",), "Keep its changes in a trial, to apply or discard."),
    Option("trial_size", ("--trial-size",), "Try it in memory, with this much space: 500M.", "SIZE"),
    Option("trial_files", ("--trial-files",), "Try it in memory, with this many files.", "COUNT"),
    Option("line", ("-c",), "Run a shell line instead of a command.", "LINE"),
    Option("terminal", ("-t", "--tty"), "Give it its own terminal."),
    Option("stats", ("--stats",), "Print resource usage; on a terminal also during the run."),
    Option("trace", ("--trace",), "Print failing calls on files as they happen; slower."),
    Option("debug", ("--debug",), "If it fails, keep its sandbox and open a shell there."),
    Option("on_refusal", ("--on-refusal",), "deny (default), warn, throttle, terminate, quarantine.", "MODE"),
    Option("json", ("--json",), "Print the whole result record as JSON."),
    Option("verbose", ("-v", "--verbose"), "Print what protected the run."),
)


#: Each of them has a command tried.
OF_A_TRIAL = ("trial", "trial_size", "trial_files")
#: How one run is started, watched or shown; most others shape its policy.
OF_A_RUN = frozenset({"terminal", "stats", "trace", "debug", *OF_A_TRIAL})


def defaults() -> dict[str, object]:
    """The parsed form of no option at all."""
    empty: dict[str, object] = {}
    for option in OPTIONS:
        is_open = bool(option.metavar) or option.name == "sandbox"  # not said: neither yes nor no
        empty[option.name] = () if option.multiple else None if is_open else False
    return empty


def parse_quickly(arguments: list[str]) -> tuple[dict[str, object], tuple[str, ...]] | None:
    """Parse options and the command after them; None for anything that is not plain.

    Importing click takes longer than starting a sandbox. What this does not understand, click does,
    with its help and its errors; a test holds both to the same answers.
    """
    known = {flag: option for option in OPTIONS for flag in option.flags}
    found = defaults()
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        flag = rest.pop(0)
        if flag == "--":
            break
        name, equals, value = flag.partition("=") if flag.startswith("--") else (flag, "", "")
        option = known.get(name)
        if option is None or (equals and not option.metavar):
            return None
        if not option.metavar:
            found[option.name] = option.value
            continue
        if not equals:
            if not rest:
                return None
            value = rest.pop(0)
        _store(found, option, value)
    return found, tuple(rest)


def _store(found: dict[str, object], option: Option, value: str) -> None:
    previous = found[option.name]
    found[option.name] = (*previous, value) if isinstance(previous, tuple) else value
