"""A plan is refused when planning anew could give another one, and when it may be of others' making."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from corral.limits.hierarchy import find_hierarchy
from corral.linux.compiled import decode_plan, encode_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.plan_stage import Stage

RAN = ("sh", "-c", "echo ran")
MUTANTS = 150


def _refusal(stage: Stage) -> str:
    """Why the plan is not used any more; the command has surely not run."""
    done = stage.run(*RAN)

    assert (done.returncode, done.stdout) == (125, b""), done
    first, because, fix = done.stderr.decode().splitlines()
    assert first.startswith("corral: the command did not run: ")
    assert because.startswith("  because: ") and fix.startswith("  fix: ")
    return because


def _runs(stage: Stage) -> bool:
    done = stage.run(*RAN)
    return (done.returncode, done.stdout) == (0, b"ran\n")


def test_a_caller_in_another_control_group(stage: Stage) -> None:
    """A group that is made where the plan says would free the command from the caller's own limits."""
    hierarchy = find_hierarchy()
    if stage.user or hierarchy is None or "pids" not in hierarchy.parents:
        pytest.skip("no control group can be made here")
    stage.compile("-p", "strict", "--pids", "50")
    assert _runs(stage)
    group = Path(hierarchy.parents["pids"], f"corral-test-{os.urandom(8).hex()}")
    group.mkdir()

    enter = ["sh", "-c", 'echo $$ > "$1/cgroup.procs" && shift && exec "$@"', "sh", str(group)]
    done = subprocess.run(
        [*enter, *stage.line(*RAN)],
        cwd=stage.project,
        env=stage.environment(),
        capture_output=True,
        check=False,
    )
    group.rmdir()

    assert (done.returncode, done.stdout) == (125, b"")
    assert b"/proc/self/cgroup says otherwise: this is another control group" in done.stderr


def test_a_policy_file_that_changes(stage: Stage) -> None:
    own = stage.home / ".config/corral/corral.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[sandbox]\nprofile = "strict"\n')
    stage.own(stage.home)
    stage.compile()
    assert _runs(stage)

    own.write_text('[sandbox]\nprofile = "strict"\nnetwork = "none"\n')

    assert f"{own} has changed" in _refusal(stage)
    stage.compile()
    assert _runs(stage)
    os.utime(own)
    assert f"{own} has changed" in _refusal(stage)


def test_a_policy_file_that_appears(stage: Stage) -> None:
    stage.compile("-p", "strict")
    assert _runs(stage)

    (stage.project / "corral.toml").write_text("")
    assert f"{stage.project}/corral.toml is there now" in _refusal(stage)
    (stage.project / "corral.toml").unlink()
    assert _runs(stage)
    (stage.place / "corral.json").write_text("{}")

    assert f"{stage.place}/corral.json is there now" in _refusal(stage)


def test_whether_a_plan_is_out_of_date_can_be_asked(stage: Stage) -> None:
    stage.compile("-p", "strict")
    line = [*stage.become(), stage.launcher, "--check-plan", str(stage.plan)]

    assert subprocess.run(line, cwd="/", check=True, capture_output=True).stderr == b""
    (stage.project / "corral.toml").write_text("")

    done = subprocess.run(line, cwd="/", check=False, capture_output=True)
    assert done.returncode == 125
    assert f"{stage.project}/corral.toml is there now".encode() in done.stderr


