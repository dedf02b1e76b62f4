"""The network of a named session, changed and shown from outside while it runs."""

from __future__ import annotations

import http.server
import json
import threading

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.named_sessions import Person


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"reached")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server on the host's loopback, which no rule of the session names."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def fetch(person: Person, port: int) -> bytes:
    fetched = ("curl", "-s", "-m", "20", f"http://127.0.0.1:{port}/")
    return person.corral("session", "exec", "s", "--", *fetched).stdout


def network(person: Person) -> dict[str, object]:
    shown: dict[str, object] = json.loads(person.corral("session", "network", "s", "--json").stdout)
    return shown


def test_a_host_is_reached_from_when_it_is_allowed_until_it_is_revoked(
    root_person: Person, port: int
) -> None:
    person = root_person
    person.start("s", "--allow", f"other.example.org:{port}")
    assert fetch(person, port) == b""

    allowed = person.corral("session", "allow", f"127.0.0.1:{port}", "--session", "s", "--for", "10m")
    assert allowed.returncode == 0, allowed.stderr
    assert fetch(person, port) == b"reached"
    (person.project / ".envrc").write_text("the sandbox has to be made anew")
    assert fetch(person, port) == b"reached"
    shown = network(person)
    assert shown["permitted"] == [f"tcp:other.example.org:{port}"]
    assert [one["endpoint"] for one in shown["allowed"]] == [f"tcp:127.0.0.1:{port}"]
    assert 0 < shown["allowed"][0]["seconds_left"] <= 600
    assert shown["traffic"]["connections"] == 2 and shown["traffic"]["refused"] == 1
    lines = person.corral("session", "network", "s").stdout.decode()
    assert f"127.0.0.1:{port}  2 connections" in lines and "no rule permits this host" in lines

    assert person.corral("session", "revoke", "127.0.0.1", "--session", "s").returncode == 0
    assert fetch(person, port) == b""
    assert network(person)["revoked"] == ["127.0.0.1"]


def test_what_the_policy_does_not_permit_to_change_is_refused(root_person: Person, port: int) -> None:
    """By the rules that hold for `--allow`; and the session is as it was."""
    person = root_person
    person.start("s", "--allow", f"127.0.0.1:{port}", "--cap", "network:deny:bad.example.org")

    refused = [
        person.corral("session", "allow", host, "--session", "s", *further)
        for host, *further in (
            ("bad.example.org",),
            ("other.example.org:1",),
            ("not a host",),
            ("other.example.org", "--for", "0s"),
        )
    ]

    assert [one.returncode for one in refused] == [2, 2, 2, 2], [one.stderr for one in refused]
    assert network(person)["allowed"] == []
    assert fetch(person, port) == b"reached"


def test_a_session_without_such_a_network_says_so(root_person: Person) -> None:
    root_person.start("s")

    refused = root_person.corral("session", "allow", "api.example.org", "--session", "s")

    assert refused.returncode == 2 and b"--allow HOST" in refused.stderr
