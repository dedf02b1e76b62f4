"""The default filter, judged by the reference interpreter: what it refuses, how, and what it lets pass."""

from __future__ import annotations

import pytest
from bpf_reference import Call, interpret

from corral.linux.bpf import compile_filter
from corral.linux.filter import (
    DEFAULT_RULES,
    SHARED_NAMESPACE_RULES,
    SINGLE_PROCESS_RULES,
    STOPPED_RULES,
    WATCHED_MEMORY_RULES,
    SocketPolicy,
    default_filter,
)
from corral.linux.rule import ALLOW, ENOSYS, EPERM, Errno, Filter, Rule, fail_with
from corral.linux.syscalls import Arch, is_known, number, numbers
from corral.model.rules.syscall_groups import GROUPS

NATIVE = default_filter(sockets=SocketPolicy.NAMESPACED, private_ipc_by_filter=False)
PROGRAMS = {
    (sockets, shared, arch): compile_filter(
        default_filter(sockets=sockets, private_ipc_by_filter=shared), arch
    )
    for sockets in SocketPolicy
    for shared in (False, True)
    for arch in Arch
}

REFUSED_ALWAYS = {
    EPERM: "unshare setns mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick open_tree move_mount"
    " mount_setattr open_by_handle_at name_to_handle_at ptrace process_vm_readv process_vm_writev pidfd_getfd"
    " kcmp process_madvise bpf perf_event_open userfaultfd fanotify_init fanotify_mark add_key keyctl"
    " request_key kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff"
    " acct quotactl quotactl_fd syslog vhangup iopl ioperm settimeofday clock_settime clock_adjtime adjtimex"
    " sethostname setdomainname mbind set_mempolicy migrate_pages move_pages set_mempolicy_home_node"
    " sched_setattr open_tree_attr listns lsm_set_self_attr",
    ENOSYS: "io_uring_setup io_uring_enter io_uring_register clone3 uselib ustat sysfs _sysctl lookup_dcookie"
    " nfsservctl modify_ldt create_module get_kernel_syms query_module getpmsg putpmsg afs_syscall tuxcall"
    " security vserver openat2",
}
LET_PASS: str = (
    "read write open openat close close_range stat fstat newfstatat statx execve execveat clone fork"
    " vfork futex mmap mprotect munmap brk wait4 waitid exit exit_group rt_sigaction rt_sigreturn kill pipe2"
    " dup3 epoll_wait poll ppoll connect bind sendmsg recvmsg setsockopt getrandom rseq set_robust_list prctl"
    " arch_prctl seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self prlimit64 setuid"
    " setresuid capset mknod mknodat rename unlink chmod memfd_create memfd_secret inotify_init1"
    " copy_file_range sched_setaffinity sched_yield getpriority pidfd_open"
    " pidfd_send_signal sendto accept4 listen"
)


def decide(
    name: str,
    *arguments: int,
    sockets: SocketPolicy = SocketPolicy.NAMESPACED,
    shared: bool = False,
    arch: Arch = Arch.X86_64,
) -> int:
    nr = number(arch, name)
    assert nr is not None
    values = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    return interpret(PROGRAMS[sockets, shared, arch], Call(nr, arch.audit, values)).code


def refusal(errno: Errno) -> int:
    return fail_with(errno).code


@pytest.mark.parametrize("arch", Arch)
@pytest.mark.parametrize("sockets", SocketPolicy)
def test_what_the_threat_model_lists_is_refused_with_its_error(arch: Arch, sockets: SocketPolicy) -> None:
    for action, names in REFUSED_ALWAYS.items():
        for name in names.split():
            if name in numbers(arch):
                assert decide(name, 0, 1, 2, sockets=sockets, arch=arch) == action.code, name


def test_that_list_and_the_table_name_the_same_calls() -> None:
    listed = {name for names in REFUSED_ALWAYS.values() for name in names.split()}

    assert listed == {rule.syscall for rule in DEFAULT_RULES if not rule.conditions}


@pytest.mark.parametrize("arch", Arch)
@pytest.mark.parametrize("sockets", SocketPolicy)
@pytest.mark.parametrize("shared", [False, True])
def test_what_programs_need_passes_in_few_steps(arch: Arch, sockets: SocketPolicy, shared: bool) -> None:
    program = PROGRAMS[sockets, shared, arch]
    refused = {"listen"} if sockets is SocketPolicy.PROXIED else set()
    for name in set(LET_PASS.split()) - refused:
        if name in numbers(arch):
            outcome = interpret(program, Call(numbers(arch)[name], arch.audit))

            assert outcome.code == ALLOW.code, name
            assert outcome.steps <= 20, name


