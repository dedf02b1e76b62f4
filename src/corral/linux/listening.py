"""Which calls of a filter are told when they happen, and how the filter says so to the launcher's supervisor.

The kernel holds a call of a rule with the verdict NOTIFY and asks the supervisor (launcher/listen.c). It
answers with the errno that the rule has: what is refused stays refused, in the same words. An errno of 0 is a
call that is permitted anyway: the supervisor only hears what is written to standard error. The errno ASKED
is none: the supervisor passes the question on to corral, which answers itself (network/fronts/notify.py).

Not told: what a program tries in order to fall back on something else (clone3, io_uring, ENOSYS in general),
and what libraries try in passing (placement of memory, leases, families of sockets). Those cost nothing.
"""

from __future__ import annotations

from corral.linux.rule import LAST_ERRNO, Action, Filter, Rule, Verdict, equal
from corral.linux.syscalls import number
from corral.model.policy import Response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from corral.linux.syscalls import Arch

#: Entries of the filter that are marked *report*: nobody tries these in passing.
REPORTED = frozenset(
    {
        *("unshare", "setns", "clone", "fork", "vfork", "ptrace", "process_vm_readv", "process_vm_writev"),
        *(
            "mount",
            "umount2",
            "pivot_root",
            "chroot",
            "fsopen",
            "fsmount",
            "fspick",
            "open_tree",
            "move_mount",
        ),
        *("mount_setattr", "open_by_handle_at", "pidfd_getfd", "prlimit64", "bpf", "perf_event_open"),
        *("fanotify_init", "personality", "add_key", "request_key", "ioctl", "kexec_load", "kexec_file_load"),
        *("init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "acct", "syslog"),
        *("iopl", "ioperm", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname"),
        "setdomainname",
    }
)
#: Which arguments are strings, bit by bit: what is told of them is what the command claims.
_STRINGS = {
    **dict.fromkeys(("umount2", "chroot", "fsopen", "swapon", "swapoff", "acct", "add_key"), 0b1),
    **dict.fromkeys(("chmod", "chown", "lchown", "truncate", "unlink", "rmdir", "mkdir", "creat"), 0b1),
    **dict.fromkeys(("fspick", "open_tree", "fchmodat", "fchmodat2", "fchownat", "unlinkat"), 0b10),
    **dict.fromkeys(("mkdirat", "mknodat", "execveat"), 0b10),
    **dict.fromkeys(("mount", "pivot_root", "rename", "link", "symlink"), 0b11),
    **dict.fromkeys(("move_mount", "renameat", "renameat2", "linkat"), 0b1010),
}
#: Calls on files that are traced when somebody asks for it: each string, and whether the argument before it
#: is the directory that it is relative to.
_AT = 8  # a bit from here on for each string
_TRACED_BIT = 1 << 16
#: What follows a refusal, the same for all calls.
_RESPONSE_BITS = {Response.THROTTLE: 1 << 17, Response.TERMINATE: 1 << 18, Response.QUARANTINE: 1 << 18}
TRACED = {
    **dict.fromkeys(("open", "creat", "unlink", "mkdir", "rmdir", "chmod", "chown", "lchown"), 0b1),
    **dict.fromkeys(("truncate", "mknod", "execve", "chdir"), 0b1),
    **dict.fromkeys(
        ("openat", "openat2", "unlinkat", "mkdirat", "fchmodat", "fchmodat2"), 0b10 | 0b10 << _AT
    ),
    **dict.fromkeys(("fchownat", "mknodat", "execveat"), 0b10 | 0b10 << _AT),
    **dict.fromkeys(("rename", "link"), 0b11),
    **dict.fromkeys(("renameat", "renameat2", "linkat"), 0b1010 | 0b1010 << _AT),
    "symlink": 0b10,
    "symlinkat": 0b100 | 0b100 << _AT,
}
#: Of a call that corral itself answers. As in launcher/listen.c.
ASKED = LAST_ERRNO
_STDERR = 2
_HEARD = ("write", "writev")
#: By which the listener reaches the supervisor, after the filter is there.
_NEEDED = "sendmsg"


def can_listen(denied: Collection[str]) -> bool:
    """Whether a filter that denies these calls besides can have a listener."""
    return _NEEDED not in denied


def with_reports(policy: Filter, denied: Collection[str], *, hears: bool) -> Filter:
    """The same filter with a listener: marked entries and the policy's own denials are told.

    `hears`: and so is what is written to standard error.
    """
    rules = [_reported(rule) if _is_marked(rule, denied) else rule for rule in policy.rules]
    if hears:
        decided = {rule.syscall for rule in rules if not rule.conditions}
        rules += [
            Rule(name, Action(Verdict.NOTIFY), "standard error is heard", (equal(0, _STDERR),))
            for name in _HEARD
            if name not in decided
        ]
    return policy.replace(rules=tuple(rules))


def with_questions(policy: Filter) -> Filter:
    """The same filter for a command without a network of its own: corral is asked about each connection."""
    decided = {rule.syscall for rule in policy.rules if not rule.conditions}
    asked = Rule("connect", Action(Verdict.NOTIFY, ASKED), "corral makes every connection")
    return policy if asked.syscall in decided else policy.replace(rules=(*policy.rules, asked))


def with_traces(policy: Filter) -> Filter:
    """The same filter for a command that is traced: what it permits on files, the tracer sees."""
    decided = {rule.syscall for rule in policy.rules if not rule.conditions}
    added = [
        Rule(name, Action(Verdict.TRACE), "calls on files are traced")
        for name in TRACED
        if name not in decided
    ]
    return policy.replace(rules=(*policy.rules, *added))


def listened(
    arch: Arch, *, traces: bool = False, response: Response = Response.DENY
) -> Iterator[tuple[int, int]]:
    """For the launcher: calls with strings, and which of their arguments those are.

    By the `response`, whoever goes on being refused waits longer for each answer, or for his end.
    """
    always = _RESPONSE_BITS.get(response, 0)
    traced = {name: strings | _TRACED_BIT for name, strings in TRACED.items()} if traces else {}
    for name, strings in sorted({**_STRINGS, **traced}.items()):
        if (nr := number(arch, name)) is not None:
            yield nr, strings | always


def _is_marked(rule: Rule, denied: Collection[str]) -> bool:
    return rule.action.verdict is Verdict.ERRNO and (rule.syscall in REPORTED or rule.syscall in denied)


def _reported(rule: Rule) -> Rule:
    return rule.replace(action=Action(Verdict.NOTIFY, rule.action.errno))
