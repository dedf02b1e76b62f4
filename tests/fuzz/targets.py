"""What is fuzzed: each function reads any bytes whatever, and raises only if a promise is broken.

`fuzz.py` makes up inputs; `test_corpus.py` replays those that are recorded in `corpus`, one file for each
target, one input on a line, as JSON writes it.
"""

from __future__ import annotations

import datetime
import json as json_format
from pathlib import Path

from corral.config.document import Document, DocumentProblems, read_document
from corral.config.narrow import narrow
from corral.config.read import read_settings
from corral.config.setting import Source
from corral.config.to_policy import compile_settings
from corral.model.errors import CapabilitySyntaxError
from corral.model.policy import Policy
from corral.model.rules.capability import Capability, PolicyDraft, capabilities_of, parse_capability
from corral.shell_check.check import check_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CORPUS = Path(__file__).parent / "corpus"
#: What a value can begin with.
BEGINNINGS: dict[type, str] = {
    bool: "tf",
    int: "+-0123456789",
    float: "+-0123456789",
    str: "\"'",
    list: "[",
    dict: "{",
    type(None): "n",
    datetime.datetime: "0123456789",
    datetime.date: "0123456789",
    datetime.time: "0123456789",
}


def capability(data: bytes) -> None:
    """A text is refused at one of its columns, or it has a canonical form, which a policy keeps."""
    text = to_text(data)
    try:
        found = parse_capability(text)
    except CapabilitySyntaxError as refused:
        assert 1 <= refused.column <= len(text) + 2
        assert len(refused.render().split("\n")) == 3
        return
    assert parse_capability(str(found)) == found
    policy = _policy_of([found])
    said = capabilities_of(policy)
    assert [parse_capability(str(part)) for part in said] == list(said)
    assert _policy_of(said) == policy


def toml(data: bytes) -> None:
    _document(to_text(data), "corral.toml")


def json(data: bytes) -> None:
    _document(to_text(data), "corral.json")


def module(data: bytes) -> None:
    """Bytes are a module, which can be compiled and linked, or an error says what is wrong with them."""
    from corral.model.errors import PolicyError
    from corral.wasi.instance import ModuleInstance, prepare
    from corral.wasi.machine import ModuleMeter
    from corral.wasi.task import Task
    from corral.wasm.manifest import load_module

    try:
        loaded = load_module(data, "fuzzed")
        prepared = prepare(Task(), loaded.binary, "fuzzed")
        ModuleInstance(Task(), prepared, ModuleMeter(Task().bounds), report=lambda _: None)
    except PolicyError as refused:
        assert refused.code.startswith("module-") and len(refused.render().split("\n")) == 3


def shell(data: bytes) -> None:
    """Any text has a verdict, each reason a place in it, and the strictest of them is the verdict."""
    text = to_text(data)
    result = check_text(text)
    assert result.verdict.rank == max((found.verdict.rank for found in result.findings), default=0)
    for found in result.findings:
        assert 0 <= found.start <= found.end <= len(text)
        assert found.describe().count("\n") == 0
    json_format.dumps(result.to_json())


TARGETS: dict[str, Callable[[bytes], None]] = {
    "capability": capability,
    "toml": toml,
    "json": json,
    "module": module,
    "shell": shell,
}


def to_text(data: bytes) -> str:
    """As Python reads arguments and file names; no two inputs give the same text."""
    return data.decode("utf-8", "surrogateescape")


def to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def to_line(data: bytes) -> str:
    """As the corpus has it."""
    return json_format.dumps(to_text(data))


def read_corpus(target: str) -> list[bytes]:
    """The recorded inputs of a target."""
    lines = (CORPUS / f"{target}.jsonl").read_text(encoding="ascii").splitlines()
    return [to_bytes(json_format.loads(line)) for line in lines]


def write_corpus(target: str, inputs: Iterable[bytes]) -> None:
    lines = sorted({to_line(data) for data in inputs}, key=lambda line: (len(line), line))
    (CORPUS / f"{target}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


def _policy_of(capabilities: Iterable[Capability]) -> Policy:
    draft = PolicyDraft(Policy())
    for part in capabilities:
        draft.add(part)
    return draft.build()


def _document(text: str, file: str) -> None:
    try:
        document = read_document(text, file)
    except DocumentProblems as refused:
        lines = text.removeprefix("\ufeff").split("\n")
        assert refused.problems
        for problem in refused.problems:
            assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
            assert len(problem.render().split("\n")) == 2
        return
    _check_places(document, text.removeprefix("\ufeff"), document.table, ())
    _configuration(text, file)


def _configuration(text: str, file: str) -> None:
    """What a document says is read or refused; as a project's file it never widens what the user allows."""
    lines = text.removeprefix("\ufeff").split("\n")
    try:
        settings = read_settings(text, file, Source.PROJECT)
    except DocumentProblems as refused:
        for problem in refused.problems:
            assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
            assert problem.fix and len(problem.render().split("\n")) == 2
        return
    allowed = compile_settings(())
    for agent in ("", *settings.agents):
        said = settings.for_agent(agent)
        assert compile_settings(said).policy.digest()
        narrowed = narrow(allowed, said, allowed)
        assert narrowed.compiled.policy <= allowed.policy
        assert narrowed.compiled.is_confined
        assert all(cut.render() for cut in narrowed.cuts)


def _check_places(document: Document, text: str, value: object, keys: tuple[str | int, ...]) -> None:
    """Every key is where it is said to be, and there begins what it should be."""
    if keys:
        key_at, value_at = (offsets[keys] for offsets in (document._places.keys, document._places.values))
        is_named = value_at == key_at and isinstance(value, dict | list)  # by a header or a dotted key
        assert is_named or text[value_at] in BEGINNINGS[type(value)]
        assert text[key_at] in "\"'" or isinstance(keys[-1], int) or text.startswith(keys[-1], key_at)
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in entries:
        _check_places(document, text, inner, (*keys, key))
