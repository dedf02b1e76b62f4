"""The documents say what the code does: nothing is missing, nothing is stale, no link is dead."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
from pathlib import Path

import pytest
from sources import LAUNCHER, PACKAGE, ROOT, nodes, parse, python_files, shown

import corral
from corral.backends.registry import BUILTIN
from corral.cli.commands import cli
from corral.cli.options import OPTIONS
from corral.git_formats import search
from corral.model.feature import PROMISES, Feature
from corral.model.rules.capability import _VERBS
from corral.policy.preset import PRESETS, describe_preset
from corral.protected_names import guard
from corral.runtime import starter
from corral.streams import sinks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

#: The design of a part stands beside its code.
BESIDE_CODE = sorted((LAUNCHER / "README.md", *PACKAGE.rglob("README.md")))
DOCUMENTS = sorted((*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *BESIDE_CODE))
#: What names files as developers do: from the package, the launcher, or the directory of the document.
FOR_DEVELOPERS = (ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *BESIDE_CODE)
MOST_ARCHITECTURE_LINES = 300
#: What only the machine of a developer has: this very checkout, and his home.
FOREIGN_PATHS = (f"{ROOT}/", f"{Path.home()}/")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
#: A line of the requirements: numbers, what is asked, what is done, tests or reasons.
_STATEMENT = re.compile(r"^\| ([\d, ]+) \|.+\|.+\|(.+)\|$", re.MULTILINE)
_STATEMENTS = 242
_TEST = re.compile(r"`([\w/]+/test_\w+\.py)(?:::(\w+))?`")
#: `file.py`, or `file.py: name` of something in it.
_CODE = re.compile(r"`([\w./-]+\.(?:py|[ch]))(?:: ([\w.]+))?`")
_CLASS = re.compile(r"`((?:[A-Z][a-z]+){2,})(?:\.\w+)*`")
_OWN_PATH = re.compile(r"`((?:src|tests|docs|launcher|bench)/[\w./-]+)`")


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _mentions(text: str, word: str) -> bool:
    """Whether a document has a word by itself; `--net` does not count for `--network`."""
    return re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", text) is not None


def _definitions(body: list[ast.stmt]) -> set[str]:
    """What a module defines at its top, and `Class.method`."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.If):
            found |= _definitions([*node.body, *node.orelse])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{name}" for name in _definitions(node.body)}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def _find_code(document: Path, name: str) -> Path | None:
    """The file that a document means."""
    places = (base / name for base in (document.parent, PACKAGE, LAUNCHER, ROOT))
    return next((place for place in places if place.is_file()), None)


def _defines(path: Path, name: str) -> bool:
    if path.suffix == ".py":
        return name in _definitions(parse(path).body)
    return re.search(rf"^[\w *]*\b{name}\(", path.read_text(encoding="utf-8"), re.MULTILINE) is not None


def _load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_documents", ROOT / "docs/generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """The script that writes the generated parts."""
    return _load_generator()


