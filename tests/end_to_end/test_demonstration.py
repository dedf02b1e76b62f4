"""The demonstration and the self-test, as a user runs them."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from conftest import Corral


def test_the_demonstration_holds_and_ends_with_its_summary(corral: Corral) -> None:
    done = corral("demo")

    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    said = "\n".join(lines)
    for words in (
        "net.none: registry.example",
        "net.domains: tracker.example",
        "fs.private: ",
        "fs.protect: ",
    ):
        assert f"    {words}" in said
    assert "[observed]" in said and "[inferred]" in said and "--allow" in said
    assert sum(line.startswith("✔") for line in lines) >= 14
    assert "✔ 13 of 13 attacks had no effect on the host." in lines
    assert max(map(len, lines)) <= 80


def test_the_self_test_gives_a_receipt(corral: Corral) -> None:
    done = corral("selftest", "--json", "--only", "read-ssh-key", "--only", "tcp-to-host")

    receipt = json.loads(done.stdout)
    assert done.returncode == 0
    assert receipt["counts"]["held"] == 2
    assert len(receipt["digest"]) == 64


def test_the_self_test_can_fail(corral: Corral) -> None:
    done = corral("selftest", "--backend", "none", "--only", "tcp-to-host")

    assert done.returncode == 1
    assert b"ESCAPED" in done.stdout