def test_files_that_count_for_nothing_may_change(stage: Stage) -> None:
    stage.compile("-p", "strict", "--no-config")
    (stage.project / "corral.toml").write_text("")
    assert _runs(stage)
    (stage.project / "corral.toml").unlink()

    stage.compile("-p", "strict")
    (stage.project / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert _runs(stage)
    (stage.project / "pyproject.toml").write_text("x" * 16380 + "\n[tool.corral.sandbox]\n")

    assert "pyproject.toml now configures corral" in _refusal(stage)


def test_a_denied_path_that_comes_into_being(stage: Stage) -> None:
    """It was not there to be hidden when the plan was made; what is there now would be readable."""
    stage.compile("-p", "strict", "--deny", str(stage.project / "secrets"))
    assert _runs(stage)

    (stage.project / "secrets").write_text("SECRET")

    assert f"{stage.project}/secrets is there now" in _refusal(stage)
    stage.compile("-p", "strict", "--deny", str(stage.project / "secrets"))
    assert b"SECRET" not in stage.run("cat", "secrets").stdout
    assert _runs(stage)  # a denial of what is there holds from one run to the next


def test_a_link_that_leads_elsewhere(stage: Stage) -> None:
    for name in ("one", "two"):
        (stage.place / name).mkdir()
        (stage.place / name / "file").write_text(name)
    link = stage.place / "link"
    link.symlink_to("one")
    stage.compile("-p", "strict", "--read", str(link))
    assert stage.run("cat", f"{link}/file").stdout == b"one"

    link.unlink()
    link.symlink_to("two")

    assert f"{link} " in _refusal(stage)


def test_a_workspace_that_is_another_directory(stage: Stage) -> None:
    stage.compile("-p", "strict")
    stage.project.rename(stage.place / "old")
    shutil.copytree(stage.place / "old", stage.project)

    assert str(stage.project) in _refusal(stage)


def test_another_user(stage: Stage) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to be two users")
    other = 0 if stage.user else 61236
    stage.compile("-p", "strict")
    os.chown(stage.plan, 0, 0)  # root's files are believed by everyone
    stage.plan.chmod(0o644)
    assert _runs(stage)

    stage.user = other

    assert "it is for user" in _refusal(stage)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("boot", "the machine has been started again"),
        ("kernel", "the kernel was other"),
        ("build", "another build of corral-launch"),
        ("gid", "it is for user"),
    ],
)
def test_another_machine(stage: Stage, field: str, words: str) -> None:
    plan = decode_plan(stage.compile("-p", "strict").read_bytes())
    other = plan.host.replace(**{field: stage.user + 1 if field == "gid" else "other"})
    assert encode_plan(plan) == stage.plan.read_bytes()

    stage.plan.write_bytes(encode_plan(plan.replace(host=other)))

    assert words in _refusal(stage)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write(stage: Stage, mode: int) -> None:
    stage.compile("-p", "strict")
    stage.plan.chmod(mode)

    assert "others may write" in _refusal(stage)


def test_a_file_that_is_not_the_callers(stage: Stage) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a file away")
    stage.compile("-p", "strict")
    stage.plan.chmod(0o644)
    os.chown(stage.plan, 61237, 61237)

    assert "belongs to user 61237" in _refusal(stage)


def test_what_is_not_a_file(stage: Stage) -> None:
    stage.compile("-p", "strict")
    real = stage.plan.rename(stage.plan.parent / "real")

    assert "No such file" in _refusal(stage)
    stage.plan.symlink_to(real)
    assert "it is a symbolic link" in _refusal(stage)
    stage.plan.unlink()
    os.mkfifo(stage.plan)
    stage.own(stage.plan)
    assert "is not a file" in _refusal(stage)
    stage.plan.unlink()
    stage.plan.mkdir()
    stage.own(stage.plan)
    assert "is not a file" in _refusal(stage)


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_a_plan_that_was_carried_to_where_commands_write(stage: Stage, backend: str) -> None:
    """It is the same plan still, and it is refused before a command could change it."""
    waived = "fs.protect,fs.metadata,fs.private,fs.deny,proc.contained,proc.hidden"
    options = ("-p", "moderate", "--backend", backend, "--waive", waived, "-o", str(stage.plan))
    assert stage.corral("compile", *options).returncode == 0
    assert _runs(stage)
    moved = stage.project / "plan"
    shutil.copy(stage.plan, moved)
    stage.own(moved).chmod(0o600)

    done = stage.run(*RAN, plan=moved)

    assert (done.returncode, done.stdout) == (125, b"")
    assert f"it is in {stage.project}, where a command may write".encode() in done.stderr


def test_no_damaged_plan_is_used(stage: Stage) -> None:
    """Cut off anywhere, or with any byte changed: nothing runs, and nothing crashes."""
    whole = stage.compile("-p", "strict").read_bytes()
    chance = random.Random(6)
    assert _runs(stage)
    damaged = [whole[: chance.randrange(len(whole))] for _ in range(MUTANTS // 3)]
    damaged += [whole + b"\0", b"", whole[:24]]
    for place in (*range(24), *(chance.randrange(len(whole)) for _ in range(MUTANTS))):
        changed = bytearray(whole)
        changed[place] ^= 1 << chance.randrange(8)
        damaged.append(bytes(changed))

    for raw in damaged:
        stage.plan.write_bytes(raw)

        assert str(stage.plan) in _refusal(stage)


def test_wrong_usage_runs_nothing(stage: Stage) -> None:
    stage.compile("-p", "strict")
    plan = str(stage.plan)
    for words in (["--plan"], ["--plan", plan], ["--plan", plan, "--"], ["--plan", plan, *RAN]):
        done = subprocess.run([stage.launcher, *words], capture_output=True, cwd=stage.project, check=False)

        assert (done.returncode, done.stdout) == (2, b"")
        assert b"fix: write `corral-launch --plan FILE -- COMMAND`" in done.stderr

    # Nothing is open there.
    words = ["--plan", plan, "--usage", "9", "--", *RAN]
    done = subprocess.run([stage.launcher, *words], capture_output=True, cwd=stage.project, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"its descriptor is not open for writing" in done.stderr
