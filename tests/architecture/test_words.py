"""One word, one thing: classes have names of their own, and the glossary says what they mean."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from sources import PACKAGE, ROOT, nodes, python_files, shown

import corral

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

#: Metaphors. The glossary has the words of the field for the same things.
OLD_WORDS = frozenset(
    {
        *("border", "crossing", "errand", "farewell", "frontier", "ground", "lookout"),
        *("passage", "recall", "reins", "wish", "witness"),
    }
)
#: "Attempt" is a word of its own for a try at something, as of an address; a run is no attempt.
OLD_CLASSES = frozenset({"Attempt", "Kept"})
#: What nobody should have to look for.
EXPECTED = frozenset(
    {
        *(
            "backend",
            "capability",
            "connection",
            "feature",
            "front",
            "gateway",
            "guard",
            "job",
            "kept sandbox",
        ),
        *(
            "launch",
            "launcher",
            "lifeline",
            "mask",
            "mechanism",
            "pin",
            "plan",
            "policy",
            "pool",
            "private area",
        ),
        *(
            "probe",
            "quarantine",
            "record",
            "resolved policy",
            "sandbox network",
            "scratch",
            "session",
            "shield",
        ),
        *("spec", "status pipe", "supervisor", "tier", "waiver", "watched name"),
    }
)
#: `aio.Session` is `corral.Session` for asyncio: the same thing, and its users import one or the other.
NAMESAKES = PACKAGE / "aio"
_ROW = re.compile(r"^\| ([a-z ]+) \| (.+) \| (`.+`) \|$", re.MULTILINE)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _glossary() -> list[tuple[str, str, str]]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return _ROW.findall(text.partition("\n## Glossary\n")[2].partition("\n## ")[0])


def _words(identifier: str) -> set[str]:
    """`_MOST_BORDERS` and `BorderHooks` both have the word border."""
    parts = {part.lower() for part in _PARTS.findall(identifier)}
    return parts | {part.removesuffix("s") for part in parts}


def _classes(path: Path) -> list[str]:
    names = (node.name for node in nodes(path) if isinstance(node, ast.ClassDef))
    return [name for name in names if not name.startswith("_")]


def _identifiers(tree: tuple[ast.AST, ...]) -> set[str]:
    found: set[str] = set()
    for node in tree:
        for field in ("id", "attr", "name", "arg", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                found.add(value)
    return found


def test_each_word_of_the_glossary_is_there_once_and_in_order() -> None:
    words = [word for word, _, _ in _glossary()]

    assert words == sorted(set(words))
    assert EXPECTED - set(words) == set()


def test_each_class_of_the_glossary_is_said_by_one_word() -> None:
    """That the code exists is checked for all of CONTRIBUTING.md, in test_documents.py."""
    places = [place for _, _, where in _glossary() for place in where.split(", ")]

    assert [place for place in places if places.count(place) > 1] == []


def test_an_old_word_is_noticed() -> None:
    assert _words("_MOST_ERRAND_BYTES") & OLD_WORDS and _words("_borders") & OLD_WORDS
    assert not _words("background") & OLD_WORDS and not _words("Wishart") & OLD_WORDS


def test_no_name_in_the_code_is_of_the_old_vocabulary() -> None:
    old = {
        f"{shown(path)}: {name}"
        for path in python_files()
        for name in (*_identifiers(nodes(path)), path.stem, path.parent.name)
        if _words(name) & OLD_WORDS or name in OLD_CLASSES
    }

    assert old == set()


def test_no_two_classes_have_one_name() -> None:
    """A private class is exempt: it is read in its own module only, where its name is short."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in python_files():
        if not path.is_relative_to(NAMESAKES):
            for name in _classes(path):
                places[name].append(shown(path))

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_a_namesake_for_asyncio_is_one_of_a_public_noun() -> None:
    own = {name for path in NAMESAKES.glob("*.py") for name in _classes(path)}
    others = {
        name for path in python_files() if not path.is_relative_to(NAMESAKES) for name in _classes(path)
    }

    assert own & others - set(corral.__all__) == set()
