"""A denied path that the host makes after a sandbox was planned is denied to what starts then."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.model.errors import PolicyError
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox

SECRET = "the later secret\n"


@pytest.fixture(params=["{data}/secret", "{data}/s?cret", "**/secr*"])
def sandbox(tmp_path: Path, request: pytest.FixtureRequest) -> Sandbox:
    """What lies in `data` can be read, but for `secret`, of which there is nothing yet."""
    for name in ("work", "data"):
        (tmp_path / name).mkdir()
    data = tmp_path / "data"
    denial = f"filesystem:deny:{request.param.format(data=data)}"
    policy = build_policy("moderate", (f"filesystem:read:{data}", denial))
    return Sandbox(policy, backend="native", workspace=tmp_path / "work")


def test_by_a_sandbox_that_is_used_again(sandbox: Sandbox, tmp_path: Path) -> None:
    assert sandbox.run(["ls", str(tmp_path / "data")]).ok

    (tmp_path / "data" / "secret").write_text(SECRET)
    (tmp_path / "data" / "control").write_text(SECRET)

    assert sandbox.run(["cat", str(tmp_path / "data" / "control")]).stdout == SECRET
    assert sandbox.run(["cat", str(tmp_path / "data" / "secret")]).stdout == ""


def test_by_a_session(sandbox: Sandbox, tmp_path: Path) -> None:
    with sandbox.session() as session:
        assert session.run(["ls", str(tmp_path / "data")]).ok

        (tmp_path / "data" / "secret").write_text(SECRET)
        (tmp_path / "data" / "control").write_text(SECRET)

        assert session.run(["cat", str(tmp_path / "data" / "control")]).stdout == SECRET
        assert session.run(["cat", str(tmp_path / "data" / "secret")]).stdout == ""


def test_by_who_reads_files_of_a_session(sandbox: Sandbox, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with sandbox.session() as session:
        assert session.run(["true"]).ok
        (data / "secret").write_text(SECRET)
        (data / "control").write_text(SECRET)

        assert session.read_file(data / "control") == SECRET.encode()
        with pytest.raises((OSError, PolicyError)):
            session.read_file(data / "secret")
        with pytest.raises((OSError, PolicyError)):
            session.download(data / "secret", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_by_who_takes_the_directory_out_of_a_session(sandbox: Sandbox, tmp_path: Path) -> None:
    """Root could open what hides it; an empty file of that name would look like all there is."""
    data = tmp_path / "data"
    (data / "secret").write_text(SECRET)
    with sandbox.session() as session:
        with pytest.raises((OSError, PolicyError)):
            session.download(data, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_in_the_workspace_by_a_session(tmp_path: Path) -> None:
    """What the host makes there between two commands is its own, and not removed."""
    policy = build_policy("moderate", ("filesystem:deny:*.pem",))
    with Sandbox(policy, backend="native", workspace=tmp_path).session() as session:
        assert session.run(["mkdir", "-p", "made/by/commands"]).ok

        (tmp_path / "made/by/commands/key.pem").write_text(SECRET)
        (tmp_path / "made/by/commands/control").write_text(SECRET)

        assert session.run(["cat", "made/by/commands/control"]).stdout == SECRET
        assert session.run(["cat", "made/by/commands/key.pem"]).stdout == ""
        with pytest.raises(PolicyError, match="protected there"):
            session.write_file("made/third.pem", b"planted")
        left = session.run("echo planted > made/other.pem; mv made gone")

    assert [violation.subject for violation in left.violations] == [str(tmp_path / "made/other.pem")]
    assert (tmp_path / "made/by/commands/key.pem").read_text() == SECRET
    assert not (tmp_path / "made/other.pem").exists()
