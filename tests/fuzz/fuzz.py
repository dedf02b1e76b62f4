"""Fuzz one target for some seconds: `fuzz.py capability --seconds 60 [--record]`. Needs the extra `fuzz`.

The recorded corpus is where it begins. An input that breaks a promise is shown as a line for the corpus, and
the exit status is 1. With --record the corpus gets the fewest inputs that reach all that was reached anew.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
MOST_BYTES = 400
#: One input may take this long.
MOST_SECONDS = 10


def main() -> int:
    """Fuzz in a process of its own, which libFuzzer ends as it likes."""
    if sys.argv[1] == "--inside":
        return _inside(sys.argv[2], sys.argv[3:])
    import targets

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=targets.TARGETS)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="corral-fuzz-") as scratch:
        inputs, corpus, broken = (Path(scratch, name) for name in ("inputs", "corpus", "broken"))
        for directory in (inputs, corpus, broken):
            directory.mkdir()
        for data in targets.read_corpus(asked.target):
            (corpus / hashlib.sha256(data).hexdigest()).write_bytes(data)
        limits = (f"-max_total_time={asked.seconds}", f"-artifact_prefix={broken}/")
        status = _run(asked.target, *limits, str(inputs), str(corpus))
        for path in sorted(broken.iterdir()):
            print(f"{path.name}: {targets.to_line(path.read_bytes())}")
        if asked.record and not status:
            status = _run(asked.target, "-merge=1", str(corpus), str(inputs))
            targets.write_corpus(asked.target, (path.read_bytes() for path in corpus.iterdir()))
    return 1 if status else 0


def _run(target: str, *arguments: str) -> int:
    common = (f"-dict={HERE / 'words.dict'}", f"-max_len={MOST_BYTES}", f"-timeout={MOST_SECONDS}")
    command = [sys.executable, __file__, "--inside", target, *common, "-print_final_stats=1", *arguments]
    return subprocess.run(command, check=False).returncode


def _inside(target: str, arguments: list[str]) -> int:
    import atheris

    with atheris.instrument_imports(include=["corral", "tomllib", "json"]):
        import targets

        for data in targets.read_corpus(target):
            targets.TARGETS[target](data)  # imports what is only imported when it is needed
    # To merge, libFuzzer starts itself again: its name is a line for the shell.
    itself = shlex.join([sys.executable, *sys.argv[:3]])
    atheris.Setup([itself, *arguments], targets.TARGETS[target])
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
