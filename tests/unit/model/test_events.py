"""Events: one line each, that no name of a command's can forge, and hints that can be pasted."""

from __future__ import annotations

import shlex

import pytest

from corral.model.errors import CorralError
from corral.model.event import EventKind, event_of, flags_for
from corral.model.feature import Feature
from corral.model.printable import quoted
from corral.model.violation import Evidence, Violation

FORGED = "/w/x\ncorral: fs.read: /: it is granted"
COLOURED = "/w/\x1b[2K\x1b[31mgone\u202e"
ENDING = "/w/a: b; to permit it: --write /"


def _planted(path: str) -> Violation:
    return Violation(Feature.FS_PROTECT, path, Evidence.OBSERVED, "it is protected")


@pytest.mark.parametrize("path", [FORGED, COLOURED, ENDING, "/w/'; rm -rf ~ #", "/w/\udcff"])
def test_a_name_cannot_forge_hide_or_colour_a_line(path: str) -> None:
    line = event_of(_planted(path)).describe()

    assert line.isprintable() and line.startswith("fs.protect: '/w/")
    subject, reason = shlex.split(line.removeprefix("fs.protect: "))[0], "it is protected"
    assert line.endswith(reason) and subject.endswith(":")


def test_plain_names_are_shown_as_they_are() -> None:
    assert event_of(_planted("/w/.git/hooks/pre-commit")).describe() == (
        "fs.protect: /w/.git/hooks/pre-commit: it is protected"
    )
    assert event_of(Violation(Feature.NET_PORTS, "[::1]:80", Evidence.OBSERVED, "no")).describe() == (
        "net.ports: [::1]:80: no"
    )


def test_a_very_long_name_is_cut() -> None:
    assert len(event_of(_planted("/w/" + "x" * 4000)).describe()) < 500


@pytest.mark.parametrize("path", ["/data/a b", "/data/$(touch x)", "/data/it's", "/data/`x`", "/data/*"])
def test_a_hint_is_one_word_for_a_shell(path: str) -> None:
    assert shlex.split(flags_for(f"filesystem:write:{path}")) == ["--write", path]
    assert shlex.split(flags_for(f"env:pass:{path}")) == ["--cap", f"env:pass:{path}"]


def test_an_empty_text_is_a_word_too() -> None:
    assert quoted("") == "''"


def test_a_hint_is_said_with_flags_at_the_command_line_and_as_a_capability_elsewhere(monkeypatch) -> None:
    looked_up = event_of(
        Violation(Feature.NET_DOMAINS, "x.test", Evidence.OBSERVED, "no", "network:https:x.test")
    )
    written = event_of(
        Violation(Feature.FS_WRITE, "/data", Evidence.INFERRED, "no", "filesystem:write:/data", "it is all")
    )
    monkeypatch.setattr(CorralError, "speaks_of_flags", True)

    assert looked_up.describe().endswith("; to permit it: --allow x.test")
    assert written.describe().endswith(
        "no (guessed from the output); beware: it is all; to permit it: --write /data"
    )
    monkeypatch.setattr(CorralError, "speaks_of_flags", False)
    assert looked_up.remedy() == "'network:http:x.test' and 'network:https:x.test'"
    assert written.remedy() == "'filesystem:write:/data'"


@pytest.mark.parametrize(
    ("feature", "evidence", "kind"),
    [
        (Feature.LIMIT_MEMORY, Evidence.OBSERVED, EventKind.LIMIT),
        (Feature.FS_PROTECT, Evidence.OBSERVED, EventKind.TAKEN),
        (Feature.FS_PROTECT, Evidence.INFERRED, EventKind.REFUSED),
        (Feature.NET_DOMAINS, Evidence.OBSERVED, EventKind.REFUSED),
    ],
)
def test_every_violation_is_an_event_of_some_kind(feature, evidence, kind) -> None:
    event = event_of(Violation(feature, "the command", evidence, "why"), 3)

    assert (event.kind, event.count) == (kind, 3)
    assert event.to_json()["evidence"] == evidence.value
    assert "(3 times)" in event.describe()
