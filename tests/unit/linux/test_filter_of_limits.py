"""What the filter adds where the launcher itself keeps memory or processors, by the reference interpreter."""

from __future__ import annotations

import pytest
from bpf_reference import Call, interpret

from corral.linux.bpf import compile_filter
from corral.linux.filter import (
    STOPPED_RULES,
    WATCHED_MEMORY_RULES,
    SocketPolicy,
    default_filter,
)
from corral.linux.rule import ALLOW, ENOSYS, EPERM
from corral.linux.syscalls import Arch, numbers

SIGCONT, SIGSTOP, SIGTERM, SIGCHLD = 18, 19, 15, 17
THREADS = 0x3D0F00  # what pthread_create passes
PROGRAMS = {
    (watched, stopped, shared, single, arch): compile_filter(
        default_filter(
            sockets=SocketPolicy.NAMESPACED,
            private_ipc_by_filter=shared,
            single_process=single,
            watched_memory=watched,
            pinned=stopped,  # who is stopped is pinned as well
            stopped=stopped,
        ),
        arch,
    )
    for watched in (False, True)
    for stopped in (False, True)
    for shared in (False, True)
    for single in (False, True)
    for arch in Arch
}
HIGH = 0xDEAD << 32
#: How each call is told which signal to send.
SENDERS = {
    "kill": (1,),
    "tkill": (1,),
    "tgkill": (1, 1),
    "rt_sigqueueinfo": (1,),
    "rt_tgsigqueueinfo": (1, 1),
    "pidfd_send_signal": (3,),
}


def decide(
    name: str,
    *arguments: int,
    watched: bool = False,
    stopped: bool = False,
    shared: bool = False,
    single: bool = False,
    arch: Arch = Arch.X86_64,
) -> int:
    values = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    program = PROGRAMS[watched, stopped, shared, single, arch]
    return interpret(program, Call(numbers(arch)[name], arch.audit, values)).code


# ---- watched memory


@pytest.mark.parametrize("arch", Arch)
@pytest.mark.parametrize(
    "name", ["memfd_create", "memfd_secret", "shmget", "semget", "msgget", "mq_open", "vmsplice"]
)
def test_memory_that_nobody_need_map_cannot_be_had(arch: Arch, name: str) -> None:
    assert decide(name, watched=True, arch=arch) == ENOSYS.code
    assert decide(name, arch=arch) == decide(name, stopped=True, arch=arch) == ALLOW.code


@pytest.mark.parametrize("name", ["mmap", "brk", "mremap", "shmat", "pipe2", "socketpair", "openat"])
def test_what_can_be_seen_can_be_had(name: str) -> None:
    assert decide(name, 1, 1, watched=True) == ALLOW.code


# ---- stopped trees


@pytest.mark.parametrize("arch", Arch)
@pytest.mark.parametrize(("name", "before"), SENDERS.items())
def test_nobody_is_woken_by_a_signal(arch: Arch, name: str, before: tuple[int, ...]) -> None:
    for woken in (SIGCONT, SIGCONT | HIGH):
        assert decide(name, *before, woken, stopped=True, arch=arch) == EPERM.code
    for other in (0, SIGTERM, SIGSTOP, 9, 64):
        assert decide(name, *before, other, stopped=True, arch=arch) == ALLOW.code
    assert decide(name, *before, SIGCONT, arch=arch) == ALLOW.code
    # Whatever number a process has, it may be signalled.
    assert decide(name, *(SIGCONT for _ in before), SIGTERM, stopped=True, arch=arch) == ALLOW.code


@pytest.mark.parametrize("arch", Arch)
def test_nobody_is_woken_by_the_end_of_a_child(arch: Arch) -> None:
    for flags in (SIGCONT, 0x4100 | SIGCONT, SIGCONT | HIGH):
        assert decide("clone", flags, stopped=True, arch=arch) == EPERM.code
        assert decide("clone", flags, arch=arch) == ALLOW.code
    for flags in (SIGCHLD, 0x4100 | SIGCHLD, THREADS, 0, SIGTERM):
        assert decide("clone", flags, stopped=True, arch=arch) == ALLOW.code
    assert decide("clone3", stopped=True, arch=arch) == ENOSYS.code


@pytest.mark.parametrize("arch", Arch)
def test_nobody_is_woken_by_the_end_of_a_parent(arch: Arch) -> None:
    death_signal, name = 1, 15  # PR_SET_PDEATHSIG, PR_SET_NAME
    for woken in (SIGCONT, SIGCONT | HIGH):
        assert decide("prctl", death_signal, woken, stopped=True, arch=arch) == EPERM.code
    for other in ((death_signal, SIGTERM), (death_signal, 0), (name, SIGCONT)):
        assert decide("prctl", *other, stopped=True, arch=arch) == ALLOW.code
    assert decide("prctl", death_signal, SIGCONT, arch=arch) == ALLOW.code


