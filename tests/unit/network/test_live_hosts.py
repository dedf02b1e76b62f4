"""Hosts that are given to a session while it runs: read by the rules of `--allow`, or refused in words."""

from __future__ import annotations

import pytest

from corral.model.errors import PolicyError
from corral.sessions.live_network import LiveNetwork, _read


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("https://x.test", "give its host: x.test"),
        ("http://u@x.test:8080/a?b", "give its host: x.test:8080"),
        ("x.test/a", "give its host: x.test"),
        ("*", "write https:*"),
        ("*:443", "write tcp:*:443"),
        ("*.com", "write https:*.com"),
        (5, "session.network.allow('api.example.com')"),
        (None, "session.network.allow('api.example.com')"),
    ],
)
def test_what_is_no_host_is_refused_with_what_to_write(host: str, said: str) -> None:
    with pytest.raises(PolicyError) as refused:
        _read(host)

    assert said in refused.value.fix


@pytest.mark.parametrize("meant", ["https:*", "tcp:*:443", "https:*.com"])
def test_whoever_means_it_writes_an_endpoint(meant: str) -> None:
    assert [str(endpoint) for endpoint in _read(meant)] == [meant]


def test_what_is_no_name_is_not_revoked() -> None:
    with pytest.raises(PolicyError) as refused:
        LiveNetwork.revoke(None, 5)  # type: ignore[arg-type]

    assert refused.value.code == "argument"
