"""The default system-call filter: what a confined command may not ask of the kernel, and why.

A deny-list: what is not named here is allowed, numbers that corral does not know are ENOSYS. The
error is EPERM where a program should learn that it may not, ENOSYS where it has a second way that
it takes when the kernel lacks the first. Left open on purpose:

    landlock_*, seccomp, prctl   they can only take rights away; sandboxes inside the sandbox are welcome
    statmount, listmount         show the mount table that /proc/self/mountinfo shows
    pidfd_*, process_mrelease    signals obey the same rules through a descriptor (pidfd_getfd does not)
    memfd_secret, vmsplice       act on the caller's own memory
    mknod of devices, set*id, capset   need capabilities that the launcher has dropped
"""

from __future__ import annotations

from enum import Enum

from corral.linux.group_rules import rules_of_groups
from corral.linux.rule import (
    ENOSYS,
    EPERM,
    Errno,
    Filter,
    Rule,
    different,
    equal,
    fail_with,
    masked_any,
    masked_different,
    masked_equal,
)
from corral.linux.syscalls import is_known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.linux.rule import Action, Condition

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_ROUTE = 0
SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET = 1, 2, 5
SOCK_TYPE_MASK = 0xF  # the rest is SOCK_CLOEXEC and SOCK_NONBLOCK
IPPROTO_DEFAULT, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6 = 0, 1, 6, 17, 58
SOL_SOCKET, SO_BINDTODEVICE, SO_BINDTOIFINDEX = 1, 25, 62
IPPROTO_IP, IP_OPTIONS = 0, 4
TCP_ULP = 31
MSG_FASTOPEN = 0x2000_0000
CLONE_NEW_ANY = 0x7E02_0000  # NEWTIME is no flag of clone: its bit belongs to the exit signal there
CLONE_THREAD = 0x0001_0000
TIOCSTI, TIOCLINUX, TIOCSETD = 0x5412, 0x541C, 0x5423
PRIO_PROCESS, IOPRIO_WHO_PROCESS = 0, 1
SIGCONT, F_SETSIG, PR_SET_PDEATHSIG = 18, 10, 1
F_SETLEASE, F_SETDELEG = 1024, 1040
SCHED_FIFO, SCHED_RR, SCHED_DEADLINE = 1, 2, 6
SCHED_POLICY_MASK = 0xBFFF_FFFF  # without SCHED_RESET_ON_FORK
PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0xFFFF_FFFF)  # LINUX, LINUX32, UNAME26, both, "tell me"
ADDR_NO_RANDOMIZE = 0x40000
S_ISUID, S_ISGID = 0o4000, 0o2000
O_MAKES = 0o20000100  # O_CREAT, and the bit of O_TMPFILE that is its own: only with these open has a mode


class SocketPolicy(Enum):
    """Which sockets can be made. Sockets that a command inherits are not the filter's affair."""

    NAMESPACED = "namespaced"  # a network namespace decides what is within reach
    HOST = "host"  # the host's network is granted; the same sockets, named apart for `corral explain`
    INTERNET = "internet"  # the host's network, but its files as well: no Unix socket that a path leads to
    PROXIED = "proxied"  # the host's network, of which corral connects TCP sockets to its own proxy alone
    NONE = "none"  # no namespace and no network: no socket that could reach anything


def _deny(names: str, action: Action, reason: str, *conditions: Condition) -> tuple[Rule, ...]:
    return tuple(Rule(name, action, reason, conditions) for name in names.split())


def _type_is_none_of(*kinds: int) -> tuple[Condition, ...]:
    return tuple(masked_different(1, SOCK_TYPE_MASK, kind) for kind in kinds)


_SET_ID = "a program that gives its user the caller's rights"

