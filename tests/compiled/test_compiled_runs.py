"""A plan is run by corral-launch alone, and what its policy says holds, judged on the host."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from support.doors import make_null_device
from support.two_streams import run_on_two_masters, run_with_a_closed_stdout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.plan_stage import Stage

LANDLOCK = ("--backend", "landlock", "--waive", "fs.metadata,fs.private,proc.contained,proc.hidden")
#: Written to by a command that may not; printed before, so that it is known to have been alive.
ATTACK = "echo alive; echo x > planted; cat {home}/key; echo $SECRET; exit 7"


def _processes(mark: str) -> list[int]:
    """Everyone on the host with a word among its arguments, ourselves left out."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _wait_until(condition, seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_a_plan_holds_what_its_policy_says(stage: Stage) -> None:
    script = ATTACK.format(home=stage.home)
    control = subprocess.run(
        ["sh", "-c", script], cwd=stage.project, env=stage.environment(), capture_output=True, check=False
    )
    assert (stage.project / "planted").exists() and b"SECRET KEY" in control.stdout
    (stage.project / "planted").unlink()
    stage.compile("-p", "strict")

    done = stage.run("sh", "-c", script)

    assert done.returncode == 7
    assert done.stdout == b"alive\n\n"
    assert not (stage.project / "planted").exists()


def test_it_works_as_a_program_among_others(stage: Stage) -> None:
    stage.compile("-p", "strict")

    assert stage.run("cat", input=b"through a pipe").stdout == b"through a pipe"
    assert stage.run("cat", "data").stdout == b"data\n"
    assert stage.run("sh", "-c", "echo out; echo err >&2").stderr == b"err\n"
    assert stage.run("no-such-program").returncode == 127
    assert stage.run("/etc/passwd").returncode == 126
    assert stage.run("sh", "-c", "kill -TERM $$").returncode == 128 + signal.SIGTERM


def test_a_reader_that_goes_away_ends_the_command(stage: Stage) -> None:
    stage.compile("-p", "strict", "--output-limit", "1GB")
    line = " ".join(stage.line("yes"))

    done = subprocess.run(
        ["sh", "-c", f"{line} | head -c 4"], cwd=stage.project, capture_output=True, timeout=60, check=False
    )

    assert done.stdout == b"y\ny\n"


def test_only_the_variables_of_the_policy_are_passed_on(stage: Stage) -> None:
    stage.compile("-p", "strict", "--env", "FIXED=1")
    # Twice the same name: the first counts, and no second one gets in behind it.
    script = 'exec "$0" --plan "$1" -- env'
    more = {"LANG": "C", "LC_ALL": "C", "FIXED": "2", "PWD": "/nowhere", "TOKEN": "x"}

    given = {**stage.environment(), **more}
    done = stage.run("env", env=given)
    bare = subprocess.run(
        [*stage.become(), "env", "-i", "sh", "-c", script, stage.launcher, str(stage.plan)],
        cwd=stage.project,
        capture_output=True,
        check=True,
    )

    assert dict(line.split("=", 1) for line in done.stdout.decode().splitlines()) == {
        "PATH": given["PATH"],
        "HOME": str(stage.home),
        "PWD": str(stage.project),
        "TMPDIR": "/tmp",
        "CORRAL_SANDBOX": "1",
        "npm_config_fetch_retries": "0",
        "PIP_RETRIES": "0",
        "CARGO_NET_RETRY": "0",
        "FIXED": "1",
        "LANG": "C",
        "LC_ALL": "C",
        "LC_TIME": "C",
    }
    assert b"PATH=/usr/local/sbin:" in bare.stdout


@pytest.mark.parametrize("options", [(), ("--env", "TOKEN", "--env", "PWD=/elsewhere", "--env", "LC_*")])
def test_the_environment_is_that_of_a_run(stage: Stage, options: tuple[str, ...]) -> None:
    stage.compile("-p", "strict", *options)

    by_runner = stage.corral("run", "-p", "strict", *options, "--", "/usr/bin/env")
    by_plan = stage.run("/usr/bin/env")

    assert by_runner.returncode == 0, by_runner.stderr
    assert by_plan.returncode == 0, by_plan.stderr
    assert sorted(by_plan.stdout.decode().splitlines()) == sorted(by_runner.stdout.splitlines())


