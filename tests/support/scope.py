"""What `make test` runs of the suite, and what only `make test-all` does (`--all`).

`make test` has ten minutes, and tries every guarantee on every backend. What it leaves out:

- tests that carry the mark `thorough`: they take long, and what they add is rare;
- on backends that are not in WHOLE, all but the first proof of a guarantee, the first attack on it, and the
  first case of any other test; attacks in containers, and all but the first test of a file about connections
  there. Launcher, filter, plan and gateway are the same everywhere;
- of tests that run twice (root and an ordinary user, a plain build and one with sanitizers, docker and podman
  where what is tried is corral's own) one of both in turn, and of those that run four times two that have
  everything.

A run that names a file or selects with `-k` leaves out nothing. `--first-proofs` tries each guarantee once
on every backend, as an emulated machine does, where everything takes long.
"""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Key = tuple[str, ...]

#: How many tests were left out, and the name under which a worker tells it.
left_key = pytest.StashKey[int]()
LEFT = "corral_left"

#: Quick to start, and everything in them is corral's own.
WHOLE = frozenset({"native"})
ENGINES = frozenset({"docker", "podman"})
#: Those in which a guarantee is proved, or a test repeated, once; "leaky" is where it must fail.
ONCE = frozenset({"landlock", "bubblewrap", "firejail", "seatbelt", "none", "leaky", *ENGINES})
#: Directories whose tests start nothing.
QUICK = frozenset({"unit", "property", "golden", "architecture", "fuzz"})
#: Words in the names of tests that run twice or four times, by directory, or by file.
_OF_USERS = r"plain|checked|root|ordinary|own|native|landlock|cgroup|supervisor"
_ENGINE = re.compile(r"\b(?:docker|podman)\b")
_VARIANTS = {
    **dict.fromkeys(("launcher", "limits", "compiled", "named"), re.compile(rf"\b(?:{_OF_USERS})\b")),
    **dict.fromkeys(("network", "test_runs_in_containers", "test_what_is_said_of_containers"), _ENGINE),
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        from support.scheduling import order

        order(items)
    if config.getoption("--no-sandbox"):
        items[:] = [item for item in items if not item.get_closest_marker("starts_sandboxes")]
    if config.getoption("--first-proofs"):
        left = {*_repeated(items, whole=frozenset())}
    elif config.getoption("--all") or is_narrowed(config):
        return
    else:
        left = {*_repeated(items, WHOLE), *_twins(items)}
        left.update(item for item in items if item.get_closest_marker("thorough"))
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    config.stash[left_key] = len(left)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells how many it has left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[LEFT] = session.config.stash.get(left_key, 0)


def is_narrowed(config: pytest.Config) -> bool:
    """Whether somebody looks at some tests only."""
    return bool(config.getoption("keyword")) or any(".py" in argument for argument in config.args)


def _repeated(items: Iterable[pytest.Item], whole: frozenset[str]) -> Iterable[pytest.Item]:
    """What is tried often enough without it; on backends in `whole` nothing is."""
    seen: set[Key] = set()
    for item in items:
        key = _group(item, whole)
        if key is not None and (key in seen or (key[0] in ENGINES and key[1].startswith("attack"))):
            yield item
        elif key is not None:
            seen.add(key)


def _group(item: pytest.Item, whole: frozenset[str]) -> Key | None:
    """What one test is enough for; None where each counts."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    if _directory(item) in QUICK:
        return None
    proof = item.get_closest_marker("proves")
    if proof is not None and "backend" in params:
        where, what = params["backend"], proof.args[0].value
    elif "probe" in params:
        where = params.get("name") or f"{params.get('where', 'none')} kept"
        what = f"attack on {params['probe'].feature.value}"
    else:
        named = [value for value in params.values() if isinstance(value, str) and value in ONCE]
        # The gateway is the same behind every front, and containers take seconds: one test of a file will do.
        is_far = _directory(item) == "network" and not ENGINES.isdisjoint(named)
        return (*named, item.nodeid.partition("::" if is_far else "[")[0]) if named else None
    return None if where in whole else (where, what)


def _twins(items: Iterable[pytest.Item]) -> Iterable[pytest.Item]:
    """Of two alike one in turn; of four, such as plain and checked, root and ordinary, a diagonal in turn."""
    alike: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        words = _VARIANTS.get(_directory(item)) or _VARIANTS.get(item.path.stem)
        if words is not None:
            name, bracket, case = item.nodeid.partition("[")
            alike[name + bracket + words.sub("*", case)].append(item)
    for number, group in enumerate(alike.values()):
        if len(group) == 2:
            yield group[number % 2]
        elif len(group) == 4:
            yield from (group[1:3] if number % 2 else (group[0], group[3]))


def _directory(item: pytest.Item) -> str:
    """Below `tests`; empty where it is none of the suite's."""
    return item.nodeid.split("/")[1] if item.nodeid.startswith("tests/") else ""