DEFAULT_RULES: tuple[Rule, ...] = (
    # ---- ways around the other layers
    *_deny(
        "io_uring_setup io_uring_enter io_uring_register",
        ENOSYS,
        "opens files and sockets out of the filter's sight; libraries fall back on ENOSYS",
    ),
    *_deny("clone3", ENOSYS, "its flags are behind a pointer; libc falls back to clone on ENOSYS"),
    *_deny("clone", EPERM, "a new namespace gives capabilities in it", masked_any(0, CLONE_NEW_ANY)),
    *_deny("unshare setns", EPERM, "a new namespace gives capabilities in it"),
    *_deny("listns", EPERM, "lists the namespaces of the host"),
    *_deny(
        "mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick open_tree open_tree_attr move_mount"
        " mount_setattr",
        EPERM,
        "undoes read-only and hidden paths; parses file systems in the kernel",
    ),
    *_deny("open_by_handle_at name_to_handle_at", EPERM, "opens files by number, past every path rule"),
    *_deny("lsm_set_self_attr", EPERM, "asks for another security label"),
    # ---- what others may start on the host. Set-group-id is a matter of directories as well, for chmod
    *_deny("chmod fchmod", EPERM, _SET_ID, masked_any(1, S_ISUID)),
    *_deny("fchmodat fchmodat2", EPERM, _SET_ID, masked_any(2, S_ISUID)),
    *_deny("creat mknod", EPERM, _SET_ID, masked_any(1, S_ISUID | S_ISGID)),
    *_deny("mknodat", EPERM, _SET_ID, masked_any(2, S_ISUID | S_ISGID)),
    *_deny("open", EPERM, _SET_ID, masked_any(1, O_MAKES), masked_any(2, S_ISUID | S_ISGID)),
    *_deny("openat", EPERM, _SET_ID, masked_any(2, O_MAKES), masked_any(3, S_ISUID | S_ISGID)),
    *_deny("openat2", ENOSYS, "its flags and mode are behind a pointer; programs fall back to openat"),
    # ---- other processes
    *_deny(
        "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise",
        EPERM,
        "reaches into another process",
    ),
    *_deny(
        "prlimit64",
        EPERM,
        "limits of another process: of the launcher, or of one of the host",
        different(0, 0),
    ),
    # ---- what exploits are made of
    *_deny("bpf perf_event_open userfaultfd fanotify_init fanotify_mark", EPERM, "exploit primitive"),
    *_deny("modify_ldt", ENOSYS, "exploit primitive; of use to 16-bit code only; optional in the kernel"),
    *_deny(
        "setsockopt",
        fail_with(Errno.ENOPROTOOPT),
        "loads kernel TLS and the like over TCP: exploit primitive; libraries do without",
        equal(1, IPPROTO_TCP),
        equal(2, TCP_ULP),
    ),
    *_deny(
        "personality",
        EPERM,
        "switches address randomisation off, makes memory executable",
        *(different(0, allowed) for allowed in PERSONALITIES),
    ),
    # ---- keys and terminals, which no namespace separates
    *_deny(
        "add_key keyctl request_key", EPERM, "keyrings are shared with the host; the session's is inherited"
    ),
    *_deny("ioctl", EPERM, "types into the terminal", equal(1, TIOCSTI)),
    *_deny("ioctl", EPERM, "pastes into the console", equal(1, TIOCLINUX)),
    *_deny("ioctl", EPERM, "loads line disciplines: exploit primitive", equal(1, TIOCSETD)),
    # ---- the host's own affairs
    *_deny(
        "kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct"
        " quotactl quotactl_fd syslog vhangup iopl ioperm",
        EPERM,
        "host administration",
    ),
    *_deny(
        "settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname",
        EPERM,
        "state of the whole machine",
    ),
    *_deny(
        "mbind set_mempolicy migrate_pages move_pages set_mempolicy_home_node",
        EPERM,
        "placement of memory, also that of other processes; seldom needed",
    ),
    *(
        rule
        for lease in (F_SETLEASE, F_SETDELEG)
        for rule in _deny("fcntl", EPERM, "who opens the file outside waits, or fails", equal(1, lease))
    ),
    *(
        rule
        for policy in (SCHED_FIFO, SCHED_RR, SCHED_DEADLINE)
        for rule in _deny(
            "sched_setscheduler",
            EPERM,
            "real-time scheduling starves the host",
            masked_equal(1, SCHED_POLICY_MASK, policy),
        )
    ),
    *_deny("sched_setattr", EPERM, "real-time scheduling, its policy behind a pointer"),
    # ---- dead code
    *_deny(
        "uselib ustat sysfs _sysctl lookup_dcookie nfsservctl create_module get_kernel_syms query_module"
        " getpmsg putpmsg afs_syscall tuxcall security vserver",
        ENOSYS,
        "obsolete",
    ),
)

