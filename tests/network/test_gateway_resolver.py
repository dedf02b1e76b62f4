"""The host's own resolver: which name it is asked for, and what is made of what it says."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from corral.network import resolve
from corral.network.resolve import look_up


@pytest.fixture
def asked(monkeypatch, tmp_path: Path) -> list[str]:
    """All names that the host's resolver is asked for; it has one address for each."""
    names: list[str] = []

    def ask(name: str, *_: object, **__: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        names.append(name)
        found = ["93.184.216.34", "93.184.216.34", "::ffff:93.184.216.35", "2606:2800::1"]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n10.0.0.7\tDB.corp.test db # db.other.test\nfe80::1%x zone.test\n")
    monkeypatch.setattr(resolve, "_HOSTS_FILE", str(hosts))
    return names


def test_a_name_is_asked_for_as_it_is_without_the_search_domains_of_the_host(asked: list[str]) -> None:
    found = look_up(None, "api.example.com", (443,))

    assert asked == ["api.example.com."]
    addresses = ("93.184.216.34", "93.184.216.35", "2606:2800::1")
    assert found.answers == {0: tuple((address, 0) for address in addresses)}


def test_a_name_of_one_word_is_what_the_host_says_it_is(asked: list[str]) -> None:
    look_up(None, "intranet", (443,))

    assert asked == ["intranet"]


@pytest.mark.parametrize(("name", "address"), [("db.corp.test", "10.0.0.7"), ("db", "10.0.0.7")])
def test_what_the_hosts_file_says_comes_first(asked: list[str], name: str, address: str) -> None:
    assert look_up(None, name, (443,)).answers == {0: ((address, 0),)}
    assert asked == []


def test_comments_of_the_hosts_file_are_no_names(asked: list[str]) -> None:
    look_up(None, "db.other.test", (443,))

    assert asked == ["db.other.test."]


@pytest.mark.parametrize(
    ("number", "has_failed"),
    [
        (socket.EAI_NONAME, False),
        (socket.EAI_NODATA, False),
        (socket.EAI_AGAIN, True),
        (socket.EAI_FAIL, True),
    ],
)
def test_no_such_name_and_no_answer_are_told_apart(monkeypatch, number: int, has_failed: bool) -> None:
    def ask(*_: object, **__: object) -> None:
        raise socket.gaierror(number, "so it is")

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    found = look_up(None, "api.example.com", (443,))

    assert (found.answers, found.has_failed, found.detail) == ({}, has_failed, "so it is")


@pytest.mark.parametrize(
    "said", [None, [None], ["1.2.3.4"], [("1.2.3.4",)], [(1, 2)], [("1.2.3.4", "80")], [("1.2.3.4", 0)], 7]
)
def test_a_resolver_may_return_anything(said: object) -> None:
    found = look_up(lambda _name, _port: said, "api.example.com", (443,))  # type: ignore[arg-type,return-value]

    assert not any(found.answers.values())


def test_each_port_is_asked_for_at_once(asked: list[str]) -> None:
    """Between a lookup and its connection nobody is asked."""
    wanted: list[int] = []

    def ask(name: str, port: int) -> list[tuple[str, int]]:
        wanted.append(port)
        if port == 80:
            raise OSError("not there")
        return [("1.2.3.4", port + 1)]

    found = look_up(ask, "api.example.com", (80, 443, 8080))

    assert wanted == [80, 443, 8080]
    assert found.answers == {443: (("1.2.3.4", 444),), 8080: (("1.2.3.4", 8081),)}