@pytest.mark.parametrize("key", PROGRAMS, ids=str)
def test_no_call_at_all_takes_more_than_forty_steps(key: tuple[SocketPolicy, bool, Arch]) -> None:
    arch = key[2]
    for nr in range(500):
        for value in (0, 1, 2, 10, 16, 0xFFFF_FFFF):
            assert interpret(PROGRAMS[key], Call(nr, arch.audit, (value,) * 6)).steps <= 40


@pytest.mark.parametrize("key", PROGRAMS, ids=str)
def test_a_program_is_short(key: tuple[SocketPolicy, bool, Arch]) -> None:
    assert len(PROGRAMS[key]) // 8 <= 245


def test_every_rule_names_a_call_and_a_reason() -> None:
    added = (*SHARED_NAMESPACE_RULES, *SINGLE_PROCESS_RULES, *WATCHED_MEMORY_RULES, *STOPPED_RULES)
    for rule in (*DEFAULT_RULES, *added):
        assert is_known(rule.syscall)
        assert rule.reason


@pytest.mark.parametrize("arch", Arch)
@pytest.mark.parametrize("nr", [472, 512, 514, 521, 547, 1000, 0x3FFF_FFFF])
def test_a_number_of_a_later_kernel_is_answered_as_an_older_one_would(arch: Arch, nr: int) -> None:
    """512 to 547 are x32 calls; before Linux 5.4 they worked without the x32 bit too."""
    for sockets in SocketPolicy:
        assert interpret(PROGRAMS[sockets, False, arch], Call(nr, arch.audit)).code == ENOSYS.code


@pytest.mark.parametrize(
    "flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
)
def test_clone_makes_threads_and_processes_but_no_namespaces(flag: int) -> None:
    threads = 0x3D0F00  # what pthread_create passes

    assert decide("clone", 17) == decide("clone", threads) == decide("clone", 0x4111) == ALLOW.code
    assert decide("clone", 17 | flag) == decide("clone", threads | flag) == EPERM.code
    assert decide("clone", flag | 0xDEAD << 32) == EPERM.code


@pytest.mark.parametrize("arch", Arch)
def test_a_single_process_has_threads_and_nothing_else(arch: Arch) -> None:
    policy = default_filter(sockets=SocketPolicy.NONE, private_ipc_by_filter=True, single_process=True)
    program = compile_filter(policy, arch)

    def decide_single(name: str, flags: int = 0) -> int:
        return interpret(program, Call(numbers(arch)[name], arch.audit, (flags, *(0,) * 5))).code

    threads = 0x3D0F00
    assert decide_single("clone", threads) == decide_single("clone", threads | 0xDEAD << 32) == ALLOW.code
    # fork, posix_spawn, vfork; and nothing beyond the low half counts
    for flags in (17, 0x4111, 0x4100 | 17, 0, 0x1_0000 << 32 | 17):
        assert decide_single("clone", flags) == EPERM.code
    assert decide_single("clone", threads | 0x10000000) == EPERM.code  # and no namespace
    assert decide_single("clone3") == ENOSYS.code
    assert decide_single("execve") == decide_single("execveat") == ALLOW.code
    for name in {"fork", "vfork"} & numbers(arch).keys():
        assert decide_single(name) == EPERM.code


def test_personality_keeps_to_the_harmless_ones() -> None:
    for harmless in (0, 8, 0x20000, 0x20008, 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF):
        assert decide("personality", harmless) == ALLOW.code
    for harmful in (0x0040000, 0x0400000, 0x40008, 1):
        assert decide("personality", harmful) == EPERM.code


def test_a_debugger_gets_what_it_needs_and_nothing_else() -> None:
    policy = default_filter(sockets=SocketPolicy.NONE, private_ipc_by_filter=True, debugging=True)
    program = compile_filter(policy, Arch.X86_64)

    def decide_debugging(name: str, *arguments: int) -> int:
        arch, values = Arch.X86_64, (*arguments, 0, 0, 0, 0, 0, 0)[:6]
        return interpret(program, Call(numbers(arch)[name], arch.audit, values)).code

    for name in ("ptrace", "process_vm_readv", "process_vm_writev"):
        assert decide_debugging(name) == ALLOW.code
    assert decide_debugging("personality", 0x40000) == decide_debugging("personality", 0) == ALLOW.code
    for name in ("pidfd_getfd", "kcmp", "process_madvise", "unshare"):
        assert decide_debugging(name) == EPERM.code
    assert decide_debugging("personality", 0x400000) == EPERM.code


