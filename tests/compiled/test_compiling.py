"""What the launcher alone cannot hold is refused when a plan is compiled, or waived on record."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess

import pytest

from corral.limits.hierarchy import find_hierarchy
from corral.model.result import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.plan_stage import Stage

OPEN = ("--waive", "fs.protect", "--write", "{project}")
#: Two processes with 40 MiB each at the same time, of which nobody waits for the second.
_TWO_AT_ONCE = """
import subprocess, sys
hold = "import sys; held = b'x' * (40 << 20); print(flush=True); sys.stdin.read()"
child = subprocess.Popen(["python3", "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
held = b"x" * (40 << 20)
child.returncode = 0
"""
LANDLOCK = ("--backend", "landlock", "--waive", "fs.metadata,proc.contained,proc.hidden")


@pytest.mark.parametrize(
    ("options", "feature"),
    [
        (("-p", "strict", *LANDLOCK), "fs.private"),
        (("-p", "strict", *OPEN, "--deny", "{project}/**/*.pem"), "fs.deny"),
    ],
)
def test_it_is_refused_with_the_waiver_that_accepts_less(
    stage: Stage, options: tuple[str, ...], feature: str
) -> None:
    _is_refused(stage, options, feature)


@pytest.mark.parametrize(
    ("options", "feature"),
    [
        (("-p", "strict", "--memory", "100m"), "limit.memory"),
        (("-p", "strict", "--cpus", "1"), "limit.cpu"),
        (("-p", "strict", "--cap", "cpu:time:1s"), "limit.cpu-time"),
    ],
)
def test_limits_are_refused_where_the_launcher_can_make_no_group(
    stage: Stage, options: tuple[str, ...], feature: str
) -> None:
    if _has_groups(stage):
        pytest.skip("root may make control groups here")
    _is_refused(stage, options, feature)


def _has_groups(stage: Stage) -> bool:
    """Ordinary users have none but systemd's, which the launcher does not ask for."""
    return stage.user == 0 and find_hierarchy() is not None


@pytest.mark.parametrize(
    ("option", "script", "said"),
    [
        (("--memory", "64m"), "python3 -c 'bytearray(200 << 20)'", "out-of-memory"),
        (("--pids", "8"), "for i in 1 2 3 4 5 6 7 8 9; do sleep 60 & done", "pids-limit"),
        (("--cap", "cpu:time:1s"), "while :; do :; done", ""),
    ],
)
def test_limits_of_control_groups_are_held_by_a_plan(
    stage: Stage, option: tuple[str, str], script: str, said: str
) -> None:
    if not _has_groups(stage):
        pytest.skip("no control group can be made here")
    done = stage.corral("compile", "-p", "strict", *option, "-o", str(stage.plan))
    assert done.returncode == 0, done.stderr

    ran = stage.run("sh", "-c", f"{script} && echo all")

    assert ran.returncode != 0 and b"all" not in ran.stdout
    assert said in ran.stderr.decode()


@pytest.mark.parametrize("counts", [True, False], ids=["by-groups", "by-waiting"])
def test_a_plan_tells_what_a_command_has_cost(stage: Stage, *, counts: bool) -> None:
    """Of all processes together where groups count, those included that nobody has waited for."""
    if counts and not _has_groups(stage):
        pytest.skip("no control group can be made here")
    done = stage.corral("compile", "-p", "strict", *(["--usage"] if counts else []), "-o", str(stage.plan))
    assert done.returncode == 0, done.stderr
    line = stage.line("python3", "-c", _TWO_AT_ONCE)
    line[line.index("--") : line.index("--")] = ["--usage", "2"]

    ran = subprocess.run(line, cwd=stage.project, env=stage.environment(), capture_output=True, check=False)

    told = json.loads(ran.stderr)
    assert told["is_whole_tree"] is counts
    assert set(told) == set(Usage._fields)
    assert (told["peak_memory_bytes"] or 0) > (80 if counts else 40) << 20
    assert not counts or told["peak_pids"] > 1
    assert told["user_seconds"] + told["system_seconds"] > 0


def test_the_cost_is_told_of_what_began_and_nobody_waits_for_a_reader(stage: Stage) -> None:
    done = stage.corral("compile", "-p", "strict", "-o", str(stage.plan))
    assert done.returncode == 0, done.stderr

    def told(descriptor: int, *command: str) -> subprocess.CompletedProcess[str]:
        line = stage.line(*command)
        line[line.index("--") : line.index("--")] = ["--usage", str(descriptor)]
        variables = stage.environment()
        return subprocess.run(
            line,
            cwd=stage.project,
            env=variables,
            pass_fds=(descriptor,),
            capture_output=True,
            text=True,
            timeout=20,
        )

    assert "wall_seconds" in told(2, "true").stderr  # the control
    assert "wall_seconds" not in told(2, "/no/such/program").stderr

    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(write, bytes(4096)):
            pass
    os.set_blocking(write, True)
    try:
        ran = told(write, "true")
    except subprocess.TimeoutExpired:
        raise AssertionError("it waits for a reader") from None
    os.close(read)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (0, "corral: what the command has cost could not be written\n")


def test_a_plan_without_its_limit_lets_the_same_command_through(stage: Stage) -> None:
    """The control."""
    done = stage.corral("compile", "-p", "strict", "-o", str(stage.plan))

    assert done.returncode == 0, done.stderr
    assert stage.run("sh", "-c", "python3 -c 'bytearray(200 << 20)' && echo all").stdout == b"all\n"


def _is_refused(stage: Stage, options: tuple[str, ...], feature: str) -> None:
    asked = [option.format(project=stage.project) for option in options]

    done = stage.corral("compile", *asked, "-o", str(stage.plan))

    assert done.returncode == 3
    assert done.stderr.startswith("corral: the policy cannot be compiled\n")
    assert f"--waive {feature}" in done.stderr
    assert not stage.plan.exists()

    waived = stage.corral("compile", *asked, "--waive", feature, "-o", str(stage.plan))
    assert waived.returncode == 0, waived.stderr
    assert feature in waived.stderr
    assert feature in stage.corral("compile", "--show", str(stage.plan)).stdout.partition("WAIVED")[2]
    assert stage.run("echo", "ran").stdout == b"ran\n"


def test_a_limit_of_processes_is_held_where_the_kernel_does_it(stage: Stage) -> None:
    done = stage.corral("compile", "-p", "strict", "--pids", "8", "-o", str(stage.plan))
    if stage.user == 0 and not _has_groups(stage):  # whom the kernel does not count
        assert done.returncode == 3 and "--waive limit.pids" in done.stderr
        return
    assert done.returncode == 0, done.stderr

    ran = stage.run("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; echo all")

    assert b"all" not in ran.stdout and b"fork" in ran.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--allow", "example.com"),
        ("--net", "limited"),
        ("--cap", "network:tcp:localhost:3000"),
        ("--allow", "example.com", "--waive", "net.domains,net.ports"),
        ("--allow", "example.com", *LANDLOCK),
    ],
)
def test_a_limited_network_cannot_be_compiled(stage: Stage, options: tuple[str, ...]) -> None:
    """Nobody would make the connections; so no waiver helps either."""
    done = stage.corral("compile", "-p", "strict", *options, "-o", str(stage.plan))

    assert done.returncode == 3
    assert done.stderr == (
        "corral: the policy cannot be compiled\n"
        "  because: the network is limited, and corral's own process makes the connections then\n"
        "  fix: use `corral run`, or a policy with `network:none` or `network:full`\n"
    )
    assert not stage.plan.exists()


