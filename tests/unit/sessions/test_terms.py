"""Terms: what differs between a session that runs and one that is asked for, in words."""

from __future__ import annotations

import pytest

from corral.model.container import Container
from corral.model.errors import SetupError
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from corral.sessions.named.record import STARTING, SessionRecord
from corral.sessions.named.terms import check_terms, terms_of
from support.fake_host import FakeHost


def terms(*capabilities: str, directory: str, **settings) -> tuple[str, ...]:
    policy = build_policy("moderate", capabilities)
    host, container = FakeHost(cwd=directory), Container(**settings)
    sandbox = Sandbox(policy, workspace=directory, host=host, container=container)
    return terms_of(SessionRecord("s", STARTING), sandbox)


def test_what_differs_is_said_without_digests(tmp_path) -> None:
    plain = terms(directory=str(tmp_path))
    with_host = terms("network:https:x.test", directory=str(tmp_path))

    check_terms("s", plain, plain)
    for has, wants in ((plain, with_host), (with_host, plain)):
        with pytest.raises(SetupError) as refused:
            check_terms("s", has, wants)
        assert "policy " not in refused.value.why
        assert "network:none" in refused.value.why and "network:https:x.test" in refused.value.why


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"root": "writable"}, "container.root writable"),
        ({"user": "root"}, "container.user root"),
        ({"volumes": ("a:/a", "b:/b")}, "container.volumes a:/a b:/b"),
        ({"image": "other"}, "image other"),
    ],
    ids=["root", "user", "volumes", "image"],
)
def test_another_container_is_another_session(tmp_path, settings: dict[str, object], said: str) -> None:
    with pytest.raises(SetupError) as refused:
        check_terms("s", terms(directory=str(tmp_path)), terms(directory=str(tmp_path), **settings))

    assert said in refused.value.why


def test_a_digest_is_said_where_nothing_else_differs() -> None:
    with pytest.raises(SetupError) as refused:
        check_terms("s", ("policy a",), ("policy b",))

    assert refused.value.why == "only it has policy a; only asked for now: policy b"
