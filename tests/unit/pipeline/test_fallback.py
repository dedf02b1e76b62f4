"""`fallback = "unconfined"`: where nothing enforces the policy, by the user's own file alone, and told."""

from __future__ import annotations

import os

import pytest

from corral.config.find import find_project_files
from corral.config.load import load_configuration
from corral.config.trust import trust
from corral.model.errors import (
    ConfigurationError,
    PolicyError,
    SetupError,
    UnconfinedWarning,
    UnenforceableError,
)
from corral.model.feature import RUNNER_FEATURES
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from support.probed import silence_engines
from support.user_files import forget_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from corral.config.configuration import Configuration

#: What no backend of this version enforces.
HOPELESS = ("network:full", "network:deny:example.com")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    forget_settings(tmp_path, monkeypatch)
    monkeypatch.setenv("PATH", f"{silence_engines(tmp_path / 'engines')}:{os.environ['PATH']}")
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def say(project: Path, text: str) -> None:
    """In the user's own file."""
    (project.parent / "config" / "corral" / "corral.toml").write_text(text)


def load(project: Path) -> Configuration:
    return load_configuration(project)


def sandbox(project: Path, *capabilities: str, **options) -> Sandbox:
    return Sandbox(build_policy("moderate", capabilities), workspace=project, **options)


def test_without_it_what_cannot_be_enforced_is_refused(project: Path) -> None:
    with pytest.raises(UnenforceableError):
        sandbox(project, *HOPELESS).run(["true"])


def test_with_it_the_command_runs_and_the_result_says_so(project: Path) -> None:
    used = sandbox(project, *HOPELESS, fallback="unconfined")
    with pytest.warns(UnconfinedWarning, match=r"WITHOUT A SANDBOX.*net\.except") as warned:
        result = used.run(["/bin/sh", "-c", "echo ${CORRAL_SANDBOX-outside}"])
    required = used.explain("true").plan.requires

    assert warned[0].filename == __file__  # where the caller stands
    assert result.stdout == "outside\n"
    assert result.enforcement.backend == "none"
    assert result.enforcement.waived >= required - RUNNER_FEATURES
    assert "net.except" in result.enforcement.fallback
    assert result.to_json()["enforcement"]["fallback"] == result.enforcement.fallback


def test_without_a_sandbox_the_limits_that_the_kernel_holds_for_anyone_are_set(project: Path) -> None:
    """And no program that is not there is taken for one that ran."""
    limits = ("files:limit:64", "file:limit:4KiB")
    used = sandbox(project, *limits, backend="none")
    script = "ulimit -n; head -c 8192 /dev/zero > big; wc -c < big"

    assert sandbox(project, backend="none").run(["sh", "-c", script]).stdout.endswith("8192\n")
    assert used.run(["sh", "-c", script]).stdout.split() == ["64", "4096"]
    for argv, status in ((["no-such-program"], 127), (["./big"], 126)):
        with pytest.raises(SetupError) as caught:
            used.run(argv)
        assert caught.value.exit_status == status


def test_where_a_backend_does_it_the_fallback_changes_nothing(project: Path) -> None:
    used = sandbox(project, fallback="unconfined")
    explanation = used.explain("true")

    assert explanation.probe.backend != "none"
    assert (explanation.refusal, used.fidelity().falls_back) == (None, False)


def test_fidelity_says_that_nothing_would_confine_it(project: Path) -> None:
    found = sandbox(project, *HOPELESS, fallback="unconfined").fidelity()

    assert (found.chosen, found.falls_back) == ("none", True)
    assert found.reasons


def test_it_is_not_for_mistakes_of_the_policy(project: Path) -> None:
    with pytest.raises(PolicyError):
        sandbox(project, "filesystem:read:/no/such/path", fallback="unconfined").run(["true"])
    with pytest.raises(PolicyError, match="magic"):
        sandbox(project, backend="magic", fallback="unconfined").run(["true"])


def test_it_is_not_for_a_sandbox_that_could_not_be_set_up(project: Path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise SetupError("mounts", "the sandbox could not be set up", why="it broke", fix="mend it")

    monkeypatch.setattr("corral.pipeline.planned_run.Run.run", fail)
    with pytest.raises(SetupError, match="it broke"):
        sandbox(project, fallback="unconfined").run(["true"])


def test_another_word_is_a_mistake(project: Path) -> None:
    with pytest.raises(PolicyError) as refused:
        sandbox(project, fallback="maybe")
    assert refused.value.code == "unknown-fallback"


def test_the_users_own_file_can_say_it(project: Path) -> None:
    say(project, '[sandbox]\nfallback = "unconfined"\nnetwork = "full"\ndeny_domains = ["example.com"]\n')
    configuration = load(project)

    assert (configuration.fallback, configuration.fallback_withheld) == ("unconfined", "")
    with pytest.warns(UnconfinedWarning):
        assert configuration.sandbox().run(["true"]).enforcement.fallback


@pytest.mark.parametrize("trusted", [False, True])
def test_a_projects_file_cannot_however_much_it_is_trusted(project: Path, trusted: bool) -> None:
    (project / "corral.toml").write_text('[sandbox]\nfallback = "unconfined"\n')
    if trusted:
        trust(find_project_files(str(project))[0])
    configuration = load(project)

    assert configuration.fallback == "refuse"
    assert [cut.setting.key.name for cut in configuration.cuts] == ["fallback"]
    assert configuration.cuts[0].render().endswith((_ONLY, "it would widen your own policy"))


_ONLY = "only your own configuration can say it"


def test_a_projects_file_cannot_make_a_policy_unenforceable_to_get_out(project: Path) -> None:
    """It denies one host of an open network, which nobody enforces: the next command would run unconfined."""
    say(project, '[sandbox]\nfallback = "unconfined"\nnetwork = "full"\n')
    (project / "corral.toml").write_text('[sandbox]\ndeny_domains = ["example.com"]\n')
    configuration = load(project)

    assert (configuration.fallback, "corral.toml" in configuration.fallback_withheld) == ("refuse", True)
    with pytest.raises(UnenforceableError):
        configuration.sandbox().run(["true"])


def test_a_projects_file_may_ask_for_a_refusal(project: Path) -> None:
    say(project, '[sandbox]\nfallback = "unconfined"\n')
    (project / "corral.toml").write_text('[sandbox]\nfallback = "refuse"\n')
    trust(find_project_files(str(project))[0])

    assert load(project).fallback == "refuse"


def test_the_environment_cannot(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_FALLBACK", "unconfined")
    with pytest.raises(ConfigurationError, match="only your own file can say"):
        load(project)

    monkeypatch.setenv("CORRAL_FALLBACK", "refuse")
    say(project, '[sandbox]\nfallback = "unconfined"\n')
    assert load(project).fallback == "refuse"
