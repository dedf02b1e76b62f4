"""Files of a scratch directory: with the mode that was asked for, and gone afterwards."""

from __future__ import annotations

import stat

from corral.model.launch import Launch
from corral.model.plan import PrivateFile
from corral.runtime.scratch import Scratch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def test_files_and_directories_have_their_modes_and_vanish(tmp_path: Path) -> None:
    scratch = tmp_path / "run"
    files = (
        PrivateFile(f"{scratch}/plain", b"text"),
        PrivateFile(f"{scratch}/nothing", b"", 0),
        PrivateFile(f"{scratch}/nothing.d", b"", 0, is_directory=True),
    )
    launch = Launch("docker", ("x",), (), {}, scratch=str(scratch), scratch_files=files)

    with Scratch(launch):
        modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in scratch.iterdir()}
        assert modes == {"plain": 0o600, "nothing": 0, "nothing.d": 0}
        assert (scratch / "plain").read_bytes() == b"text"
        assert (scratch / "nothing.d").is_dir()
        (scratch / "more").mkdir()  # whatever else came to be there goes as well
    assert not scratch.exists()
