"""A denied path that the host makes after a sandbox was planned is denied to what starts then."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.policy.compose import build_policy
from corral.sandbox import Sandbox

SECRET = "the later secret\n"


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """What lies in `data` can be read, but for `secret`, of which there is nothing yet."""
    for name in ("work", "data"):
        (tmp_path / name).mkdir()
    data = tmp_path / "data"
    policy = build_policy("moderate", (f"filesystem:read:{data}", f"filesystem:deny:{data}/secret"))
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