def test_no_process_of_the_run_holds_the_callers_secrets(stage: Stage) -> None:
    """Not PID 1 inside, which the command may look at, and not the supervisor."""
    stage.compile("-p", "strict")
    mark = f"61.{os.getpid()}{stage.user}"
    held = subprocess.Popen(
        stage.line("sh", "-c", "cat /proc/1/environ; echo; echo ready; exec sleep $0", mark),
        cwd=stage.project,
        env=stage.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert held.stdout is not None
        seen = b""
        while b"ready" not in seen:
            piece = os.read(held.stdout.fileno(), 4096)
            assert piece, seen
            seen += piece
        environments = [
            Path(f"/proc/{pid}/environ").read_bytes()
            for pid in (held.pid, *_processes(mark))
            if os.geteuid() == 0
        ]
    finally:
        held.terminate()
        held.wait(20)
        held.stdout.close()

    assert b"hunter2" not in seen + b"".join(environments)
    assert b"hunter2" in b"".join(f"{k}={v}".encode() for k, v in stage.environment().items())


def test_no_descriptor_is_inherited(stage: Stage) -> None:
    stage.compile("-p", "strict")
    secret = os.open(stage.home / "key", os.O_RDONLY)
    try:
        done = stage.run("sh", "-c", f"echo alive; cat <&{secret}", pass_fds=(secret,))
    finally:
        os.close(secret)

    assert done.stdout == b"alive\n"
    assert b"SECRET KEY" not in done.stdout + done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_way_out(stage: Stage, closed: str) -> None:
    stage.compile("-p", "strict")
    line = " ".join(stage.line("sh", "-c", "'ls /proc/self/fd/0/.. >/dev/null 2>&1 && exit 9; exit 5'"))

    done = subprocess.run(["sh", "-c", f"{line} {closed}"], cwd=stage.project, timeout=60, check=False)

    assert done.returncode == 5


def test_a_directory_as_stdin_is_refused(stage: Stage) -> None:
    stage.compile("-p", "strict")
    outside = os.open(stage.home, os.O_RDONLY)
    try:
        done = stage.run("sh", "-c", "echo ran", stdin=outside)
    finally:
        os.close(outside)

    assert (done.returncode, done.stdout) == (125, b"")


@pytest.mark.parametrize("options", [(), LANDLOCK], ids=["native", "landlock"])
def test_a_file_that_the_caller_gives_is_not_opened_for_more(stage: Stage, options: tuple[str, ...]) -> None:
    """By /proc/self/fd; what is read and printed goes on as ever."""
    stage.compile("-p", "strict", *options)
    given = stage.project / "given"
    given.write_text("input\n")
    attack = "cat; echo printed; for n in 0 1; do echo evil > /proc/self/fd/$n; done; true"
    taken = stage.project / "taken"
    taken.write_text("before\n")
    for path in (given, taken):
        path.chmod(0o666)

    with given.open("rb") as stdin, taken.open("ab") as stdout:
        done = stage.run("sh", "-c", attack, stdin=stdin, stdout=stdout, stderr=None, capture_output=False)
        assert stdin.seek(0, os.SEEK_CUR) == len("input\n")

    assert done.returncode == 0
    assert given.read_text() == "input\n"
    assert taken.read_text().startswith("before\ninput\nprinted\n")


def test_a_file_that_is_denied_is_not_opened_for_more(stage: Stage) -> None:
    """What lies above a deeper denial is held by a mount of its own, which is hidden by the other denial."""
    held = stage.project / "keys/held"
    held.mkdir(parents=True)
    for name in ("denied", "given"):
        (held / name).write_text("kept\n")
    stage.own(held.parent)
    stage.compile("--waive", "fs.protect", "--deny", "keys", "--deny", "keys/held/denied")

    with (held / "given").open("rb") as stdin:
        done = stage.run("sh", "-c", "cat; echo evil >> /proc/self/fd/0; true", stdin=stdin)

    assert done.stdout == b"kept\n", done.stderr
    assert (held / "given").read_text() == "kept\n"


@pytest.mark.parametrize("stage", ["root"], indirect=True)
def test_a_device_that_is_stdin_keeps_its_mode(stage: Stage) -> None:
    stage.compile("-p", "strict")
    null = make_null_device(stage.place / "null")

    with null.open("rb") as stdin:
        done = stage.run("chmod", "640", "/proc/self/fd/0", stdin=stdin)

    assert done.returncode == 1, done.stderr
    assert null.stat().st_mode & 0o777 == 0o666


def test_what_several_commands_print_into_one_file_is_all_there(stage: Stage) -> None:
    """As after `exec 0<>log 1>&0`: input and output are one file, with one offset."""
    stage.compile("-p", "strict")
    (stage.place / "log").touch(mode=0o666)
    with stage.own(stage.place / "log").open("r+b", buffering=0) as log:
        for number in range(3):
            done = stage.run("echo", str(number), stdin=log, stdout=log, stderr=None, capture_output=False)
            assert done.returncode == 0

    assert (stage.place / "log").read_text() == "0\n1\n2\n"


@pytest.mark.parametrize("case", ["write-only", "nameless"])
def test_input_that_the_command_cannot_have_is_told_as_it_is(stage: Stage, case: str) -> None:
    stage.compile("-p", "strict")
    given = stage.place / "given"
    given.write_text("SECRET")
    os.link(stage.own(given), stage.place / "other")
    with given.open("ab" if case == "write-only" else "rb") as stdin:
        given.unlink()
        done = stage.run("cat", stdin=stdin)

    assert (done.returncode, done.stdout) == (125, b"")
    said = {"write-only": b"open for writing alone", "nameless": b"could not be opened for reading alone"}[
        case
    ]
    assert said in done.stderr
    assert b"limit on open files" not in done.stderr


def test_a_full_disk_is_told(stage: Stage) -> None:
    stage.compile("-p", "strict", "--output-limit", "1GB")
    with open("/dev/full", "wb") as full:
        done = stage.run("echo", "important", stdout=full, stderr=subprocess.PIPE, capture_output=False)

    assert done.returncode == 125
    assert b"the command ran: what it printed could not be written" in done.stderr
    assert b"No space left on device" in done.stderr


def test_the_working_directory_is_the_callers_own(stage: Stage) -> None:
    (stage.project / "deep").mkdir()
    stage.own(stage.project)
    stage.compile("-p", "strict")

    assert stage.run("pwd", cwd=stage.project / "deep").stdout == f"{stage.project}/deep\n".encode()
    for elsewhere in ("/tmp", str(stage.home), str(stage.place)):  # private inside, or not there
        done = stage.run("sh", "-c", "echo ran", cwd=elsewhere)

        assert (done.returncode, done.stdout) == (125, b"")
        assert b"the working directory must be in the workspace or in a granted path" in done.stderr


def test_the_time_limit_holds(stage: Stage) -> None:
    stage.compile("-p", "strict", "--timeout", "500ms")
    mark = f"62.{os.getpid()}{stage.user}"

    done = stage.run("sh", "-c", "trap '' TERM; setsid sleep $0 & echo started; sleep $0; sleep $0", mark)

    assert done.returncode == 124
    assert done.stdout == b"started\n"
    assert done.stderr == b"corral: the command was stopped: it timed out (timed-out)\n"
    assert _processes(mark) == []


def test_the_output_limit_holds_for_both_streams_together(stage: Stage) -> None:
    stage.compile("-p", "strict", "--output-limit", "10000")
    mark = f"63.{os.getpid()}{stage.user}"

    flood = stage.run("sh", "-c", "yes >&2 & yes & sleep $0", mark)
    exact = stage.run("sh", "-c", "head -c 4000 /dev/zero; head -c 6000 /dev/zero >&2")
    over = stage.run("sh", "-c", "head -c 4000 /dev/zero; head -c 6001 /dev/zero >&2; sleep $0", mark)

    said = b"corral: the command was stopped: it hit the output limit (output-limit)\n"
    assert flood.returncode == over.returncode == 128 + signal.SIGKILL
    assert flood.stderr.endswith(said)
    assert len(flood.stdout) + len(flood.stderr.removesuffix(said)) == 10000
    assert (exact.returncode, len(exact.stdout), len(exact.stderr)) == (0, 4000, 6000)
    assert len(over.stdout) + len(over.stderr.removesuffix(said)) == 10000
    assert _processes(mark) == []


def test_streams_that_are_one_file_stay_in_order_and_have_one_limit(stage: Stage) -> None:
    alternating = "i=0; while [ $i -lt 200 ]; do printf %s. $i; printf %s, $i >&2; i=$((i+1)); done"
    in_order = "".join(f"{i}.{i}," for i in range(200)).encode()
    printed = []
    for limit in ("1GB", "1000"):
        stage.compile("-p", "strict", "--output-limit", limit)
        line = stage.line("sh", "-c", alternating)
        done = subprocess.run(
            line, cwd=stage.project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        printed.append(done.stdout)

    whole, cut = printed
    assert whole == in_order
    assert cut.startswith(in_order[:1000])
    assert cut[1000:] == b"corral: the command was stopped: it hit the output limit (output-limit)\n"


def test_streams_that_only_look_like_one_file_stay_two(stage: Stage) -> None:
    stage.compile("-p", "strict", "--output-limit", "1MB")
    line = stage.line("sh", "-c", "echo out; echo err >&2")

    assert run_on_two_masters(line, stage.project) == (b"out\n", b"err\n")
    assert b"err\n" in run_with_a_closed_stdout(line, stage.project, stage.place / "one")


def test_a_terminal_is_no_way_around_the_output_limit(stage: Stage) -> None:
    """It is open for reading and writing; the command may only read from it."""
    stage.compile("-p", "strict")
    ours, theirs = os.openpty()
    os.chown(os.ttyname(theirs), stage.user, -1)
    script = "read line; echo got $line; echo around >&0 || echo refused"
    control = subprocess.run(["sh", "-c", "echo around >&0"], stdin=theirs, check=False)
    assert control.returncode == 0
    os.write(ours, b"word\n")

    done = stage.run("sh", "-c", script, stdin=theirs)

    os.close(ours)
    os.close(theirs)
    assert done.stdout == b"got word\nrefused\n"


def test_output_reaches_a_terminal(stage: Stage) -> None:
    stage.compile("-p", "strict")
    ours, theirs = os.openpty()
    os.chown(os.ttyname(theirs), stage.user, -1)

    running = subprocess.Popen(
        stage.line("seq", "20000"), cwd=stage.project, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    while b"20000\r\n" not in seen:
        seen += os.read(ours, 65536)

    assert running.wait(20) == 0
    os.close(ours)
    assert seen.split() == [str(number).encode() for number in range(1, 20001)]


def test_a_reader_that_does_not_read_loses_nothing(stage: Stage) -> None:
    """More than all buffers hold; the reader comes late, and the command has ended or waits by then."""
    stage.compile("-p", "strict", "--output-limit", "10MB")
    size = 900_000
    late = f"(read line < {stage.place}/gate; wc -c)"
    os.mkfifo(stage.place / "gate")
    line = " ".join(stage.line("head", "-c", str(size), "/dev/zero"))
    piped = subprocess.Popen(
        ["sh", "-c", f"{line} | {late}"], cwd=stage.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    (stage.place / "gate").write_text("go\n")

    assert piped.communicate(timeout=60)[0].strip() == str(size).encode()


def test_files_and_their_number_are_limited(stage: Stage) -> None:
    stage.compile("-p", "strict")

    big = stage.run("sh", "-c", "head -c 101000000 /dev/zero > /tmp/big; stat -c %s /tmp/big")
    count = stage.run("sh", "-c", "ulimit -n")

    assert int(big.stdout) <= 100_000_000
    assert count.stdout == b"1024\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_passed_on(stage: Stage, number: signal.Signals) -> None:
    stage.compile("-p", "strict")
    script = f"trap 'echo heard; exit 3' {number.name[3:]}; echo ready; while :; do sleep 0.05; done"
    running = _started(stage, script)

    running.send_signal(number)

    assert running.communicate(timeout=20)[0] == b"heard\n"
    assert running.returncode == 3


def test_a_signal_that_the_caller_ignores_is_not_passed_on(stage: Stage) -> None:
    stage.compile("-p", "strict")
    script = "trap 'echo heard' HUP; trap 'exit 4' TERM; echo ready; while :; do sleep 0.05; done"
    running = _started(stage, script, before=("nohup",))

    running.send_signal(signal.SIGHUP)
    running.send_signal(signal.SIGTERM)

    assert running.communicate(timeout=20)[0] == b""
    assert running.returncode == 4


def test_stopping_stops_the_command_as_well(stage: Stage) -> None:
    stage.compile("-p", "strict")
    running = _started(stage, "echo ready; read line; echo $line", stdin=subprocess.PIPE)

    running.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(running.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    running.send_signal(signal.SIGCONT)

    assert running.communicate(b"on\n", timeout=20)[0] == b"on\n"


def test_the_time_goes_on_while_the_launcher_is_stopped(stage: Stage) -> None:
    stage.compile("-p", "strict", "--timeout", "5s")
    mark = f"65.{os.getpid()}{stage.user}"
    running = _started(stage, f"setsid sleep {mark} & echo ready; sleep {mark}")

    def state() -> str:
        return Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[0]

    assert _wait_until(lambda: _processes(mark) != [])
    running.send_signal(signal.SIGSTOP)

    assert _wait_until(lambda: state() == "T")
    assert _wait_until(lambda: _processes(mark) == [])
    assert state() == "T"
    running.send_signal(signal.SIGCONT)
    running.communicate(timeout=20)
    assert running.returncode == 124


def _started(
    stage: Stage, script: str, *, before: tuple[str, ...] = (), **more: object
) -> subprocess.Popen[bytes]:
    """A run whose command has said that it is ready."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL} | more
    line = [*stage.become(), *before, *stage.line("sh", "-c", script, become=False)]
    running = subprocess.Popen(line, cwd=stage.project, env=stage.environment(), **streams)  # type: ignore[call-overload]
    assert running.stdout is not None
    assert running.stdout.read(6) == b"ready\n"
    return running  # type: ignore[no-any-return]


@pytest.mark.parametrize("victim", ["launcher", "caller"])
@pytest.mark.parametrize("limited", [True, False])
def test_nothing_outlives_whoever_started_it(stage: Stage, victim: str, *, limited: bool) -> None:
    options = ("-p", "strict") if limited else ("-p", "moderate", "--waive", "fs.protect")
    made = stage.corral("compile", *options, "-o", str(stage.plan))
    assert made.returncode == 0, made.stderr
    mark = f"64.{os.getpid()}{stage.user}{limited:d}"
    line = " ".join(stage.line("sh", "-c", "'setsid sleep $0 & echo ready; sleep $0'", mark))
    caller = subprocess.Popen(
        ["sh", "-c", f"{line} & echo $!; wait"],
        cwd=stage.project,
        env=stage.environment(),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert caller.stdout is not None
    launcher = int(caller.stdout.readline())
    assert caller.stdout.readline() == b"ready\n"
    assert len(_processes(mark)) >= 2

    os.kill(launcher if victim == "launcher" else caller.pid, signal.SIGKILL)

    assert _wait_until(lambda: _processes(mark) == []), _processes(mark)
    caller.kill()
    caller.wait(20)
    caller.stdout.close()


def test_the_end_of_a_thread_that_started_it_is_not_the_end(stage: Stage) -> None:
    """As with programs that start processes from threads which come and go: a death signal would end this."""
    stage.compile("-p", "strict")
    running: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        running.append(_started(stage, "echo ready; read line; echo $line", stdin=subprocess.PIPE))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()

    assert running[0].communicate(b"alive\n", timeout=20)[0] == b"alive\n"
