"""A host may have an address of the Internet: whoever may reach all of that may not so reach the host."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parents[1]
_OWN, _OTHER = "93.184.215.14", "93.184.215.15"  # in a network of the test's own: nothing leaves it
_OWN_6, _OTHER_6 = "2606:2800:21f:cb07::1", "2606:2800:21f:cb07::2"
_SCRIPT = f"""
import json, socket
from corral.network.grants import Grants
from corral.model.policy import NetMode, NetPolicy
from support.network_stage import Server, echo, make_stage

def may_dial(address, *allow):
    return Grants(NetPolicy(NetMode.LIMITED, frozenset(allow))).may_dial("name.test", 443, address)

found = {{address: may_dial(address, "https:*") for address in {(_OWN, _OTHER, _OWN_6, _OTHER_6)!r}}}
found["granted"] = may_dial("{_OWN}", "https:*", "https:{_OWN}")
with make_stage() as stage:
    stage.targets["moved.test", 0] = [("{_OWN}", stage.other_port)]
    service = socket.create_server(("{_OWN}", stage.other_port))
    service.settimeout(3)
    stage._stack.callback(service.close)
    stage.open("tcp:*:{{}}")
    found["status"] = stage.look_up("moved.test")
    stage.wait(lambda: stage.of("lookup"))
    found["reasons"] = stage.reasons("lookup")
print(json.dumps(found))
"""


def test_the_hosts_own_address_is_not_the_internet() -> None:
    missing = [program for program in ("unshare", "busybox") if shutil.which(program) is None]
    if os.geteuid() != 0 or missing:
        pytest.skip(f"a network of its own needs root, unshare and busybox; missing: {missing}")
    setup = (
        f"busybox ip link set lo up && busybox ip address add {_OWN}/32 dev lo"
        f' && busybox ip address add {_OWN_6}/128 dev lo && exec "$@"'
    )
    done = subprocess.run(
        ["unshare", "--net", "--", "sh", "-c", setup, "sh", sys.executable, "-c", _SCRIPT],
        env={**os.environ, "PYTHONPATH": str(_TESTS)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = json.loads(done.stdout or "null")

    assert found is not None, done.stderr
    assert found[_OTHER] and found["granted"]  # the controls: only what is the host's own is refused
    assert not found[_OWN] and not found[_OWN_6]
    assert found[_OTHER_6]
    assert found["status"] == [3, []]
    assert found["reasons"] == ["not-public"]