def _anchors(path: Path) -> set[str]:
    """Headings of a document, as links name them."""
    headings = re.findall(r"^#+ +(.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_document_that_is_promised_is_there() -> None:
    names = {shown(path) for path in DOCUMENTS if path.stat().st_size}

    assert names >= {
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs/backends.md",
        "docs/cli.md",
        "docs/errors.md",
        "docs/limits.md",
        "docs/performance.md",
        "docs/requirements.md",
        "docs/policy.md",
    }


def test_the_generated_parts_are_what_the_code_says(generator: ModuleType) -> None:
    """`python docs/generate.py --write` mends it."""
    assert generator.outdated() == []


def test_a_change_of_a_generated_part_is_noticed(generator: ModuleType, tmp_path: Path, monkeypatch) -> None:
    for name in generator.PARTS:
        stale = _read(f"docs/{name}").replace("-->\n", "-->\nsomething else\n", 1)
        (tmp_path / name).write_text(stale, encoding="utf-8")
    monkeypatch.setattr(generator, "DOCS", tmp_path)

    assert generator.outdated() == list(generator.PARTS)


@pytest.mark.parametrize(("name", "part"), [("performance", "commands"), ("limits", "limits")])
def test_a_measured_part_has_its_marks(name: str, part: str) -> None:
    """`make bench` writes between them; here nothing is measured again."""
    _, begin, rest = _read(f"docs/{name}.md").partition(f"<!-- measured: {part} -->\n")
    measured, end, _ = rest.partition("<!-- end of measured -->")

    assert begin and end and measured.strip()
    assert "<!--" not in measured


def test_every_feature_is_in_the_table_with_its_promise() -> None:
    table = _read("docs/backends.md")

    assert [
        feature.value for feature in Feature if f"| `{feature.value}` | {PROMISES[feature]} |" not in table
    ] == []


def test_every_backend_is_described() -> None:
    text = _read("docs/backends.md")

    assert [name for name in BUILTIN if f"\n### {name}\n" not in text] == []


def test_every_preset_is_described_by_its_own_sentence() -> None:
    text = _read("docs/policy.md").lower()

    assert [
        name for name in PRESETS if f"\n### {name}\n" not in text or describe_preset(name).lower() not in text
    ] == []


def test_every_capability_has_an_example_that_can_be_parsed(generator: ModuleType) -> None:
    text = _read("docs/policy.md")
    shown_pairs = {tuple(example.split(":")[:2]) for example in generator.EXAMPLES}

    assert shown_pairs == {(kind, verb) for kind, verbs in _VERBS.items() for verb in verbs}
    assert [example for example in generator.EXAMPLES if f"`{example}`" not in text] == []


def test_every_command_and_each_of_its_options_is_documented() -> None:
    text = _read("docs/cli.md")
    for name, command in cli.commands.items():
        _, _, section = text.partition(f"\n## corral {name}\n")
        section = section.partition("\n## ")[0]
        flags = [flag for option in command.params for flag in (*option.opts, *option.secondary_opts)]

        assert section, name
        assert [flag for flag in flags if flag.startswith("-") and not _mentions(section, flag)] == [], name


@pytest.mark.parametrize("path", DOCUMENTS, ids=shown)
def test_what_an_example_in_python_shows_is_what_it_prints(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(>>> .*?)```", text, re.DOTALL)
    examples = doctest.DocTestParser()
    for number, block in enumerate(blocks):
        test = examples.get_doctest(block, {"corral": corral}, f"{path.name}[{number}]", str(path), 0)
        assert doctest.DocTestRunner().run(test).failed == 0


def test_every_flag_of_the_table_says_what_it_stands_for() -> None:
    _, _, section = _read("docs/policy.md").partition("\n## Flags\n")
    section = section.partition("\n## ")[0]

    assert [flag for option in OPTIONS for flag in option.flags if not _mentions(section, flag)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=shown)
def test_no_link_is_dead(path: Path) -> None:
    dead = []
    for link in _LINK.findall(path.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name) if name else path
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            dead.append(link)

    assert dead == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=shown)
def test_every_file_that_is_named_exists(path: Path) -> None:
    named = {name for name in _OWN_PATH.findall(path.read_text(encoding="utf-8")) if "NAME" not in name}

    assert {name for name in named if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("document", FOR_DEVELOPERS, ids=shown)
def test_the_code_that_is_named_exists(document: Path) -> None:
    missing = []
    for file, name in _CODE.findall(" ".join(document.read_text(encoding="utf-8").split())):
        path = _find_code(document, file)
        if "NAME" not in file and (path is None or (name and not _defines(path, name))):
            missing.append((file, name))

    assert missing == []


def test_a_name_that_code_does_not_define_is_noticed() -> None:
    planner, launcher = PACKAGE / "pipeline/planner.py", LAUNCHER / "main.c"

    assert _defines(planner, "Planner.explain") and _defines(launcher, "main")
    assert not _defines(planner, "Planner.explained") and not _defines(launcher, "mein")
    assert _find_code(ROOT / "ARCHITECTURE.md", "pipeline/planer.py") is None


@pytest.mark.parametrize("document", FOR_DEVELOPERS, ids=shown)
def test_the_classes_that_are_named_exist(document: Path) -> None:
    known = {
        node.name
        for path in (*python_files(), *(ROOT / "tests/support").rglob("*.py"))
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
    }

    assert set(_CLASS.findall(document.read_text(encoding="utf-8"))) - known == set()


def test_the_architecture_can_be_read_in_one_go() -> None:
    assert len(_read("ARCHITECTURE.md").splitlines()) <= MOST_ARCHITECTURE_LINES


def test_the_architecture_leads_to_every_page_beside_the_code() -> None:
    text = _read("ARCHITECTURE.md")

    assert [shown(path) for path in BESIDE_CODE if f"]({shown(path)})" not in text] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=shown)
def test_no_path_of_a_developers_machine_is_in_a_document(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert [foreign for foreign in FOREIGN_PATHS if foreign in text] == []


def test_the_limits_name_the_numbers_of_the_code() -> None:
    text = " ".join(_read("docs/limits.md").split())

    assert f"{search.MOST_DEPTH} levels deep, in at most {search.MOST_DIRECTORIES} directories" in text
    assert [name for name in search.NEVER_ENTERED - {".git"} if f"`{name}`" not in text] == []
    assert f"every {guard._GLANCE_MS} ms" in text


def test_the_design_of_the_guard_names_its_numbers() -> None:
    text = " ".join(_read("src/corral/protected_names/README.md").split())

    assert f"looks every {guard._GLANCE_MS} ms for the first quarter of a second" in text
    assert guard._LISTEN_AFTER_SECONDS == 0.25
    assert f"After {guard.PATIENCE} of them the command is ended" in text


def test_the_documents_name_the_numbers_of_output() -> None:
    kept, tail = (
        f"{sinks.KEPT_BYTES // 2**20} MiB of each stream are kept",
        f"{sinks.TAIL_BYTES // 2**10} KiB",
    )
    readme, policy, limits = (
        " ".join(_read(name).split()) for name in ("README.md", "docs/policy.md", "docs/limits.md")
    )

    assert kept in readme and tail in readme
    assert kept in policy
    assert "has two seconds for them" in limits
    assert starter.GRACE_SECONDS == 2.0


def test_the_licence_is_whole() -> None:
    text = _read("LICENSE")

    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_changelog_has_the_version_that_is_installed() -> None:
    import corral

    assert f"## [{corral.__version__}]" in _read("CHANGELOG.md")


def test_every_statement_has_a_test_that_is_there_or_a_reason() -> None:
    lines = _STATEMENT.findall(_read("docs/requirements.md"))
    numbers = [int(number) for first, _ in lines for number in first.split(",")]
    named = {test for _, last in lines for test in _TEST.findall(last)}
    sources = {path: _read(f"tests/{path.removeprefix('tests/')}") for path, _ in named}

    assert sorted(numbers) == list(range(1, _STATEMENTS + 1))
    assert [first for first, last in lines if not last.strip()] == []
    assert [last for _, last in lines if "test_" in _TEST.sub("", last)] == []  # none that is misspelt
    assert [(path, name) for path, name in named if name and f"def {name}(" not in sources[path]] == []