@pytest.mark.parametrize("arch", Arch)
def test_nobody_is_woken_by_input_a_timer_or_a_message(arch: Arch) -> None:
    set_signal = 10
    assert decide("fcntl", 0, set_signal, stopped=True, arch=arch) == EPERM.code
    assert decide("fcntl", 0, set_signal | HIGH, stopped=True, arch=arch) == EPERM.code
    for command in (0, 1, 2, 3, 4, 8, 11, 1030):  # DUPFD, flags, F_SETOWN, F_GETSIG, DUPFD_CLOEXEC
        assert decide("fcntl", 0, command, stopped=True, arch=arch) == ALLOW.code
    for name in ("timer_create", "mq_notify"):
        assert decide(name, stopped=True, arch=arch) == ENOSYS.code
        assert decide(name, arch=arch) == ALLOW.code
    for name in ("setitimer", "timerfd_create", "nanosleep"):  # their signals are others, or none
        assert decide(name, stopped=True, arch=arch) == ALLOW.code


@pytest.mark.parametrize("arch", Arch)
@pytest.mark.parametrize("pid", [0, 1, 4242])
def test_nobody_spreads_over_more_processors(arch: Arch, pid: int) -> None:
    assert decide("sched_setaffinity", pid, stopped=True, arch=arch) == EPERM.code
    assert decide("sched_getaffinity", pid, stopped=True, arch=arch) == ALLOW.code
    assert decide("sched_setaffinity", pid, watched=True, arch=arch) == ALLOW.code


# ---- together with the others


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("arch", Arch)
def test_every_rule_holds_whatever_else_is_asked_for(arch: Arch, shared: bool, single: bool) -> None:
    asked = {"watched": True, "stopped": True, "shared": shared, "single": single, "arch": arch}

    for name in ("memfd_create", "memfd_secret", "shmget", "timer_create", "mq_notify"):
        assert decide(name, **asked) == ENOSYS.code  # type: ignore[arg-type]
    assert decide("kill", 1, SIGCONT, **asked) == EPERM.code  # type: ignore[arg-type]
    assert decide("sched_setaffinity", 0, **asked) == EPERM.code  # type: ignore[arg-type]
    assert decide("clone", SIGCONT, **asked) == EPERM.code  # type: ignore[arg-type]
    assert decide("clone", THREADS, **asked) == ALLOW.code  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "key",
    [  # with everything and with nothing; what is between them is left to `make test-all`
        pytest.param(key, id=str(key), marks=[] if len({*key[:4]}) == 1 else pytest.mark.thorough)
        for key in PROGRAMS
    ],
)
def test_the_program_stays_short_and_quick(key: tuple[bool, bool, bool, bool, Arch]) -> None:
    program, arch = PROGRAMS[key], key[4]

    assert len(program) // 8 <= 290
    for nr in range(500):
        for value in (0, 1, 10, 18, 0xFFFF_FFFF):
            assert interpret(program, Call(nr, arch.audit, (value,) * 6)).steps <= 40


def test_a_denial_of_the_policy_replaces_a_narrower_one() -> None:
    policy = default_filter(
        sockets=SocketPolicy.NAMESPACED,
        private_ipc_by_filter=False,
        watched_memory=True,
        pinned=True,
        stopped=True,
        extra_denied=["kill", "shmget"],
    )
    program = compile_filter(policy, Arch.X86_64)

    def code(name: str, *arguments: int) -> int:
        values = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
        return interpret(program, Call(numbers(Arch.X86_64)[name], Arch.X86_64.audit, values)).code

    assert code("kill", 1, SIGTERM) == code("kill", 1, SIGCONT) == EPERM.code
    assert code("shmget") == ENOSYS.code  # refused already, with the error that libraries understand
    assert [rule.syscall for rule in policy.rules].count("shmget") == 1


def test_no_call_is_named_twice_without_a_condition() -> None:
    names = [rule.syscall for rule in (*WATCHED_MEMORY_RULES, *STOPPED_RULES) if not rule.conditions]

    assert len(names) == len(set(names))


@pytest.mark.parametrize("arch", Arch)
def test_a_tree_that_is_only_pinned_may_be_woken(arch: Arch) -> None:
    program = compile_filter(
        default_filter(sockets=SocketPolicy.NAMESPACED, private_ipc_by_filter=False, pinned=True), arch
    )

    affinity = Call(numbers(arch)["sched_setaffinity"], arch.audit, (0, 0, 0, 0, 0, 0))
    wake = Call(numbers(arch)["kill"], arch.audit, (1, SIGCONT, 0, 0, 0, 0))
    assert interpret(program, affinity).code == EPERM.code
    assert interpret(program, wake).code == ALLOW.code