#: Where processes are in reach that are none of the command's own: those of the host, or, in a kept sandbox,
#: the server and its jobs. What they are told, every later command inherits, and nobody may undo it.
SCHEDULING_RULES: tuple[Rule, ...] = (
    *_deny(
        "sched_setaffinity sched_setparam sched_setscheduler",
        EPERM,
        "how other processes are scheduled",
        different(0, 0),
    ),
    *_deny("setpriority", EPERM, "groups and users reach beyond the command", different(0, PRIO_PROCESS)),
    *_deny("setpriority", EPERM, "how other processes are scheduled", different(1, 0)),
    *_deny(
        "ioprio_set", EPERM, "groups and users reach beyond the command", different(0, IOPRIO_WHO_PROCESS)
    ),
    *_deny("ioprio_set", EPERM, "how other processes read and write", different(1, 0)),
)

#: Where the host's IPC and PID namespaces are in reach. Whole families: an IPC_PRIVATE object is found by
#: its number all the same, and outlives the run.
SHARED_NAMESPACE_RULES: tuple[Rule, ...] = (
    *_deny("shmget shmat shmctl", ENOSYS, "shared memory of the host; shmdt reaches nothing new"),
    *_deny("msgget msgsnd msgrcv msgctl", ENOSYS, "message queues of the host"),
    *_deny("semget semop semtimedop semctl", ENOSYS, "semaphores of the host"),
    *_deny("mq_open mq_unlink", ENOSYS, "message queues of the host; the other mq_ calls need a descriptor"),
    *SCHEDULING_RULES,
    *_deny(
        "getxattr lgetxattr listxattr llistxattr getxattrat listxattrat",
        fail_with(Errno.EOPNOTSUPP),
        "attributes of files outside: Landlock knows no right for reading them",
    ),
)

#: Where the policy grants no further process. Threads pass: the kernel takes CLONE_THREAD only together with
#: CLONE_SIGHAND and CLONE_VM, so what it makes is no process. So does exec, which replaces the one there is.
#: clone3 is refused above, and libc comes here; aarch64 has neither fork nor vfork.
SINGLE_PROCESS_RULES: tuple[Rule, ...] = (
    *_deny("fork vfork", EPERM, "the policy grants no further process"),
    *_deny("clone", EPERM, "the policy grants no further process", masked_equal(0, CLONE_THREAD, 0)),
)

#: What debuggers need. TRUST: the kernel asks the filter after the tracer has had its say; Landlock lets no
#: process trace another outside its own domain; and the launcher's processes are not dumpable.
DEBUGGING_CALLS = frozenset({"ptrace", "process_vm_readv", "process_vm_writev", "personality"})
DEBUGGING_RULES: tuple[Rule, ...] = _deny(
    "personality",
    EPERM,
    "makes memory executable",
    *(different(0, allowed) for allowed in (*PERSONALITIES, ADDR_NO_RANDOMIZE)),
)

#: Where the launcher looks itself how much memory there is: it sees what processes map and what lies in the
#: private areas. A kernel without these calls is nothing new to libraries.
WATCHED_MEMORY_RULES: tuple[Rule, ...] = (
    *_deny(
        "memfd_create memfd_secret shmget semget msgget mq_open vmsplice",
        ENOSYS,
        "memory that no process need map is out of sight",
    ),
)

#: Where a share of the processors is that of some of them.
PINNED_RULES: tuple[Rule, ...] = _deny(
    "sched_setaffinity", EPERM, "spreads over more processors than are counted with"
)

