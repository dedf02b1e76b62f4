"""Which client works where: the table in docs/network.md, made by trying. Some minutes.

PYTHONPATH=tests python -m support.net_table [BACKEND ...]
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from support.engines import ENGINES
from support.net_authority import Authority
from support.net_clients import CLIENTS, cells
from support.net_runs import EVERY, Place, Site, why_not
from support.user_engines import start_engine, stop_engines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOCUMENT = Path(__file__).parents[2] / "docs" / "network.md"
_BEGIN, _END = "<!-- clients: tests/support/net_table.py -->\n", "<!-- end of clients -->\n"
_WORDS = {True: "yes", False: "no", None: "–"}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def read_table() -> dict[tuple[str, str], str]:
    """What the document says, by backend and client."""
    if _BEGIN + _END in DOCUMENT.read_text():
        return {}
    head, _, *rows = DOCUMENT.read_text().partition(_BEGIN)[2].partition(_END)[0].strip().splitlines()
    backends = [word.strip(" `") for word in head.strip("|").split("|")][1:]
    found = {}
    for row in rows:
        client, *words = (word.strip() for word in row.strip("|").split("|"))
        found |= {(backend, client): word for backend, word in zip(backends, words, strict=True)}
    return found


def word_for(worked: bool | None) -> str:
    return _WORDS[worked]


def _write(columns: dict[str, dict[str, bool | None]]) -> None:
    table = read_table()
    for backend, column in columns.items():
        table |= {(backend, client): word_for(worked) for client, worked in column.items()}
    lines = [f"| client | {' | '.join(f'`{name}`' for name in EVERY)} |", "|---" * (len(EVERY) + 1) + "|"]
    for client in CLIENTS:
        words = (table.get((backend, client.name), "?") for backend in EVERY)
        lines.append(f"| {client.name} | {' | '.join(words)} |")
    before, _, rest = DOCUMENT.read_text().partition(_BEGIN)
    DOCUMENT.write_text(before + _BEGIN + "\n".join(lines) + "\n" + _END + rest.partition(_END)[2])


def _maker(folder: Path, authority: Authority) -> Callable[[str], Iterator[Place]]:
    """Makes one place for a backend, with servers of its own: a fixture's work, without a fixture."""

    def make(backend: str) -> Iterator[Place]:
        work = Path(tempfile.mkdtemp(dir=folder))
        work.chmod(0o755)
        for site in Site(authority, Path(tempfile.mkdtemp(dir=folder))).serve():
            yield Place(backend, work, site)

    return make


def main(backends: list[str]) -> None:
    for name in tuple(os.environ):
        if name.lower().endswith("_proxy"):
            del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="corral-table-") as top:
        os.chmod(top, 0o755)
        authority = Authority(Path(top))
        columns = {}
        for backend in backends or EVERY:
            os.environ["PATH"] = _PATH
            if reason := why_not(backend):
                sys.stderr.write(f"{reason}\n")
                continue
            if backend in ENGINES:
                os.environ["PATH"] = f"{start_engine(backend)}{os.pathsep}{_PATH}"
            columns[backend] = cells(backend, _maker(Path(top), authority))
    _write(columns)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    finally:
        stop_engines()
