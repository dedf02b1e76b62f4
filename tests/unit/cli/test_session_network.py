"""`corral session network` as lines: what is revoked is not permitted, and what failed was not refused."""

from __future__ import annotations

from corral.cli.session.network import _lines
from corral.model.network.traffic import HostTraffic, NetAction, NetEvent, NetReason, Traffic


def test_each_thing_stands_where_it_belongs() -> None:
    traffic = Traffic(
        hosts=(HostTraffic("a.test", 443, connections=2), HostTraffic("b.test", 0, refused=1, failed=3)),
        refusals=(
            NetEvent(NetAction.LOOKUP, False, NetReason.UNRESOLVED, "b.test"),
            NetEvent(NetAction.CONNECT, False, NetReason.NOT_GRANTED, "c.test", 443),
        ),
    )
    facts = {
        "permitted": ["https:a.test", "https:gone.test", "tcp:x.gone.test:22"],
        "allowed": [],
        "revoked": ["gone.test", "*.gone.test"],
        "traffic": traffic.to_json(),
    }
    lines = list(_lines(facts))

    assert lines == [
        "permitted",
        "  https:a.test  by the policy",
        "revoked",
        "  gone.test",
        "  *.gone.test",
        "asked for",
        "  a.test:443  2 connections, 0 B sent, 0 B received",
        "  b.test  1 refused, 3 failed, 0 B sent, 0 B received",
        "refused",
        "  c.test:443  no rule permits this host",
        "failed",
        "  b.test  the name does not resolve",
    ]