def test_terminals_cannot_be_typed_into_by_any_spelling() -> None:
    for request in (0x5412, 0x541C, 0x5423):
        assert decide("ioctl", 0, request) == decide("ioctl", 0, 1 << 32 | request) == EPERM.code
    for request in (0x5401, 0x5413, 0x5414, 0x540F, 0x541B):  # TCGETS, winsize, TIOCGPGRP, FIONREAD
        assert decide("ioctl", 0, request) == ALLOW.code


@pytest.mark.parametrize("policy", [1, 2, 6])
def test_real_time_scheduling_is_refused_with_and_without_reset_on_fork(policy: int) -> None:
    assert decide("sched_setscheduler", 0, policy) == EPERM.code
    assert decide("sched_setscheduler", 0, policy | 0x4000_0000) == EPERM.code
    for ordinary in (0, 3, 5):
        assert decide("sched_setscheduler", 0, ordinary) == ALLOW.code


@pytest.mark.parametrize("arch", Arch)
def test_no_file_gets_its_owners_rights(arch: Arch) -> None:
    creat, tmpfile, append = 0o100, 0o20200000, 0o2000
    ways = {
        "chmod": (0,),
        "fchmod": (0,),
        "fchmodat": (0, 0),
        "fchmodat2": (0, 0),
        "creat": (0,),
        "mknod": (0,),
        "mknodat": (0, 0),
        "open": (0, creat),
        "openat": (0, 0, tmpfile),
    }
    for name, before in ways.items():
        if number(arch, name) is not None:
            for mode in (0o4755, 0o104000, 0o6777):
                assert decide(name, *before, mode, arch=arch) == EPERM.code
            for mode in (0, 0o755, 0o1777, 0o100644):
                assert decide(name, *before, mode, arch=arch) == ALLOW.code
            is_chmod = "chmod" in name
            assert decide(name, *before, 0o2775, arch=arch) == (ALLOW if is_chmod else EPERM).code
    assert decide("openat", 0, 0, append, 0o4755, arch=arch) == ALLOW.code  # which has no mode


def test_no_lease_holds_up_who_opens_a_file_outside() -> None:
    for command in (1024, 1040):  # F_SETLEASE, F_SETDELEG
        assert decide("fcntl", 0, command) == decide("fcntl", 0, 1 << 32 | command) == EPERM.code
    for command in (0, 1, 2, 3, 4, 5, 6, 10, 1025, 1026, 1030, 1031, 1032):
        assert decide("fcntl", 0, command) == ALLOW.code


@pytest.mark.parametrize("sockets", [SocketPolicy.NAMESPACED, SocketPolicy.HOST])
def test_open_networks_have_ordinary_sockets_only(sockets: SocketPolicy) -> None:
    def socket(family: int, kind: int, protocol: int = 0) -> int:
        return decide("socket", family, kind, protocol, sockets=sockets)

    cloexec = 0o2000000
    for family in (2, 10):
        for kind, protocol in ((1, 0), (1, 6), (2, 0), (2, 17), (2, 1), (2, 58)):
            assert socket(family, kind | cloexec, protocol) == ALLOW.code
        for kind in (3, 4, 5, 6, 10):
            assert socket(family, kind | cloexec) == EPERM.code
        for protocol in (33, 132, 136, 256, 262):
            assert socket(family, 1, protocol) == refusal(Errno.EPROTONOSUPPORT)
    assert socket(1, 1) == socket(1, 2) == socket(1, 5) == ALLOW.code
    assert socket(16, 3 | cloexec, 0) == ALLOW.code  # what getaddrinfo asks for
    for protocol in (9, 12, 15, 21):
        assert socket(16, 3, protocol) == refusal(Errno.EAFNOSUPPORT)
    for family in (0, 3, 17, 21, 29, 31, 38, 40, 43, 44, 45):
        assert socket(family, 1) == refusal(Errno.EAFNOSUPPORT)


def test_no_network_means_no_socket_but_connected_pairs() -> None:
    def call(name: str, family: int, kind: int) -> int:
        return decide(name, family, kind, sockets=SocketPolicy.NONE)

    for kind in (1, 2, 3, 5):
        assert call("socket", 1, kind) == refusal(Errno.EACCES)
        for family in (2, 10, 16, 17, 38, 40):
            assert call("socket", family, kind) == refusal(Errno.EAFNOSUPPORT)
    for kind in (1, 5, 1 | 0o2000000, 1 | 0o4000):
        assert call("socketpair", 1, kind) == ALLOW.code
    for kind in (2, 3, 2 | 0o2000000):
        assert call("socketpair", 1, kind) == refusal(Errno.EACCES)


