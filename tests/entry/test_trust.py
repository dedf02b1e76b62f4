"""Nobody slips a plan in, and a plan that is out of date is not used."""

from __future__ import annotations

import os
import shutil
import time

import pytest


def test_what_has_changed_makes_it_pythons(warm) -> None:
    (warm.workspace / "corral.toml").write_text("[policy]\n")

    assert warm.run("--", "true")[0] == "python"


def test_other_variables_are_another_request(warm) -> None:
    assert warm.run("--", "true", env=warm.environment(MORE="1"))[0] == "python"
    assert warm.run("--", "true", env=warm.environment(SHLVL="7", _="x"))[0] == "native"


def test_a_repository_of_the_hosts_makes_it_pythons(warm) -> None:
    warm.git("init", "-q", str(warm.workspace / "below"))

    assert warm.run("--", "true")[0] == "python"


def test_the_place_comes_from_the_password_database(warm) -> None:
    planted = warm.home.parent / "planted"
    shutil.copytree(warm.home / ".local", planted / ".local")
    shutil.rmtree(warm.stored)
    for variables in ({"HOME": str(planted)}, {"XDG_STATE_HOME": str(planted / ".local/state")}):
        assert warm.run("--", "true", env=warm.environment(**variables))[0] == "python"


def test_who_else_may_write_there_is_not_believed(warm) -> None:
    for place in (warm.stored, warm.stored.parent, warm.home):
        mode = place.stat().st_mode
        place.chmod(0o770)
        assert warm.run("--", "true")[0] == "python", place
        place.chmod(mode & 0o7777)
    file = next(path for path in warm.stored.iterdir() if len(path.name) == 64)
    file.chmod(0o620)
    assert warm.run("--", "true")[0] == "python"


def test_what_is_another_users_is_not_believed(warm) -> None:
    os.chown(next(warm.stored.iterdir()), 12345, 12345)

    assert warm.run("--", "true")[0] == "python"


def test_no_link_is_followed(warm) -> None:
    moved = warm.home / "moved"
    warm.stored.rename(moved)
    warm.stored.symlink_to(moved)

    assert warm.run("--", "true")[0] == "python"


def test_a_copy_under_another_name_is_not_used(warm) -> None:
    """A plan for one request must not be another's, whoever has carried it there."""
    env = warm.environment(MORE="1")
    before = {*warm.stored.iterdir()}
    (first,) = before
    assert warm.run("--", "true", env=env)[0] == "python"
    (other,) = {*warm.stored.iterdir()} - before
    assert warm.run("--", "true", env=env)[0] == "native"
    shutil.copyfile(first, other)

    assert warm.run("--", "true", env=env)[0] == "python"


def test_damage_is_not_used(warm) -> None:
    (file,) = warm.stored.iterdir()
    whole = file.read_bytes()
    for cut in (0, 19, 60, len(whole) // 3):
        file.write_bytes(whole[:cut])
        assert warm.run("--", "true")[:2] == ("python", 0)
        time_passed = file.stat().st_size != cut  # it was stored anew
        assert time_passed


@pytest.mark.parametrize("variables", [{}, {"HOME": "/root"}, {"XDG_STATE_HOME": "/root/state"}], ids=str)
def test_no_command_writes_there_whatever_the_variables_say(warm, variables) -> None:
    """Unconfined it could: the directory is the caller's own."""
    granted, target = warm.home / ".local", warm.stored / "planted"
    target.touch()  # the control: whoever is not confined can
    target.unlink()
    before = sorted(path.name for path in warm.stored.iterdir())
    line = f"echo x > {granted}/free && echo ran; echo x > {target}; rmdir {warm.stored}; "
    line += f"rm -rf {warm.stored.parent}; mv {granted}/state {granted}/other"

    told = warm.run("--write", str(granted), "-c", line, env=warm.environment(**variables))
    assert "ran" in told[2], told
    assert (granted / "free").exists()
    assert set(before) <= {path.name for path in warm.stored.iterdir()}
    assert not target.exists()


def test_what_is_denied_and_mounted_once_more_is_refused(entry) -> None:
    """By whichever way: a stored plan is not used where other things are mounted than when it was made."""
    secret, place = entry.home / "secret", entry.workspace / "place"
    for path in (secret, place):
        path.mkdir()
    (secret / "key").write_text("the key\n")
    words = ("run", "--deny", str(secret), "--", "cat", "place/key")
    time.sleep(0.05)  # what was made a moment ago may change once more without another time
    assert [entry.run(*words[1:])[0] for _ in range(2)] == ["python", "native"]
    mount = f'mount --bind {secret} {place} && "$@"'

    def read(*program: str) -> tuple[int, str, str]:
        process = entry.start("-c", mount, "sh", *program, program=("sh",))
        out, errors = process.communicate(timeout=60)
        return process.returncode, out, errors

    assert read("cat", "place/key")[:2] == (0, "the key\n")  # the control
    code, out, errors = read(str(entry.program), *words)
    assert (code, out) == (2, "")
    assert f"it is mounted at {place} as well" in errors
