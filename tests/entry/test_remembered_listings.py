"""Many repositories cost no Python, and what is remembered of them hides nothing that a command has left."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from support.entry_home import NATIVE, Entry

MANY = 24
#: What a command leaves, and what must be gone afterwards. Times that can be set are set back.
TRAPS = {
    "a repository": (
        "git init -q r03/new; echo x > r03/new/.git/hooks/pre-commit; chmod +x r03/new/.git/hooks/pre-commit",
        "r03/new/.git/hooks/pre-commit",
    ),
    "a link that git would write to": (
        "touch -r r05/d same; ln -s /etc/passwd r05/d/0001-x.patch; touch -r same r05/d; rm same",
        "r05/d/0001-x.patch",
    ),
    "a pipe that git would read": ("mkfifo r07/d/.gitignore", "r07/d/.gitignore"),
    "alternates": ("echo /tmp > r09/.git/objects/info/alternates", "r09/.git/objects/info/alternates"),
    "a link in a git directory": ("ln -s / r11/.git/refs/tags/x", "r11/.git/refs/tags/x"),
    "a reference that is none": ("echo '; evil' > r13/.git/refs/heads/main", "r13/.git/refs/heads/main"),
    "a link in an index": ("mv r15/d r15/e; ln -s /etc r15/d", "r15/d"),
}
KEEP_TIMES = "touch -r . keep; {line}; find . -xdev -newer keep -type d -exec touch -r keep {{}} +; rm keep"


@pytest.fixture
def many(entry: Entry) -> Entry:
    """With a stored plan, and with listings that the second run has remembered."""
    first = entry.workspace / "r00"
    (first / "d").mkdir(parents=True)
    (first / "d/x").write_text("x\n")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one")):
        entry.git(*words, where=first)
    for number in range(1, MANY):
        shutil.copytree(first, entry.workspace / f"r{number:02}", symlinks=True)
    time.sleep(0.05)  # what was made a moment ago may change once more without another time
    entry.warm_up()
    return entry


def _memory(entry: Entry) -> Path:
    found = [path for path in entry.stored.iterdir() if path.suffix == ".seen"]
    assert len(found) == 1
    return found[0]


def test_what_has_not_changed_is_not_listed_again(many) -> None:
    """Nothing new is written down either, and a command that changes little changes little of that."""
    before = _memory(many).read_bytes()

    assert many.run("-c", "echo more > r01/d/x; git -C r01 commit -qam two")[0] != "python"
    assert many.run("--", "true")[:2] == (NATIVE, 0)
    assert _memory(many).read_bytes() == before


def test_what_other_rules_have_judged_is_judged_again(many) -> None:
    memory = _memory(many)
    before = memory.read_bytes()
    memory.write_bytes(before.replace(b"corral listings ", b"corral guesses  ", 1))

    assert many.run("--", "true")[:2] == (NATIVE, 0)
    assert memory.read_bytes()[:40] == before[:40]  # written anew, by these rules


def _check_gone(many: Entry, names: tuple[str, ...]) -> None:
    lines, places = zip(*(TRAPS[name] for name in names), strict=True)
    before = {place: os.path.lexists(many.workspace / place) for place in places}
    way, _, out, _ = many.run("-c", KEEP_TIMES.format(line="; ".join((*lines, "echo alive"))))

    assert (way, out) == ("continued", "alive\n")
    assert not [place for place in places if os.path.islink(many.workspace / place)]
    left = [place for place in places if not before[place] and os.path.lexists(many.workspace / place)]
    assert left == []


def test_what_is_remembered_hides_nothing(many) -> None:
    assert _memory(many).stat().st_size > 0  # the control: there is something to go by

    _check_gone(many, tuple(TRAPS))


_ALONE = "a link that git would write to"  # where any of them is seen, Python sees all


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name != _ALONE)) for name in TRAPS]
)
def test_each_is_seen_for_itself(many, name) -> None:
    _check_gone(many, (name,))
