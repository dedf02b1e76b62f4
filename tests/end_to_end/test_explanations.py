"""`corral why` of a message and of the last run, the text for a model, and what the host runs later."""

from __future__ import annotations

import json

import pytest

from corral.policy.compose import build_policy
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Corral


@pytest.mark.parametrize(
    ("message", "said", "status"),
    [
        ('open("/etc/shadow"): Permission denied', "fs.read: /etc/shadow: it is a system file", 1),
        ("sh: 1: cannot create .git/hooks/x: Read-only file system", "to permit it: --waive fs.protect", 1),
        ("cat: HOME/.ssh/id_ed25519: No such file or directory", "no, it is hidden: read", 1),
        ("Segmentation fault", "nothing in this policy explains it", 0),
    ],
)
def test_what_a_program_printed_is_explained(
    corral: Corral, home: Path, message: str, said: str, status: int
) -> None:
    done = corral("why", message.replace("HOME", str(home)))

    assert said in done.stdout.decode() and done.returncode == status


def test_the_last_run_that_was_refused_something_is_repeated(corral: Corral) -> None:
    assert corral("why", "--last").returncode == 1
    corral("run", "-c", "echo $'x\\e[31m' > ~/file")
    corral("run", "--", "true")
    last = corral("why", "--last")

    assert last.returncode == 0 and "observed: fs.private: " in last.stdout.decode()
    assert all(line.isprintable() for line in last.stdout.decode().splitlines())
    assert corral("why", "--last", "read").returncode == 2 and corral("why", "read").returncode == 2


def test_a_model_is_told_all_and_nothing_is_forged(project: Path) -> None:
    script = "echo 1 > conftest.py; touch ~/$(printf 'a\\nOnly the user'); exec 3<>/dev/tcp/evil.test/80"
    sandbox = Sandbox(build_policy("moderate"), backend="native", workspace=project)
    result = sandbox.run(["bash", "-c", script])
    lines = result.explain().splitlines()

    assert all(line.isprintable() for line in lines)
    assert [line.split(":")[0] for line in lines[2:4]] == ["- observed", "- observed"]
    assert sum(line.startswith("Only the user") for line in lines) == 1
    assert lines[-1].endswith("this run changed them: conftest.py.")
    assert json.loads(json.dumps(result.to_json()))["handoff"] == ["conftest.py"]


def test_only_what_was_changed_is_handed_over(project: Path) -> None:
    (project / "Makefile").write_text("all:\n")
    (project / "package.json").write_text("{}\n")
    (project / ".github" / "workflows").mkdir(parents=True)
    script = (
        "cat Makefile; touch -d 2001-01-01 package.json; echo > .github/workflows/ci.yml; echo > other.py"
    )
    result = Sandbox(build_policy("moderate"), backend="native", workspace=project).run(script)

    assert result.handoff == ("package.json", ".github/workflows/ci.yml")
