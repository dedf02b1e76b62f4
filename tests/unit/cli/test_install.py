"""`corral install`: what is shown, what is asked, and what is on the host afterwards."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from corral.cli.install import apparmor as install_apparmor
from corral.cli.install.apparmor import plan_profile, profile_name, profile_text
from corral.cli.install.install import apply
from corral.model.errors import SetupError

LAUNCHER = "/opt/corral/lib/python3.12/site-packages/corral/bin/corral-launch"
#: What parsers before AppArmor 4.0 do not know; such hosts restrict no user namespaces either.
NEWER = r"^abi .*\n|^.*\b(userns|mqueue|io_uring),\n"


class Parser:
    """An apparmor_parser that notes what it was told; it may refuse to load anything."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.program = place / "apparmor_parser"
        refuse = f'[ "$1" != "$(cat {place}/refused)" ] || {{ echo no >&2; exit 1; }}'
        self.program.write_text(f'#!/bin/sh\necho "$1" >> {place}/told\n{refuse}\n')
        self.program.chmod(0o755)
        (place / "refused").write_text("")

    def refuse(self, option: str) -> None:
        (self.place / "refused").write_text(option)

    def told(self) -> list[str]:
        told = self.place / "told"
        return told.read_text().split() if told.exists() else []


@pytest.fixture
def parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parser:
    made = Parser(tmp_path)
    monkeypatch.setattr(install_apparmor, "find_program", lambda name, distrusted: str(made.program))
    return made


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "apparmor.d").mkdir()
    return tmp_path / "apparmor.d"


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def run(directory: Path, *, remove: bool = False, yes: bool = True, dry_run: bool = False) -> int:
    return apply(lambda: plan_profile(remove=remove, directory=str(directory)), yes=yes, dry_run=dry_run)


def test_the_profile_is_one_that_the_parser_takes(tmp_path: Path) -> None:
    parser = shutil.which("apparmor_parser", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if parser is None:
        pytest.skip("there is no apparmor_parser")
    version = subprocess.run([parser, "--version"], capture_output=True, text=True, check=True).stdout
    major = int(re.search(r"version (\d+)", version)[1])
    text = profile_text(LAUNCHER)
    file = tmp_path / "profile"
    file.write_text(text if major >= 4 else re.sub(NEWER, "", text, flags=re.MULTILINE))
    read = [parser, "--skip-kernel-load", "--skip-cache"]

    done = subprocess.run([*read, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    file.write_text(text.replace("{", "", 1))
    assert subprocess.run([*read, str(file)], capture_output=True).returncode != 0


def test_the_profile_is_for_the_launcher_alone() -> None:
    text = profile_text(LAUNCHER)

    name = profile_name(LAUNCHER)
    of_launcher, of_command = text.split("\nprofile ")[1:]
    assert of_launcher.startswith(f'{name} "{LAUNCHER}"') and "  allow userns,\n" in of_launcher
    assert of_command.startswith(f"{name}-command flags") and "  audit deny userns,\n" in of_command
    assert f"allow pix /** -> &{name}//&{name}-command,\n" in of_launcher
    assert profile_name(LAUNCHER) != profile_name("/elsewhere/corral-launch")


@pytest.mark.parametrize("path", ["/opt/a*", "/opt/{a,b}", '/opt/"', "/opt/@{HOME}", "/opt/a\nb", "/opt/é"])
def test_a_path_that_would_mean_something_else_is_refused(path: str) -> None:
    with pytest.raises(SetupError) as caught:
        profile_text(path)

    assert caught.value.code == "install-path"


def test_a_look_changes_nothing(directory: Path, parser: Parser, capsys) -> None:
    assert run(directory, dry_run=True, yes=False) == 0

    shown = capsys.readouterr().out
    assert "userns," in shown and f"apparmor_parser --replace {directory}" in shown
    assert list(directory.iterdir()) == [] and parser.told() == []


@pytest.mark.usefixtures("as_root")
def test_nobody_is_installed_to_without_a_yes(directory: Path, parser: Parser, monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.stdin", open(os.devnull))

    assert run(directory, yes=False) == 2
    assert "--yes" in capsys.readouterr().err
    assert list(directory.iterdir()) == [] and parser.told() == []


def test_it_takes_root(directory: Path, parser: Parser, monkeypatch, capsys) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert run(directory) == 125
    assert "sudo" in capsys.readouterr().err
    assert list(directory.iterdir()) == [] and parser.told() == []


@pytest.mark.usefixtures("as_root")
def test_it_is_read_written_and_loaded_and_can_be_taken_out(directory: Path, parser: Parser) -> None:
    assert run(directory) == 0
    (file,) = directory.iterdir()
    assert "userns," in file.read_text() and file.stat().st_mode & 0o777 == 0o644
    assert run(directory) == 0  # once more is no harm
    assert run(directory, remove=True) == 0
    assert run(directory, remove=True) == 0

    assert list(directory.iterdir()) == []
    assert parser.told() == [*("--skip-kernel-load", "--replace") * 2, "--remove"]


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("refused", ["--skip-kernel-load", "--replace"])
def test_what_the_parser_refuses_is_not_left_behind(directory, parser: Parser, refused: str, capsys) -> None:
    parser.refuse(refused)

    assert run(directory) == 125
    assert "because: no" in capsys.readouterr().err
    assert list(directory.iterdir()) == []


@pytest.mark.usefixtures("as_root")
def test_without_the_parser_it_says_what_to_install(directory: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(install_apparmor, "find_program", lambda name, distrusted: "")

    assert run(directory) == 125
    assert "apt-get install apparmor" in capsys.readouterr().err


def test_a_launcher_that_others_can_replace_is_warned_about(tmp_path: Path) -> None:
    launcher = tmp_path / "corral-launch"
    launcher.write_text("")
    tmp_path.chmod(0o777)

    assert "can be changed by others than root" in "\n".join(install_apparmor._owners(str(launcher)))
    assert list(install_apparmor._owners("/usr/bin/env")) == []
