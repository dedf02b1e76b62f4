"""What is around a command: the name of the host, its network, init, and what nobody holds any more."""

from __future__ import annotations

import errno
import os
import select
import socket
from pathlib import Path

import pytest
from launching import PATIENCE_SECONDS, bare, confined, launch, shell, start

from corral.linux.spec import Landlock, PathRule

_TALK = """
import socket
try:
    one = socket.create_server(('127.0.0.1', 0))
    socket.create_connection(one.getsockname()).close()
    print('met')
except OSError as problem:
    print(problem.errno)
"""
_CONNECT = """
import socket, sys
for port in sys.argv[1:]:
    try:
        socket.create_connection(('127.0.0.1', int(port))).close()
        print('met')
    except OSError as problem:
        print(problem.errno)
"""


def test_the_host_has_another_name_inside(plain: Path) -> None:
    names = {launch(plain, confined("uname", "-n", hostname=name)).output for name in ("corral", "elsewhere")}

    assert names == {b"corral\n", b"elsewhere\n"}
    assert launch(plain, bare("uname", "-n")).output == os.uname().nodename.encode() + b"\n"


def test_loopback_is_up(plain: Path) -> None:
    assert launch(plain, confined("python3", "-SEc", _TALK)).output == b"met\n"


def test_without_the_record_it_is_not(plain: Path) -> None:
    assert launch(plain, confined("python3", "-SEc", _TALK, loopback=False)).output != b"met\n"


def test_init_keeps_no_privilege(plain: Path, user: int) -> None:
    wanted = "^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs)"

    done = launch(plain, confined("grep", "-E", wanted, "/proc/1/status", user=user), user=user)

    values = [line.split()[1] for line in done.output.decode().splitlines()]
    assert values == ["0" * 16] * 5 + ["1"]


@pytest.mark.parametrize("make", [confined, bare])
def test_nobody_holds_what_the_launcher_inherited(plain: Path, make) -> None:
    """Neither supervisor nor init keeps corral's other pipes open: their readers see the end."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    running = start(plain, make("sleep", "60"))
    os.close(writer)
    running.wait_for("started")

    is_closed = bool(select.select([reader], [], [], PATIENCE_SECONDS / 4)[0])
    running.cut_lifeline()
    running.finish()
    os.close(reader)

    assert is_closed


def test_a_landlock_port_is_reached_and_no_other(plain: Path) -> None:
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [server.getsockname()[1] for server in servers]
    argv = ("python3", "-SEc", _CONNECT, *map(str, ports))
    connect = 2  # LANDLOCK_ACCESS_NET_CONNECT_TCP
    lock = Landlock(handled_fs=0, handled_net=connect, ports=((connect, ports[0]),))

    free, held = (launch(plain, bare(*argv, **more)).output for more in ({}, {"landlock": lock}))
    for server in servers:
        server.close()

    assert free == b"met\nmet\n"
    assert held == b"met\n13\n"


def test_who_lingers_waits_for_the_end_of_the_lifeline(plain: Path) -> None:
    """All is told, and the launcher is there still, for corral to read what a container has counted."""
    running = start(plain, confined(*shell("exit 3"), lingers=True))
    running.wait_for("done")

    assert os.waitpid(running.pid, os.WNOHANG) == (0, 0)
    assert running.lines[:2] == ["started", "exited 3"]
    running.cut_lifeline()
    assert running.finish().exit_code == 0


@pytest.mark.parametrize("make", [confined, bare])
def test_a_command_starts_not_before_corral_says_so(plain: Path, tmp_path: Path, make) -> None:
    """Corral looks at what is there while the sandbox is made. A sandbox that did not wait ends at once."""
    free = launch(plain, make(*shell("echo ran")))
    running = start(plain, make(*shell("echo ran"), awaits=True))

    is_silent = not select.select([running.output_fd, running.status_fd], [], [], 0.3)[0]
    os.write(running.lifeline_fd, b"g")
    told = running.finish()

    assert free.output == told.output == b"ran\n"
    assert is_silent
    assert told.lines[:2] == ["started", "exited 0"]


@pytest.mark.parametrize("make", [confined, bare])
@pytest.mark.parametrize("word", [b"", b"x", b"\x0f", b"G"], ids=["end", "other word", "signal", "large"])
def test_a_command_that_is_not_wanted_any_more_never_starts(plain: Path, make, word: bytes) -> None:
    """Another word than the one, or the end of the lifeline: corral wants no more, is gone or confused."""
    running = start(plain, make(*shell("echo ran"), awaits=True))
    if word:
        os.write(running.lifeline_fd, word)
    else:
        running.cut_lifeline()
    told = running.finish()

    assert told.output == b""
    assert "started" not in told.lines
    assert not any(line.startswith("exited") for line in told.lines)


def test_who_waits_for_corrals_word_hears_of_a_failure_all_the_same(plain: Path) -> None:
    running = start(plain, confined("true", awaits=True, cwd="/nowhere"))
    os.write(running.lifeline_fd, b"g")
    told = running.finish()

    assert told.lines[0].startswith("failed surroundings")


def test_the_supervisor_keeps_no_privilege(plain: Path) -> None:
    """It is on the host, and outlives what it supervises."""
    running = start(plain, confined("sleep", "60"))
    running.wait_for("started")

    fields = dict(line.split(":", 1) for line in Path(f"/proc/{running.pid}/status").read_text().splitlines())
    running.cut_lifeline()
    running.finish()

    kept = {
        name: value.strip() for name, value in fields.items() if name in {"CapPrm", "CapEff", "NoNewPrivs"}
    }
    assert kept == {"CapPrm": "0" * 16, "CapEff": "0" * 16, "NoNewPrivs": "1"}


def test_a_landlock_rule_is_about_what_was_planned(plain: Path, tmp_path: Path) -> None:
    """Without mounts nothing else notices: after a swap the rule would grant another directory."""
    planned = os.stat(tmp_path)
    rule = PathRule(0xD, str(tmp_path), planned.st_dev, planned.st_ino)
    rules = tuple(PathRule(0xD, place) for place in ("/usr", "/lib64", "/etc"))

    def run(last: PathRule) -> list[str]:
        return launch(plain, bare("true", landlock=Landlock(0x1FFF, paths=(*rules, last)))).lines

    assert run(rule) == ["started", "exited 0"]
    said = run(rule.replace(inode=planned.st_ino + 1))
    assert said[0].startswith(f"failed landlock {errno.ESTALE} ")


def test_a_directory_is_no_stdio(plain: Path, tmp_path: Path) -> None:
    """`openat` on it would be no lookup from the root inside."""
    directory = os.open(tmp_path, os.O_RDONLY)
    done = start(plain, confined("true"), stdin=directory).finish()
    os.close(directory)

    assert (done.lines, done.exit_code) == ([], 125)
