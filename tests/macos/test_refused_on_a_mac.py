"""What works on Linux and not on a Mac is refused in words, and docs/backends.md has the reason."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from corral.backends.registry import BUILTIN
from corral.backends.seatbelt import CLAIMS
from corral.model.feature import Feature
from support.mac_stage import WAIVED, Mac

ROOT = Path(__file__).resolve().parents[2]
SEATBELT = ("--backend", "seatbelt", "--waive", ",".join(WAIVED))
RUN = ("run", *SEATBELT)
#: The command line, what is said, and the reason in the table.
REFUSED = {
    "session": (("session", "start", "name"), "a sandbox that is kept", "a kept sandbox"),
    "sessions": (("session", "list"), "a sandbox that is kept", "a kept sandbox"),
    "try": (("try", *SEATBELT, "--", "true"), "an overlay mount", "an overlay mount, which only Linux has"),
    "trace": ((*RUN, "--trace", "--", "true"), "only the launcher of native can", "the launcher of `native`"),
    "learn": (("learn", *SEATBELT, "--", "true"), "by strace", "uses strace, which only Linux has"),
    "compile": (("compile", *SEATBELT, "-o", "plan"), "native, landlock", "of `native` or `landlock`"),
    "publish": (
        (*RUN, "--publish", "8080:80", "--", "true"),
        "no separate network",
        "no separate network",
    ),
    "debug": (
        (*RUN, "--cap", "process:debug", "--", "true"),
        "an entitlement",
        "an entitlement that",
    ),
    "calls": ((*RUN, "--cap", "syscall:deny:chmod", "--", "true"), "list of system calls", "has no list of"),
    "memory": ((*RUN, "--memory", "100m", "--", "true"), "cannot enforce limit.memory", "`limit.memory`"),
    "cpus": ((*RUN, "--cpus", "1", "--", "true"), "cannot enforce limit.cpu", "`limit.cpu`"),
    "pids": ((*RUN, "--pids", "5", "--", "true"), "cannot enforce limit.pids", "`limit.pids`"),
    "disk": ((*RUN, "--cap", "disk:limit:1MiB", "--", "true"), "cannot enforce limit.disk", "`limit.disk`"),
    "native": (("run", "--backend", "native", "--", "true"), "it needs Linux", "it needs Linux"),
    "docker": (("run", "--backend", "docker", "--", "true"), "virtual machine", "in a virtual machine"),
    "podman": (("explain", "--backend", "podman", "--", "true"), "WSL2", "inside WSL2"),
    "wasm": (
        ("run", "--backend", "wasm", "--", "x.wasm"),
        "runs modules is for Linux",
        "runs modules is for",
    ),
    "modules": (("selftest", "isolation"), "runs modules is for Linux", "runs modules is for Linux"),
    "spelling": (
        (*RUN, "--deny", "/System/Volumes/Data/x", "--", "true"),
        "by this name",
        "in another spelling",
    ),
}


def _reasons() -> str:
    text = (ROOT / "docs/backends.md").read_text(encoding="utf-8")
    found = re.search(r"### What is refused on macOS, and why\n(.*?)\n## ", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_linux_is_refused_in_words(mac: Mac, name: str) -> None:
    words, said, reason = REFUSED[name]
    done = mac.corral(*words)

    assert done.returncode in {2, 3, 125}
    assert said in done.stderr
    assert "internal error" not in done.stderr
    assert reason in _reasons()
    assert (os.listdir(mac.work), mac.left) == ([], [])


def test_every_feature_and_backend_that_is_missing_there_has_its_reason() -> None:
    reasons = _reasons()
    nobodys = {Feature.NET_EXCEPT}  # no backend holds it, on any platform

    for feature in frozenset(Feature) - CLAIMS - nobodys:
        assert f"`{feature.value}`" in reasons, feature
    for backend in set(BUILTIN) - {"none"}:
        assert f"`{backend}`" in reasons, backend
