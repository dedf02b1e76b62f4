"""Golden launches: what each backend makes of a plan, word for word. `--update-golden` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.backends.registry import BUILTIN, get_backend
from corral.linux.bpf import disassemble
from support.golden_cases import CASES, fake_probe, host_of, plan_of
from support.rendering import filters, render

HERE = Path(__file__).resolve().parent


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Compare a text with a file, or write the file."""

    def compare(name: str, text: str) -> None:
        path = HERE / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if not path.exists():
            pytest.fail(
                f"there is no {path}; --update-golden writes it, and it is read before it is committed"
            )
        assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()

    return compare


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.parametrize("name", BUILTIN)
def test_the_launch_is_the_one_that_was_reviewed(name: str, case, golden) -> None:
    probe = fake_probe(name, host_of(case))
    plan = plan_of(case, probe)

    golden(f"{name}/{case.name}.txt", render(plan, get_backend(name).lower(plan, probe)))


@pytest.mark.parametrize("name", filters())
def test_the_filter_is_the_one_that_was_reviewed(name: str, golden) -> None:
    golden(f"seccomp/{name}.txt", disassemble(filters()[name]).rstrip() + "\n")


def test_no_golden_file_is_left_from_a_case_that_is_gone() -> None:
    wanted = {f"{name}/{case.name}.txt" for name in BUILTIN for case in CASES}
    wanted |= {f"seccomp/{name}.txt" for name in filters()}

    assert {str(path.relative_to(HERE)) for path in HERE.rglob("*.txt")} == wanted


def test_no_secret_of_the_case_is_in_a_launch() -> None:
    """Neither a file of the home that was not granted nor a variable that was not permitted."""
    for path in HERE.rglob("*.txt"):
        text = path.read_text(encoding="utf-8")
        for word in ("the secret", ".ssh", "credentials.toml", "keyrings", "helper", "/etc/shadow"):
            assert word not in text, (path, word)