@pytest.mark.parametrize("sockets", SocketPolicy)
def test_pairs_are_of_unix_sockets(sockets: SocketPolicy) -> None:
    for family in (2, 10, 16, 30):
        assert decide("socketpair", family, 1, sockets=sockets) == refusal(Errno.EAFNOSUPPORT)
    assert decide("socketpair", 1, 1, sockets=sockets) == ALLOW.code


def test_where_a_proxy_is_granted_there_is_no_way_but_tcp() -> None:
    def call(name: str, *arguments: int) -> int:
        return decide(name, *arguments, sockets=SocketPolicy.PROXIED)

    for family in (2, 10):
        assert call("socket", family, 1 | 0o2000000, 0) == call("socket", family, 1, 6) == ALLOW.code
        assert call("socket", family, 2, 0) == call("socket", family, 5, 0) == refusal(Errno.EACCES)
        assert call("socket", family, 1, 262) == refusal(Errno.EPROTONOSUPPORT)
    assert call("socket", 1, 1) == call("socketpair", 1, 2) == refusal(Errno.EACCES)
    assert call("socket", 16, 3) == refusal(Errno.EAFNOSUPPORT)
    fast_open, no_signal = 0x2000_0000, 0x4000
    for name, before in (("sendto", (3, 0, 0)), ("sendmsg", (3, 0)), ("sendmmsg", (3, 0, 0))):
        assert call(name, *before, fast_open | no_signal) == refusal(Errno.EOPNOTSUPP)
        assert call(name, *before, no_signal) == ALLOW.code


def test_where_a_proxy_is_granted_nobody_listens_and_no_packet_takes_another_way() -> None:
    def call(name: str, *arguments: int) -> int:
        return decide(name, *arguments, sockets=SocketPolicy.PROXIED)

    ip_options, bind_to_device, bind_to_index, keep_alive = (0, 4), (1, 25), (1, 62), (1, 9)

    assert call("listen", 3, 1) == refusal(Errno.EACCES)
    for option in (ip_options, bind_to_device, bind_to_index):
        assert call("setsockopt", 3, *option) == EPERM.code
    assert call("setsockopt", 3, *keep_alive) == call("setsockopt", 3, 0, 1) == ALLOW.code
    assert call("connect", 3) == ALLOW.code  # another filter, the launcher's own, asks corral


def test_protocols_stacked_on_tcp_are_refused() -> None:
    assert decide("setsockopt", 3, 6, 31) == refusal(Errno.ENOPROTOOPT)
    assert decide("setsockopt", 3, 6, 1) == decide("setsockopt", 3, 1, 31) == ALLOW.code


def test_shared_namespaces_are_closed_by_the_filter_when_asked() -> None:
    ipc = (
        "shmget shmat shmctl msgget msgsnd msgrcv msgctl semget semop semtimedop semctl mq_open mq_unlink"
    ).split()

    assert set(ipc) == {rule.syscall for rule in SHARED_NAMESPACE_RULES if rule.action == ENOSYS}
    assert {decide(name, shared=True) for name in ipc} == {ENOSYS.code}
    assert {decide(name, shared=False) for name in ipc} == {ALLOW.code}
    assert decide("shmdt", shared=True) == ALLOW.code
    assert decide("prlimit64", 4242, 0, shared=True) == EPERM.code
    assert decide("prlimit64", 0, 7, shared=True) == decide("prlimit64", 0, 7) == ALLOW.code
    assert decide("prlimit64", 4242, 0) == EPERM.code  # the launcher may be among those in sight


def test_where_processes_are_shared_only_the_own_one_is_scheduled() -> None:
    for name in ("sched_setaffinity", "sched_setparam", "sched_setscheduler"):
        assert decide(name, 0, shared=True) == decide(name, 4242) == ALLOW.code
        assert decide(name, 4242, shared=True) == EPERM.code
    for name, process in (("setpriority", 0), ("ioprio_set", 1)):
        assert decide(name, process, 0, shared=True) == decide(name, process, 4242) == ALLOW.code
        assert decide(name, process, 4242, shared=True) == EPERM.code
        assert decide(name, 2, 0, shared=True) == EPERM.code  # groups, users


