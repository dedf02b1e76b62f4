"""Golden launches: what each backend makes of a plan, word for word. `--update-golden` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.backends.registry import get_backend
from corral.linux.bpf import disassemble
from support.golden_cases import CASES, LINUX, fake_probe, host_of, plan_of
from support.mac import MAC, MAC_CASES, MacHost, mac_plan_of, mac_probe
from support.rendering import filters, render

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.parametrize("name", LINUX)
def test_the_launch_is_the_one_that_was_reviewed(name: str, case, golden) -> None:
    probe = fake_probe(name, host_of(case))
    plan = plan_of(case, probe)

    golden(f"{name}/{case.name}.txt", render(plan, get_backend(name).lower(plan, probe)))


@pytest.mark.parametrize("case", MAC_CASES, ids=[case.name for case in MAC_CASES])
@pytest.mark.parametrize("name", MAC)
def test_the_launch_on_a_mac_is_the_one_that_was_reviewed(name: str, case, golden) -> None:
    probe = mac_probe(name, MacHost(case.files, env=case.env, uid=case.uid))
    plan = mac_plan_of(case, probe)

    golden(f"{name}/{case.name}.txt", render(plan, get_backend(name).lower(plan, probe)))


@pytest.mark.parametrize("name", filters())
def test_the_filter_is_the_one_that_was_reviewed(name: str, golden) -> None:
    golden(f"seccomp/{name}.txt", disassemble(filters()[name]).rstrip() + "\n")


def test_no_golden_file_is_left_from_a_case_that_is_gone() -> None:
    wanted = {f"{name}/{case.name}.txt" for name in LINUX for case in CASES}
    wanted |= {f"seccomp/{name}.txt" for name in filters()}
    wanted |= {f"{name}/{case.name}.txt" for name in MAC for case in MAC_CASES}

    assert {str(path.relative_to(HERE)) for path in HERE.rglob("*.txt")} == wanted


def test_no_secret_of_the_case_is_in_a_launch() -> None:
    """Neither a file of the home that was not granted nor a variable that was not permitted."""
    for path in HERE.rglob("*.txt"):
        text = path.read_text(encoding="utf-8")
        for word in ("the secret", ".ssh", "credentials.toml", "keyrings", "helper", "/etc/shadow"):
            assert word not in text, (path, word)