def test_a_default_that_the_launcher_cannot_hold_alone_is_said(stage: Stage) -> None:
    """An ordinary user's processes are counted by the kernel; root's by a group, if one can be made."""
    done = stage.corral("compile", "-p", "strict", "-o", str(stage.plan))
    shown = stage.corral("compile", "--show", str(stage.plan)).stdout

    assert done.returncode == 0, done.stderr
    assert ("limit.pids (4096)" in done.stderr) == ("limit.pids (4096)" in shown)
    assert ("limit.pids (4096)" in shown) == (stage.user == 0 and not _has_groups(stage))
    if stage.user:
        assert stage.run("sh", "-c", "grep 'Max processes' /proc/self/limits").stdout.split()[2] == b"4097"


@pytest.mark.parametrize("backend", ["none", "bubblewrap", "docker"])
def test_other_backends_cannot_be_compiled(stage: Stage, backend: str) -> None:
    done = stage.corral("compile", "-p", "strict", "--backend", backend, "-o", str(stage.plan))

    assert done.returncode == 3
    assert "--backend native" in done.stderr
    assert not stage.plan.exists()


def test_no_plan_is_written_to_where_commands_may_write(stage: Stage) -> None:
    writable = stage.place / "writable"
    writable.mkdir()
    stage.own(writable)
    (stage.place / "link").symlink_to(writable)
    for target in (stage.project / "plan", writable / "plan", stage.place / "link" / "plan"):
        options = ("-p", "strict", "--write", str(writable), "--waive", "fs.protect", "-o", str(target))
        done = stage.corral("compile", *options)

        assert done.returncode == 2
        assert "cannot be written" in done.stderr
        assert not target.exists()


def test_a_plan_is_for_its_owner_alone_and_replaces_a_link(stage: Stage) -> None:
    victim = stage.place / "plans" / "victim"
    victim.write_text("untouched")
    stage.own(victim)
    stage.plan.symlink_to(victim)

    stage.compile("-p", "strict")

    assert victim.read_text() == "untouched"
    assert not stage.plan.is_symlink()
    assert stage.plan.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in stage.plan.parent.iterdir()) == ["plan", "victim"]


def test_a_plan_holds_no_value_of_the_callers_environment(stage: Stage) -> None:
    raw = stage.compile("-p", "strict", "--env", "SECRET").read_bytes()

    assert b"SECRET" in raw and b"hunter2" not in raw
    assert stage.run("sh", "-c", "echo $SECRET").stdout == b"hunter2\n"


def test_what_a_plan_holds_can_be_shown(stage: Stage) -> None:
    stage.compile("-p", "strict")

    shown = stage.corral("compile", "--show", str(stage.plan))

    assert shown.returncode == 0, shown.stderr
    for words in ("profile    strict", f"workspace  {stage.project}", "1000000 bytes", "LC_*", "corral.toml"):
        assert words in shown.stdout
    stage.plan.write_bytes(b"CORPLAN")
    assert stage.corral("compile", "--show", str(stage.plan)).returncode == 2
