"""What `make test` runs of the suite, and what only `make test-all` does (`--all`).

`make test` has ten minutes, and tries every guarantee on every backend. What it leaves out:

- tests that carry the mark `thorough`: they take long, and what they add is rare;
- on backends that are not in WHOLE, all but the first proof of a guarantee, the first attack on it, and the
  first case of any other test. The launcher, the filter and the plan are the same everywhere.

Whoever names a file or selects by a word (`-k`) gets all of it.
"""

from __future__ import annotations

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    Key = tuple[str, ...]

#: How many tests were left out, and the name under which a worker tells it.
left_key = pytest.StashKey[int]()
LEFT = "corral_left"

#: Quick to start, and everything in them is corral's own.
WHOLE = frozenset({"native", "native-session", "landlock", "leaky"})
#: Those in which a guarantee is proved, or a test repeated, once.
ONCE = frozenset({"bubblewrap", "firejail", "docker", "podman", "none"})
#: Directories whose tests start nothing.
QUICK = frozenset({"unit", "property", "golden", "architecture", "fuzz"})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        from support.scheduling import order

        order(items)
    if config.getoption("--no-sandbox"):
        items[:] = [item for item in items if not item.get_closest_marker("starts_sandboxes")]
    if config.getoption("--all") or is_narrowed(config):
        return
    seen: set[Key] = set()
    kept, left = [], []
    for item in items:
        (left if _is_left(item, seen) else kept).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept
    config.stash[left_key] = len(left)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells how many it has left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[LEFT] = session.config.stash.get(left_key, 0)


def is_narrowed(config: pytest.Config) -> bool:
    """Whether somebody looks at some tests only."""
    return bool(config.getoption("keyword")) or any(".py" in argument for argument in config.args)


def _is_left(item: pytest.Item, seen: set[Key]) -> bool:
    if item.get_closest_marker("thorough"):
        return True
    key = _group(item)
    if key is None:
        return False
    is_repeated = key in seen
    seen.add(key)
    return is_repeated


def _group(item: pytest.Item) -> Key | None:
    """What one test is enough for; None where each counts."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    if item.path.relative_to(item.config.rootpath).parts[1] in QUICK:
        return None
    proof = item.get_closest_marker("proves")
    if proof is not None and "backend" in params:
        where, what = params["backend"], proof.args[0].value
    elif "probe" in params:
        where = params.get("name") or f"{params.get('where', 'none')} kept"
        what = f"attack on {params['probe'].feature.value}"
    else:
        named = [value for value in params.values() if isinstance(value, str) and value in ONCE]
        return (item.nodeid.partition("[")[0], *named) if named else None
    return None if where in WHOLE else (where, what)
