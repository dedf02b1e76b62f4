"""Run one git command as the user types it, and see which programs it runs and which files it writes.

Two judges look, and neither knows of the other: strace sees every call, also of programs without effect; and
the files outside are compared before and after, which sees what the reading of strace's words might miss.

A finding is
- a program that is not the system's own, or whose arguments name one of a trap's programs, whether it was
  there or not;
- a file written, made, renamed or removed that lies neither in the workspace nor in the remote repository;
- a hook or the configuration of the workspace's own repository, written in its place. Git itself never does
  that: it writes `config.lock` and renames it;
- that a command waits in vain, for a pipe that a trap put under one of git's names.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from support.git_calls import Run, Write, links_below, read_calls
from support.git_commands import words_of
from support.git_stage import EVIL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from support.git_stage import Stage

RUNS, WRITES, CHANGED, WAITS = "runs", "writes", "changed", "waits"
#: Where programs of the system lie. Nothing else may be run, whatever a command names.
SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/")
#: What git and the tools that it uses write besides: not files of anybody.
DEVICES = ("/dev/null", "/dev/tty", "/dev/pts/", "/proc/self/", "pipe:", "socket:")
#: As many looks in a row at which nothing of a command can run: it waits for a trap (a pipe with no one at
#: the other end). However busy the machine is, what only has to wait for a processor is not asleep.
LOOKS_ASLEEP = 20
LOOK_SECONDS = 0.1

_CALLS = (
    "execve,execveat,chdir,fchdir,fork,vfork,clone,clone3,open,openat,openat2,creat,rename,renameat,renameat2,"
    "link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,mkdir,mkdirat,mknod,mknodat,truncate,"
    "chmod,fchmodat,chown,lchown,fchownat,utime,utimes,futimesat,utimensat"
)


@dataclass(frozen=True)
class Finding:
    """What one command did that it must not do; `trap` is the one whose mark it bears, where it bears one."""

    command: str
    kind: str
    what: str
    trap: str

    def __str__(self) -> str:
        return f"git {self.command} {self.kind} {self.what}"


@dataclass(frozen=True)
class Watched:
    """How a command went: its status (None if it waited in vain), what it printed, and what was found."""

    status: int | None
    output: str
    findings: tuple[Finding, ...]


def watch(stage: Stage, command: str) -> Watched:
    """Run `git COMMAND` at the top of the workspace."""
    for log in stage.logs.iterdir():
        log.unlink()
    tops = (str(stage.ws), str(stage.repository))
    links = links_below(tops[0])
    if not tops[1].startswith(f"{tops[0]}/"):
        links |= links_below(tops[1])
    status, output = _run(stage, ["git", *words_of(command)])
    if not any(stage.logs.iterdir()):
        raise RuntimeError(f"nothing was watched: {output}")
    found = [] if status is not None else [Finding(command, WAITS, "in vain", "")]
    for call in read_calls(stage.logs, tops, links):
        found += [Finding(command, *judged) for judged in _judge(stage, call)]
    return Watched(status, output, tuple(dict.fromkeys(found)))


def sit(stage: Stage, commands: Iterable[str]) -> list[Finding]:
    """Run commands one after the other. What changed outside and was not seen to be written is found too."""
    before = _outside(stage)
    found = [finding for command in commands for finding in watch(stage, command).findings]
    after = _outside(stage)
    seen = {finding.what for finding in found if finding.kind == WRITES}
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    stage.is_spoilt = bool(changed)
    return found + [
        Finding("of this sitting", CHANGED, name, _trap_of(stage, name))
        for name in changed
        if name not in seen
    ]


def sit_anew(stage: Stage, commands: Iterable[str]) -> list[Finding]:
    """The same from the state that was kept, after the user has changed a file."""
    stage.go_back()
    stage.edit()
    return sit(stage, commands)


def _run(stage: Stage, argv: list[str]) -> tuple[int | None, str]:
    tracer = ["strace", "--seccomp-bpf", "-ff", "-ttt", "-qq", "-y", "-s", "4096", "-e", "signal=none"]
    traced = [*stage.become(), *tracer, "-o", str(stage.logs / "of"), "-e", f"trace={_CALLS}", *argv]
    process = subprocess.Popen(
        traced,
        cwd=stage.ws,
        env=stage.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    seen, asleep = "", 0
    while asleep < LOOKS_ASLEEP:
        try:
            output, _ = process.communicate(timeout=LOOK_SECONDS)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            before, seen = seen, _sleepers(stage)
            asleep = asleep + 1 if seen and seen == before else 0
    for pid in _traced(stage):  # with the last of them strace ends
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return None, process.communicate()[0]


def _traced(stage: Stage) -> list[int]:
    """strace writes one log for each process."""
    return [int(log.suffix[1:]) for log in stage.logs.iterdir()]


def _sleepers(stage: Stage) -> str:
    """How often each process has gone to sleep, if all that are left sleep now; otherwise nothing."""
    told = []
    for pid in _traced(stage):
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        if fields["State"][0] not in "SZ":
            return ""
        told.append(f"{pid} {fields.get('voluntary_ctxt_switches')}")
    return ", ".join(told)


def _judge(stage: Stage, call: Run | Write) -> Iterator[tuple[str, str, str]]:
    if isinstance(call, Run):
        words = " ".join((call.program, *call.argv))
        if not _is_fine_to_run(stage, call):
            yield RUNS, words, _trap_of(stage, words)
    elif call.was_done and not _is_fine_to_write(stage, call):
        yield WRITES, call.path, _trap_of(stage, call.path)


def _is_fine_to_run(stage: Stage, call: Run) -> bool:
    if call.program == f"{stage.repository}/hooks/pre-commit":  # the user's own, and nobody may write it
        return True
    if EVIL in call.program or not call.program.startswith(SYSTEM):
        return not call.was_done and EVIL not in call.program
    # Git may well have a trap's word among its own arguments; a shell, or `env`, would run it.
    return os.path.basename(call.program).startswith("git") or not any(EVIL in word for word in call.argv)


def _is_fine_to_write(stage: Stage, call: Write) -> bool:
    path, repository = call.path, str(stage.repository)
    if path.startswith(f"{repository}/hooks/") or path == f"{repository}/hooks":
        return False
    if path in {f"{repository}/config", f"{repository}/config.worktree"}:
        return call.is_rename
    own = (stage.ws, stage.repository, stage.root / "remote.git", stage.root / "tmp")  # that is TMPDIR
    return path == str(stage.ws) or path.startswith((*(f"{place}/" for place in own), *DEVICES))


def _trap_of(stage: Stage, text: str) -> str:
    """The trap whose name stands behind the directory of all victims, or behind the prefix of its program."""
    for mark in (f"{stage.out}/", EVIL):
        _, found, rest = text.partition(mark)
        if found:
            return rest.split("/")[0].split()[0].strip("'\";|&") if rest.split() else ""
    return ""


def _outside(stage: Stage) -> dict[str, tuple[int, bytes]]:
    """Every file outside: its kind and mode, and what is in it."""
    found: dict[str, tuple[int, bytes]] = {}
    for top in (stage.out, stage.home, stage.repository / "hooks"):
        for directory, folders, files in os.walk(top):
            for name in (*folders, *files):
                path = os.path.join(directory, name)
                found[path] = _fingerprint(path)
    return found


def _fingerprint(path: str) -> tuple[int, bytes]:
    mode = os.lstat(path).st_mode
    if os.path.islink(path):
        return mode, os.fsencode(os.readlink(path))
    return mode, Path(path).read_bytes() if os.path.isfile(path) else b""
