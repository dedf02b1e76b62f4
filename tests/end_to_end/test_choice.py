"""The choice of a backend as a user meets it: fallback, limits that are dropped, a program that goes away."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from corral.backends.registry import BUILTIN, get_backend
from corral.host.real import RealHost
from corral.model.errors import SetupError, UnenforceableError
from corral.model.feature import Feature
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Corral

#: Nobody keeps single hosts away while the whole network is open.
HOPELESS = {"network": "full", "deny_domains": ["example.com"]}
PLACE = "fallback = unconfined, ~/.config/corral/corral.json:"
WARNING = f"corral: WARNING: the command runs WITHOUT A SANDBOX: {PLACE}"


def say(file: Path, **settings: object) -> None:
    file.write_text(json.dumps({"sandbox": settings}))


def test_a_fallback_is_loud_and_on_record(corral: Corral, user_file: Path, project: Path) -> None:
    say(user_file, fallback="unconfined", **HOPELESS)
    plain = corral("run", "--", "touch", "ran")
    as_json = corral("run", "--json", "--", "true")
    record = json.loads(as_json.stdout)["enforcement"]

    assert plain.returncode == 0 and (project / "ran").exists()
    for done in (plain, as_json):
        lines = done.stderr.decode().splitlines()
        assert lines[0].startswith(WARNING)
        assert lines[1].startswith("corral:   native: cannot enforce net.except")
    assert (record["backend"], "fs.read" in record["waived"]) == ("none", True)
    assert "native: cannot enforce net.except" in record["fallback"]


def test_explain_check_show_and_why_say_it_before(corral: Corral, user_file: Path) -> None:
    say(user_file, fallback="unconfined", **HOPELESS)
    explained = corral("explain").stdout.decode()
    checked = corral("policy", "check")
    shown = corral("policy", "show", "--effective").stdout.decode()

    assert explained.startswith("it would run unconfined") and "cannot enforce net.except" in explained
    assert "\nfallback   no backend can enforce the policy" in corral("explain", "-v").stdout.decode()
    assert json.loads(corral("explain", "--json").stdout)["fallback"]
    assert checked.returncode == 0 and b"the command would run UNCONFINED" in checked.stdout
    assert "would NOT CONFINE the command (fallback, ~/.config/corral/corral.json:" in shown
    assert "fallback = unconfined" in shown
    assert corral("why", "read", "/etc/shadow").returncode == 0


@pytest.mark.parametrize("flag", [["--sandbox"], ["--backend", "native"]])
def test_who_asks_for_a_sandbox_gets_one_or_a_refusal(
    corral: Corral, user_file: Path, project: Path, flag: list[str]
) -> None:
    say(user_file, fallback="unconfined", **HOPELESS)

    assert corral("run", *flag, "--", "touch", "ran").returncode == 3
    assert not (project / "ran").exists()


def test_a_projects_file_neither_switches_it_on_nor_makes_it_happen(
    corral: Corral, user_file: Path, project: Path
) -> None:
    say(project / "corral.json", fallback="unconfined", **HOPELESS)
    first = corral("run", "--", "touch", "ran")
    say(user_file, fallback="unconfined", network="full")
    second = corral("run", "--", "touch", "ran")

    assert (first.returncode, second.returncode) == (
        0,
        3,
    )  # without a network of its own, names do not matter
    assert b"WITHOUT" not in first.stderr
    assert b"would widen your policy" in first.stderr
    (project / "corral.json").unlink()
    assert corral("run", "--", "true").returncode == 0


def test_a_variable_is_refused_with_the_reason(corral: Corral, user_file: Path) -> None:
    done = corral("run", "--", "true", CORRAL_FALLBACK="unconfined")

    assert done.returncode == 2
    assert b"only your own file can say 'unconfined'" in done.stderr


def test_an_order_in_the_users_file_is_followed(corral: Corral, user_file: Path) -> None:
    say(user_file, backends=["landlock"])
    done = corral("run", "--", "true")

    assert done.returncode == 3
    assert b"landlock: cannot enforce" in done.stderr and b"native" not in done.stderr


def test_a_refusal_has_a_line_for_each_backend(corral: Corral) -> None:
    asked = ("--net", "full", "--cap", "network:deny:example.com")
    lines = corral("run", *asked, "--", "true").stderr.decode().splitlines()
    reasons = [line[11:].partition(":")[0] for line in lines[1:-1]]
    as_json = json.loads(corral("run", "--json", *asked, "--", "true").stdout)["error"]

    assert lines[1].startswith("  because: native: ")
    assert set(reasons) <= set(BUILTIN) and len(reasons) > 1
    assert lines[-1].startswith("  fix: ")
    assert [reason.partition(":")[0] for reason in as_json["reasons"]] == reasons


def test_a_limit_that_nobody_keeps_is_named(corral: Corral) -> None:
    done = corral(
        "run", "--backend", "none", "--memory", "1G", "--pids", "7", "--timeout", "9s", "--", "true"
    )

    assert done.stderr.decode() == (
        "corral: the command runs without a sandbox: as asked; not limited without one: "
        "memory 1GiB, processes 7\n"
    )


def test_doctor_has_every_feature_and_every_backend(corral: Corral) -> None:
    plain, report = corral("doctor", "-v"), json.loads(corral("doctor", "--json").stdout)
    text = plain.stdout.decode()

    assert (plain.returncode, plain.stderr) == (0, b"")
    assert [backend["backend"] for backend in report["backends"]] == list(BUILTIN)
    assert [feature.value for feature in Feature if f"\n{feature.value} " not in text] == []
    assert [name for name in BUILTIN if f"\n{name} " not in text] == []


def test_a_bwrap_that_is_taken_away_is_an_error_and_is_probed_again(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "bubblewrap" not in BUILTIN:
        pytest.skip("this version has no backend bubblewrap")
    real = shutil.which("bwrap")
    probe = get_backend("bubblewrap").probe(RealHost())
    if real is None or not probe.available:
        pytest.skip(f"bubblewrap is not available: {probe.reason}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "bin").mkdir()
    mine = shutil.copy2(real, tmp_path / "bin" / "bwrap")
    os.symlink("/bin/true", tmp_path / "bin" / "true")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    lacking = Sandbox(workspace=project).explain("true").plan.requires - probe.enforces
    sandbox = Sandbox(workspace=project, backend="bubblewrap", waive=lacking)
    assert sandbox.explain("true").launch.argv[0] == str(mine)

    os.unlink(mine)
    with pytest.raises(SetupError) as failed:
        sandbox.run(["/bin/true"])
    with pytest.raises(UnenforceableError, match="no `bwrap` on the PATH"):
        sandbox.run(["/bin/true"])

    assert str(mine) in failed.value.render() or "bwrap" in failed.value.render()
    assert "No such file" in failed.value.why
