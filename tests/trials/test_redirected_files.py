"""Files of the workspace as stdin and stdout of a command on trial: they have no layer over them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

TRY = (sys.executable, "-m", "corral", "try", "--")


def _try(work: Path, script: str, **streams: object) -> None:
    environment = {n: v for n, v in os.environ.items() if not n.startswith("CORRAL_TEST_")}
    command = (*TRY, "sh", "-c", script)
    subprocess.run(command, cwd=work, env=environment, timeout=60, check=False, **streams)  # type: ignore[call-overload]


@pytest.mark.parametrize("number", [0, 1])
def test_the_file_behind_a_descriptor_keeps_its_mode_and_content(work: Path, number: int) -> None:
    """The command reads or prints through it, and can do nothing else to it."""
    (work / "README").chmod(0o600)
    handle = os.open(work / "README", os.O_WRONLY | os.O_APPEND if number else os.O_RDONLY)
    script = f"echo printed; chmod 777 /proc/self/fd/{number}; echo forged > /proc/self/fd/0"
    try:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        _try(work, script, **{**streams, ("stdin", "stdout")[number]: handle})
    finally:
        os.close(handle)

    assert (work / "README").stat().st_mode & 0o777 == 0o600
    assert (work / "README").read_text() == "read me\n" + "printed\n" * number
