"""The keys of a configuration: one table, for the validator, the environment, the schema and the docs."""

from __future__ import annotations

from corral.backends.registry import CONFINING
from corral.backends.registry import NAMES as BACKENDS
from corral.config.values import (
    ANY_TEXT,
    BOOLEAN,
    CAPABILITY,
    COUNT,
    DOMAIN,
    DURATION,
    FEATURE,
    FILES,
    HOST,
    IMAGE,
    INSIDE,
    MEMORY,
    MEMORY_DEFAULT,
    NAME,
    PATH,
    PATTERN,
    PORT,
    SHARE,
    SIZE,
    TEXT,
    TOOL,
    USER,
    VARIABLE,
    VOLUME,
    choice,
    list_of,
    table_of,
)
from corral.model.container import CALLER, NETWORKS, PULLS, ROOTS, WORKSPACE
from corral.model.policy import NetMode, Response
from corral.model.record import Record
from corral.policy.preset import PRESETS
from corral.shell_check.mode import MODES as CHECK_MODES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.config.values import Kind


#: What `fallback` can be.
FALLBACKS = ("refuse", "unconfined")


#: What commands write to: the workspace itself, or a layer over it.
WORKSPACES = ("direct", "trial")


#: Tables beside `sandbox`: what is about commands and runs, and no policy.
TOP_TABLES = ("check", "audit")


class Key(Record):
    """One key below `sandbox`, or in a table beside it."""

    name: str
    kind: Kind
    meaning: str
    example: object
    grants: bool = False  # a later layer that names a profile starts without it
    capability: str = ""  # each value, after this beginning, is a capability
    aliases: tuple[str, ...] = ()
    default: object = None  # of what is no policy; the rest begins with the preset
    only_user: str = ""  # a value that counts in the user's own file alone

    @property
    def variable(self) -> str:
        """The environment variable that says the same."""
        return "CORRAL_" + self.name.upper().replace(".", "_")

    @property
    def table(self) -> str:
        """The whole name of the table that it stands in."""
        group = self.name.rpartition(".")[0]
        return group if self.is_beside else f"sandbox.{group}".rstrip(".")

    @property
    def is_beside(self) -> bool:
        """Whether its table stands beside `sandbox`."""
        return self.name.partition(".")[0] in TOP_TABLES

    @property
    def is_list(self) -> bool:
        """Whether the values of several layers add up."""
        return self.kind.element is not None