def test_attributes_of_files_are_not_read_where_only_landlock_guards_them() -> None:
    for name in ("getxattr", "lgetxattr", "listxattr", "llistxattr", "getxattrat", "listxattrat"):
        assert decide(name, shared=True) == refusal(Errno.EOPNOTSUPP)
        assert decide(name) == ALLOW.code
    assert decide("fgetxattr", shared=True) == ALLOW.code


def test_a_policy_can_deny_more_by_name() -> None:
    policy = default_filter(
        sockets=SocketPolicy.NAMESPACED,
        private_ipc_by_filter=False,
        extra_denied=["mlock", "socket", "clone3", "mlock", "iopl"],
    )
    program = compile_filter(policy, Arch.X86_64)

    def code(name: str) -> int:
        return interpret(program, Call(numbers(Arch.X86_64)[name], Arch.X86_64.audit, (1,) * 6)).code

    assert code("mlock") == code("socket") == EPERM.code
    assert code("clone3") == ENOSYS.code  # refused already, with the error that libc understands
    assert policy.rules[-1] == Rule("socket", EPERM, "denied by the policy")


def test_denying_nothing_more_changes_nothing() -> None:
    again = default_filter(
        sockets=SocketPolicy.NAMESPACED, private_ipc_by_filter=False, extra_denied=iter(())
    )

    assert again == NATIVE
    assert isinstance(again, Filter)


@pytest.mark.parametrize("name", ["reed", "", "READ", "execve", "exit_group", "two words"])
def test_a_denial_that_cannot_be_meant_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}'"):
        default_filter(sockets=SocketPolicy.NONE, private_ipc_by_filter=True, extra_denied=[name])


_TRUNCATING, _ASYNCHRONOUS = 0x241, 0x2800


@pytest.mark.parametrize(
    ("group", "refused", "passed"),
    [
        ("@chmod", [("setxattr", 0), ("fsetxattr", 0), ("lremovexattr", 0)], [("umask", 0)]),
        (
            "@signal",
            [
                *(("fcntl", 3, command) for command in (8, 10, 15)),
                ("fcntl", 3, 4, _ASYNCHRONOUS),
                *(("ioctl", 3, request) for request in (0x5452, 0x8901, 0x8902, 0x40045436)),
                ("prctl", 1, 9),
                ("clone", 0x1200000 | 9),
            ],
            [
                *(("fcntl", 3, 4, 0x800), ("fcntl", 3, 1), ("ioctl", 3, 0x5401), ("prctl", 1, 0)),
                *(("prctl", 15, 9), ("clone", 0x1200011), ("clone", 0x3D0F00), ("timer_create", 0)),
            ],
        ),
        (
            "@truncate",
            [("open", 0, _TRUNCATING), ("openat", 0, 0, _TRUNCATING), ("creat", 0), ("fallocate", 3, 8)],
            [("open", 0, 0x41), ("openat", 0, 0, 0x441), ("fallocate", 3, 1), ("write", 1)],
        ),
        (
            "@remove",
            [("rename", 0), ("renameat", 0), ("renameat2", 0, 0, 0, 0, 0), ("renameat2", 0, 0, 0, 0, 4)],
            [("renameat2", 0, 0, 0, 0, 1), ("renameat2", 0, 0, 0, 0, 2), ("link", 0)],
        ),
    ],
)
def test_a_group_has_the_other_ways_to_do_the_same(
    group: str, refused: list[tuple[str, int]], passed: list[tuple[str, int]]
) -> None:
    policy = default_filter(
        sockets=SocketPolicy.NAMESPACED, private_ipc_by_filter=False, extra_denied=GROUPS[group]
    )
    program = compile_filter(policy, Arch.X86_64)

    def code(name: str, *arguments: int) -> int:
        return interpret(
            program, Call(numbers(Arch.X86_64)[name], Arch.X86_64.audit, (*arguments, *[0] * 6)[:6])
        ).code

    assert {call: code(*call) for call in refused} == dict.fromkeys(refused, EPERM.code)
    assert {call: code(*call) for call in passed} == dict.fromkeys(passed, ALLOW.code)
    assert all(decide(*call) == ALLOW.code for call in refused)  # without the group


def test_groups_are_complete_however_they_are_put_together() -> None:
    """On every architecture, with the calls that others have denied altogether."""
    every = {call for calls in GROUPS.values() for call in calls} | {"fcntl", "open", "clone", "openat2"}
    for arch in Arch:
        for stopped in (False, True):
            policy = default_filter(
                sockets=SocketPolicy.NONE, private_ipc_by_filter=True, stopped=stopped, extra_denied=every
            )
            assert compile_filter(policy, arch)