#: Where it is kept by stopping the whole tree: nobody but the launcher may wake it up, and no timer, message
#: or child's end in its stead.
STOPPED_RULES: tuple[Rule, ...] = (
    *(
        rule
        for call, argument in (
            *(("kill", 1), ("tkill", 1), ("tgkill", 2), ("rt_sigqueueinfo", 1)),
            *(("rt_tgsigqueueinfo", 2), ("pidfd_send_signal", 1)),
        )
        for rule in _deny(call, EPERM, "wakes a stopped process", equal(argument, SIGCONT))
    ),
    *_deny("clone", EPERM, "a child's end wakes its parent", masked_equal(0, 0xFF, SIGCONT)),
    *_deny("prctl", EPERM, "a parent's end wakes its child", equal(0, PR_SET_PDEATHSIG), equal(1, SIGCONT)),
    *_deny("fcntl", EPERM, "input wakes a stopped process", equal(1, F_SETSIG)),
    *_deny("timer_create mq_notify", ENOSYS, "wakes a stopped process"),
)

_NO_FAMILY = fail_with(Errno.EAFNOSUPPORT)
_NO_PROTOCOL = fail_with(Errno.EPROTONOSUPPORT)
_NO_ACCESS = fail_with(Errno.EACCES)

_PAIRS_ARE_UNIX = _deny("socketpair", _NO_FAMILY, "pairs are for AF_UNIX", different(0, AF_UNIX))

_INTERNET = (different(0, AF_UNIX), different(0, AF_NETLINK))  # once the other families are refused

_OPEN_SOCKETS: tuple[Rule, ...] = (
    *_deny(
        "socket",
        _NO_FAMILY,
        "a family other than Unix, Internet and netlink: AF_ALG, AF_VSOCK, AF_PACKET, AF_XDP and more",
        *(different(0, family) for family in (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)),
    ),
    *_deny(
        "socket",
        _NO_FAMILY,
        "a netlink other than routing: packet filters, audit, crypto",
        equal(0, AF_NETLINK),
        different(2, NETLINK_ROUTE),
    ),
    # Not for AF_NETLINK, whose sockets are SOCK_RAW by custom (libc's getaddrinfo makes one).
    *_deny(
        "socket",
        EPERM,
        "packets made by hand (SOCK_RAW, SOCK_PACKET), and types that mean SCTP and DCCP",
        *_INTERNET,
        *_type_is_none_of(SOCK_STREAM, SOCK_DGRAM),
    ),
    *_deny(
        "socket",
        _NO_PROTOCOL,
        "a protocol other than TCP, UDP and ping: MPTCP, SCTP, DCCP, SMC load modules and pass port rules by",
        *_INTERNET,
        *(
            different(2, protocol)
            for protocol in (IPPROTO_DEFAULT, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6)
        ),
    ),
    *_PAIRS_ARE_UNIX,
)

# A path socket cannot be told from another one here, and there is docker.sock. One end of a datagram pair
# can be told to send elsewhere, to any path: it is a socket like those. Streams keep their peer for life.
_NO_UNIX: tuple[Rule, ...] = (
    *_deny("socket", _NO_ACCESS, "Unix sockets reach the host's services", equal(0, AF_UNIX)),
    *_PAIRS_ARE_UNIX,
    *_deny(
        "socketpair",
        _NO_ACCESS,
        "a datagram pair can send to any Unix socket",
        *_type_is_none_of(SOCK_STREAM, SOCK_SEQPACKET),
    ),
)

_INTERNET_SOCKETS: tuple[Rule, ...] = (
    *_NO_UNIX,
    *(rule for rule in _OPEN_SOCKETS if rule.syscall != "socketpair"),
)

_NO_SOCKETS: tuple[Rule, ...] = (*_NO_UNIX, *_deny("socket", _NO_FAMILY, "no network is granted"))