#: In the order in which the keys of one layer are applied: the profile first, which is a new beginning.
KEYS: tuple[Key, ...] = (
    Key("profile", choice(PRESETS), "the preset to start from", "moderate"),
    Key("enabled", BOOLEAN, "confine commands; `false` runs them without any sandbox", True, default=True),
    Key(
        "backend",
        choice(BACKENDS),
        "the backend that enforces the policy; `auto` takes the first that can",
        "auto",
        aliases=("runtime",),
        default="auto",
    ),
    Key(
        "backends",
        list_of(choice(CONFINING)),
        "the backends that `auto` tries, in this order",
        ["podman", "native"],
        default=(),
    ),
    Key(
        "fallback",
        choice(FALLBACKS),
        "if no backend can enforce the policy: `refuse`, or run `unconfined` (in your own file only)",
        "refuse",
        grants=True,
        default=FALLBACKS[0],
        only_user=FALLBACKS[1],
    ),
    Key(
        "image", IMAGE, "the container image, for `docker` and `podman`", "corral/sandbox:latest", default=""
    ),
    Key(
        "container.workspace",
        INSIDE,
        "the path of the workspace inside a container; `same` for its own path",
        WORKSPACE,
        default=WORKSPACE,
    ),
    Key(
        "container.ports",
        list_of(PORT),
        'ports of a container to publish on the host, with `network = "full"`',
        ["127.0.0.1:8080:80"],
        grants=True,
        default=(),
    ),
    Key(
        "container.volumes",
        list_of(VOLUME),
        "volumes of the engine, or granted paths, to mount at other paths inside a container",
        ["cache:/cache"],
        grants=True,
        default=(),
    ),
    Key(
        "container.entrypoint",
        list_of(TEXT),
        "a program, with its arguments, that starts every command in a container",
        ["/usr/bin/env"],
        default=(),
    ),
    Key(
        "container.user",
        USER,
        "the user that the command sees inside: `caller`, `root`, or `UID:GID`; outside it is always you",
        "root",
        default=CALLER,
    ),
    Key(
        "container.name",
        NAME,
        "the name of the container; only one of that name can run",
        "my-review",
        default="",
    ),
    Key(
        "container.start_timeout",
        DURATION,
        "how long the engine may take to start a container",
        "2m",
        default="60s",
    ),
    Key(
        "container.pull",
        choice(PULLS),
        "`missing` lets the engine fetch an image that it does not have",
        PULLS[0],
        grants=True,
        default=PULLS[0],
    ),
    Key(
        "container.network",
        choice(NETWORKS),
        "what `network = \"full\"` means in a container: the `host`'s network, or the engine's `bridge`",
        NETWORKS[0],
        default=NETWORKS[0],
    ),
    Key(
        "container.root",
        choice(ROOTS),
        "`writable` lets commands change the image's files, until the container ends",
        ROOTS[0],
        grants=True,
        default=ROOTS[0],
    ),
    Key(
        "container.keep",
        BOOLEAN,
        "keep the ended container in the engine, for inspection",
        False,
        grants=True,
        default=False,
    ),
    Key(
        "mounts.workspace_writable",
        BOOLEAN,
        "let commands write to the workspace, or only read it",
        True,
        grants=True,
    ),
    Key(
        "mounts.persist_caches",
        BOOLEAN,
        "keep package caches between runs, in a separate directory for this workspace",
        True,
        grants=True,
        default=False,
    ),
    Key(
        "network",
        choice(tuple(mode.value for mode in NetMode)),
        "`none`, `limited` (public addresses, ports 80 and 443) or `full`",
        "none",
        grants=True,
        capability="network",
    ),
    Key(
        "allow_domains",
        list_of(DOMAIN),
        "allow only these hosts: a name by http and https, `*.name`, or `name:port`",
        ["files.example.org", "*.example.com", "db.internal:5432"],
        grants=True,
    ),
    Key(
        "deny_domains",
        list_of(HOST),
        "never connect to these, even if another rule allows it",
        ["tracker.example.com"],
        capability="network:deny",
    ),
    Key("resources.memory", MEMORY, "memory of all processes together", "2G", capability="memory:limit"),
    Key("resources.cpus", SHARE, "processors for all processes together", 2.0, capability="cpu:limit"),
    Key("resources.cpu_time", DURATION, "processor time of all together", "30s", capability="cpu:time"),
    Key("resources.pids", COUNT, "number of processes and threads", 256, capability="pids:limit"),
    Key("resources.time", DURATION, "how long a command may run", "10m", capability="time:limit"),
    Key("resources.output", SIZE, "how much a command may print", "10MB", capability="output:limit"),
    Key("resources.file_size", SIZE, "size of each file it writes", "1GiB", capability="file:limit"),
    Key("resources.open_files", FILES, "open files of each process", 1024, capability="files:limit"),
    Key("resources.disk", SIZE, "size of the private areas together", "1GiB", capability="disk:limit"),
    Key("resources.traffic", SIZE, "bytes over the network, both ways", "1GiB", capability="traffic:limit"),
    Key("resources.traffic_rate", SIZE, "of these, in a second", "10MB", capability="traffic:rate"),
    Key(
        "defaults.memory",
        MEMORY_DEFAULT,
        "memory for commands without a limit, if the host can enforce it: a size, or a share of the machine",
        "75%",
        capability="memory:default",
    ),
    Key("defaults.cpus", SHARE, "the same for processors", 2.0, capability="cpu:default"),
    Key("defaults.pids", COUNT, "the same for processes and threads", 4096, capability="pids:default"),
    Key(
        "readonly_paths",
        list_of(PATTERN),
        "paths that commands may read; a pattern makes its matches read-only inside writable paths",
        ["~/data"],
        grants=True,
        capability="filesystem:read",
    ),
    Key(
        "readwrite_paths",
        list_of(PATH),
        "paths that commands may read and write",
        ["${workspace}/out"],
        grants=True,
        capability="filesystem:write",
    ),
    Key(
        "denied_paths",
        list_of(PATTERN),
        "paths to hide inside granted ones, or patterns: `*.pem`, `**/.env`",
        ["${workspace}/.env"],
        capability="filesystem:deny",
    ),
    Key(
        "environment.pass",
        list_of(VARIABLE),
        "your variables to pass to the command; `LC_*` for all that begin with `LC_`",
        ["LANG"],
        grants=True,
        capability="env:pass",
    ),
    Key("environment.set", table_of(ANY_TEXT), "variables to set to a value", {"CI": "1"}, grants=True),
    Key(
        "capabilities",
        list_of(CAPABILITY),
        "any other part of a policy, one capability each",
        ["filesystem:read:/srv/docs"],
        grants=True,
    ),
    Key("waive", list_of(FEATURE), "guarantees to give up, on record", ["fs.metadata"], grants=True),
    Key(
        "require",
        list_of(FEATURE),
        "guarantees without which nothing runs, though the policy could do without them",
        ["limit.memory"],
        capability="feature:require",
    ),
    Key(
        "bypass_tools",
        list_of(TOOL),
        "programs that run without a sandbox: those of the system by name, others by path",
        ["todoread"],
        grants=True,
    ),
    Key(
        "ask_unconfined",
        BOOLEAN,
        "an agent may ask you to run a single command without a sandbox",
        True,
        grants=True,
        default=False,
    ),
    Key(
        "workspace",
        choice(WORKSPACES),
        "`trial`: keep changes to the workspace in a trial, to apply or discard",
        "trial",
        default=WORKSPACES[0],
    ),
    Key("keep_alive", BOOLEAN, "sessions keep their sandbox between commands", True, default=True),
    Key(
        "on_refusal",
        choice(tuple(response.value for response in Response)),
        "what to do after a refusal: `deny` (continue), `warn`, `throttle`, `terminate`, `quarantine`",
        "terminate",
        capability="refusal",
    ),
    Key(
        "check.mode",
        choice(CHECK_MODES),
        "check the text of commands first: `warn`, `ask` (refuse if there is no terminal), or `enforce`",
        "ask",
        default=CHECK_MODES[0],
    ),
    Key(
        "check.rules",
        list_of(PATH),
        "files with your own rules for the check",
        ["~/.config/corral/rules.toml"],
        default=(),
    ),
    Key(
        "audit.enabled",
        BOOLEAN,
        "record every run, in a tamper-evident log",
        True,
        default=False,
    ),
    Key(
        "audit.on_failure",
        choice(("refuse", "warn")),
        "if a run cannot be recorded: `refuse` it, or `warn`",
        "refuse",
        default="refuse",
    ),
    Key("audit.rotate", SIZE, "size at which the log starts a new file", "64MiB", default="64MiB"),
    Key(
        "audit.key",
        PATH,
        "a file with a key, without which nobody can forge a line",
        "~/.config/corral/audit.key",
        default="",
    ),
)

BY_NAME: dict[str, Key] = {name: key for key in KEYS for name in (key.name, *key.aliases)}
