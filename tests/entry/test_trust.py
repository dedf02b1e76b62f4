"""Nobody slips a plan in, and a plan that is out of date is not used."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from corral.host.real import RealHost

_NAME = 64  # letters of a stored plan's name
_KEY_AT = 20  # where it stands in the file


def test_what_has_changed_makes_it_pythons(warm) -> None:
    configuration = warm.home / ".config/corral/corral.toml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text("[policy]\n")

    assert warm.run("--", "true")[0] == "python"
    (warm.workspace / "corral.toml").write_text("[policy]\n")
    assert warm.run("--", "true")[0] == "python"


def test_other_variables_are_another_request(warm) -> None:
    assert warm.run("--", "true", env=warm.environment(MORE="1"))[0] == "python"
    assert warm.run("--", "true", env=warm.environment(SHLVL="7", _="x"))[0] == "native"


def test_a_repository_of_the_hosts_makes_it_pythons(warm) -> None:
    warm.git("init", "-q", str(warm.workspace / "below"))

    assert warm.run("--", "true")[0] == "python"


def test_a_log_that_has_come_is_hidden(entry) -> None:
    """No command reads it; a plan from before has no mount over it."""
    log = entry.stored.parent / "audit"
    words = ("--read", str(entry.home / ".local"), "-c", f"cat {log}/*; true")
    entry.warm_up(*words[:2])
    log.mkdir()
    (log / "current").write_text("of other runs\n")

    way, _, out, _ = entry.run(*words)
    assert (way, out) == ("python", "")


def test_the_place_comes_from_the_password_database(warm) -> None:
    planted = warm.home.parent / "planted"
    shutil.copytree(warm.home / ".local", planted / ".local")
    shutil.rmtree(warm.stored)
    for variables in ({"HOME": str(planted)}, {"XDG_STATE_HOME": str(planted / ".local/state")}):
        assert warm.run("--", "true", env=warm.environment(**variables))[0] == "python"


_KEY_OF = """
import sys
from corral.cli.stored import request_key
from corral.compiled_plans.compiler import build_of
print(request_key([], build_of(sys.argv[1]), hears=False).hex())
"""


def test_a_plan_in_a_home_by_variable_is_not_used(warm) -> None:
    """Whoever chooses HOME can also compute the name of a plan, and write one for it."""
    planted = warm.home.parent / "planted"
    env = warm.environment(HOME=str(planted))
    shutil.copytree(warm.home / ".local", planted / ".local")
    planted.chmod(0o700)
    program = (warm.python, "-c", _KEY_OF, RealHost().launcher()[0])
    key = warm.start(program=program, env=env).communicate(timeout=60)[0].strip()
    file = planted / ".local/state/corral/stored" / key
    whole = _file(warm).read_bytes()
    file.write_bytes(whole[:_KEY_AT] + bytes.fromhex(key) + whole[_KEY_AT + len(key) // 2 :])
    file.chmod(0o600)

    assert warm.run("--", "true", env=env)[0] == "python"
    own = warm.stored / key  # the control: where it is believed, it is used
    shutil.copyfile(file, own)
    own.chmod(0o600)
    assert warm.run("--", "true", env=env)[0] == "native"


def _file(entry) -> Path:
    (found,) = (path for path in entry.stored.iterdir() if len(path.name) == _NAME)
    return found


@pytest.mark.parametrize("more", [0o020, 0o002], ids=["group", "others"])
def test_who_else_may_write_there_is_not_believed(warm, more) -> None:
    for place in (_file(warm), warm.stored, warm.stored.parent, warm.home):
        mode = place.stat().st_mode & 0o7777
        place.chmod(mode | more)
        assert warm.run("--", "true")[0] == "python", place
        place.chmod(mode)


@pytest.mark.parametrize("find", [_file, lambda entry: entry.stored], ids=["file", "directory"])
def test_what_is_another_users_is_not_believed(warm, find) -> None:
    os.chown(find(warm), 12345, 12345)

    assert warm.run("--", "true")[0] == "python"


@pytest.mark.parametrize("find", [_file, lambda entry: entry.stored], ids=["file", "directory"])
def test_no_link_is_followed(warm, find) -> None:
    place, moved = find(warm), warm.home / "moved"
    place.rename(moved)
    place.symlink_to(moved)

    assert warm.run("--", "true")[0] == "python"


def test_a_file_with_a_second_name_is_not_believed(warm) -> None:
    """Whoever made that name may have opened it before it was the caller's."""
    (warm.home / "second").hardlink_to(_file(warm))

    assert warm.run("--", "true")[0] == "python"


def test_another_directory_is_another_request(warm) -> None:
    (warm.workspace / "below").mkdir()
    program = ("env", "--chdir", "below", str(warm.program))  # with the same variables

    way, _, out, _ = warm.run("--", "pwd", program=program)
    assert (way, out) == ("python", f"{warm.workspace}/below\n")


def test_other_options_are_another_request(warm) -> None:
    assert warm.run("--read", "/srv", "--", "true")[0] == "python"


def test_other_groups_are_another_request(warm) -> None:
    program = ("setpriv", "--groups", "12345", str(warm.program))

    assert warm.run("--", "true", program=program)[0] == "python"


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


def _mounted(entry, line: str, *program: str) -> tuple[str, int, str, str]:
    """What a program does in a mount namespace of its own in which a line of shell was run before."""
    return entry.call("-c", f'{line} && "$@"', "sh", *program, program=("sh",))


def test_what_is_denied_and_mounted_once_more_is_refused(entry) -> None:
    """By whichever way: a stored plan is not used where what is denied has other mounts than before."""
    secret, place, other = (entry.home / "secret", entry.workspace / "place", entry.home / "other")
    for path in (secret, place, other):
        path.mkdir()
    (secret / "key").write_text("the key\n")
    words = ("run", "--deny", str(secret), "--", "cat", "place/key")
    time.sleep(0.05)  # what was made a moment ago may change once more without another time
    assert [entry.run(*words[1:])[0] for _ in range(2)] == ["python", "native"]

    mount = f"mount --bind {secret} {place}"
    assert _mounted(entry, mount, "cat", "place/key")[1:3] == (0, "the key\n")  # the control
    way, code, out, errors = _mounted(entry, mount, str(entry.program), *words)
    assert (way, code, out) == ("python", 2, "")
    assert f"it is mounted at {place} as well" in errors

    # Engines and mounted disks come and go; of the secret's own file system, too.
    shell = f"mount -t tmpfs x {other} && mkdir {other}/a && mount --bind {entry.workspace} {other}/a"
    assert _mounted(entry, shell, str(entry.program), *words)[0] == "native"