#: INVARIANT: whoever connects such a socket says alone where its packets go.
_PROXIED_SOCKETS: tuple[Rule, ...] = (
    *_NO_UNIX,
    *_deny(
        "socket",
        _NO_FAMILY,
        "the proxy is reached by the Internet families",
        different(0, AF_INET),
        different(0, AF_INET6),
    ),
    *_deny("socket", _NO_ACCESS, "the proxy is reached by TCP", *_type_is_none_of(SOCK_STREAM)),
    *_deny(
        "socket",
        _NO_PROTOCOL,
        "the proxy is reached by TCP: MPTCP, SCTP and SMC pass Landlock by",
        different(2, IPPROTO_DEFAULT),
        different(2, IPPROTO_TCP),
    ),
    *(
        rule
        for call, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3))
        for rule in _deny(
            call,
            fail_with(Errno.EOPNOTSUPP),
            "TCP fast open connects without connect",
            masked_any(flags, MSG_FASTOPEN),
        )
    ),
    *_deny("listen", _NO_ACCESS, "a port of the host: Landlock knows bind, and listen finds a port without"),
    *_deny(
        "setsockopt",
        EPERM,
        "a source route: packets pass another host before the one that is connected to",
        equal(2, IP_OPTIONS),
        equal(1, IPPROTO_IP),
    ),
    *(
        rule
        for option in (SO_BINDTODEVICE, SO_BINDTOIFINDEX)
        for rule in _deny(
            "setsockopt",
            EPERM,
            "packets leave by another device than their address says",
            equal(2, option),
            equal(1, SOL_SOCKET),
        )
    ),
)

_SOCKET_RULES = {
    SocketPolicy.NAMESPACED: _OPEN_SOCKETS,
    SocketPolicy.HOST: _OPEN_SOCKETS,
    SocketPolicy.INTERNET: _INTERNET_SOCKETS,
    SocketPolicy.PROXIED: _PROXIED_SOCKETS,
    SocketPolicy.NONE: _NO_SOCKETS,
}

#: Without these nothing can start or end; denying them is a mistake and not a policy.
_INDISPENSABLE = frozenset({"execve", "exit", "exit_group", "rt_sigreturn"})


def default_filter(
    *,
    sockets: SocketPolicy,
    private_ipc_by_filter: bool,
    single_process: bool = False,
    debugging: bool = False,
    watched_memory: bool = False,
    pinned: bool = False,
    stopped: bool = False,
    kept: bool = False,
    extra_denied: Iterable[str] = (),
) -> Filter:
    """Return the default rules, with those for sockets, and the policy's own denials.

    `private_ipc_by_filter`: there are no IPC and PID namespaces, so the filter must close what they would.
    `single_process`: the command may have threads, and no further process.
    `debugging`: it may trace processes; which ones is not the filter's affair.
    `watched_memory`: the launcher keeps the memory by itself; `pinned` and `stopped`: the share of the
    processors, by using only some of them, and these for a part of the time.
    `kept`: other commands follow, started by processes that this one sees.
    Raises ValueError, with the name, for a denied call that does not exist or that nothing can do without.
    """
    rules = (*DEFAULT_RULES, *_SOCKET_RULES[sockets])
    if debugging:
        rules = (*(rule for rule in rules if rule.syscall not in DEBUGGING_CALLS), *DEBUGGING_RULES)
    if private_ipc_by_filter:
        rules += SHARED_NAMESPACE_RULES
    elif kept:
        rules += SCHEDULING_RULES
    if single_process:
        rules += SINGLE_PROCESS_RULES
    denied_anyway = {rule.syscall for rule in rules if not rule.conditions}
    watching = ((watched_memory, WATCHED_MEMORY_RULES), (pinned, PINNED_RULES), (stopped, STOPPED_RULES))
    more = tuple(rule for is_needed, family in watching if is_needed for rule in family)
    rules += tuple(rule for rule in more if rule.syscall not in denied_anyway)
    denied_anyway |= {rule.syscall for rule in more if not rule.conditions}
    denied = frozenset(extra_denied)
    extra = sorted(denied - denied_anyway)
    for name in extra:
        if not is_known(name):
            raise ValueError(f"cannot deny the system call {name!r}: there is none of that name")
        if name in _INDISPENSABLE:
            raise ValueError(f"cannot deny the system call {name!r}: no command could run without it")
    remaining = [rule for rule in rules if rule.syscall not in extra]
    decided = {rule.syscall for rule in remaining if not rule.conditions}
    remaining += [rule for rule in rules_of_groups(denied) if rule.syscall not in decided]
    return Filter((*remaining, *_deny(" ".join(extra), EPERM, "denied by the policy")))
