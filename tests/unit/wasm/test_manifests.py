"""What a module asks for: read from its own section or from the file beside it, or a clear error."""

from __future__ import annotations

import pytest

from corral.model.errors import PolicyError
from corral.wasm.manifest import custom_sections, load_module, parse_manifest, with_manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

EMPTY = b"\0asm\x01\0\0\0"


def test_a_section_of_its_own_says_what_a_module_asks_for() -> None:
    loaded = load_module(with_manifest(EMPTY, "filesystem:read:/docs # why\n\nmemory:limit:100MB\n"), "m")

    assert [str(each) for each in loaded.request] == ["filesystem:read:/docs", "memory:limit:100MB"]
    assert loaded.source == "section"


def test_a_file_beside_the_module_counts_instead(tmp_path: Path) -> None:
    file = tmp_path / "m.wasm"
    file.write_bytes(with_manifest(EMPTY, "network:full"))
    (tmp_path / "m.wasm.caps").write_text("env:pass:LANG\n")

    loaded = load_module(file)

    assert [str(each) for each in loaded.request] == ["env:pass:LANG"]
    assert loaded.source == str(file) + ".caps" and loaded.name == "m"


def test_a_module_without_either_asks_for_nothing() -> None:
    assert load_module(EMPTY).request == ()


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b"", "module-malformed", "begins with"),
        (b"MZ\x90\0", "module-malformed", "begins with"),
        (EMPTY[:6], "module-malformed", "version"),
        (b"\0asm\x0d\0\x01\0", "module-component", "component"),
        (EMPTY + b"\x01\xff", "module-malformed", "beyond its end"),
        (EMPTY + b"\x00\x80\x80\x80\x80\x80\x01", "module-malformed", "beyond its end"),
        (EMPTY + b"\x00\x02\x05a", "module-malformed", "beyond its end"),
        (with_manifest(EMPTY, "nonsense:read:x"), "module-manifest", "line 1"),
        (with_manifest(EMPTY, "\nfilesystem:read"), "module-manifest", "line 2"),
        (with_manifest(with_manifest(EMPTY, ""), ""), "module-manifest", "2 manifests"),
        (EMPTY + b"\x00\x16\x13corral.capabilities\xff\xfe", "module-manifest", "not text"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_says_so(data: bytes, code: str, words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load_module(data, "m")

    assert caught.value.code == code and words in f"{caught.value.what} {caught.value.why}"


def test_a_manifest_has_an_end() -> None:
    with pytest.raises(PolicyError, match="too large"):
        parse_manifest(b"#" * 70_000, "m")


def test_a_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(PolicyError) as caught:
            load_module(path)
        assert caught.value.code == "module-file"


def test_other_sections_are_passed_over() -> None:
    binary = EMPTY + b"\x00\x05\x04name" + with_manifest(b"", "")

    assert [name for name, _ in custom_sections(binary, "m")] == ["name", "corral.capabilities"]
