"""Mutants of the decision about connections: each of its branches."""

from __future__ import annotations

from branches import branch_mutants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mutant import Mutant

_T = ("tests/unit/model/test_connection.py",)
EQUIVALENT = {
    "connection._indexed: self._index is None always": "only slower: the index is made anew each time",
    "connection.__init__: rule.host.startswith('*') always": "only slower: every rule is compared once more",
}


def connection_mutants() -> Iterator[Mutant]:
    yield from branch_mutants(
        "connection",
        "src/corral/model/network/connection.py",
        "net.domains and net.ports",
        {"": _T},
        EQUIVALENT,
    )
