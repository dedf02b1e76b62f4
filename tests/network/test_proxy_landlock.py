"""A limited network on landlock: through the proxy that the command is told of, and not past it.

Servers are this test's own, on loopback; names lead to them by the gateway's resolver. What they saw counts.
"""

from __future__ import annotations

import shutil
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from corral.model.violation import Evidence
from corral.network.options import NetworkOptions
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from support.confinement import INTERPRETER, PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from corral.model.result import Result
    from corral.sessions.session import Session

NAME = "allowed.test"
ELSEWHERE = "127.0.0.2"


class Web:
    """A web server that keeps what it was asked for."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        asked: list[tuple[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                asked.append((self.headers["Host"], self.path))
                body = f"served {self.path}".encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        self.asked = asked
        self.server = ThreadingHTTPServer((address, port), Handler)
        self.port: int = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def web() -> Iterator[Web]:
    serving = Web()
    yield serving
    serving.close()


def sandbox_for(web: Web, work: Path, *capabilities: str) -> Sandbox:
    policy = build_policy("moderate", (*INTERPRETER, *capabilities))
    probe = next(Sandbox(backend="landlock", workspace=work).probes())
    if not probe.available:
        pytest.skip(f"landlock is not available: {probe.reason}")
    wanted = Sandbox(policy, backend="none", workspace=work).explain(["true"]).plan.requires
    return Sandbox(
        policy,
        backend="landlock",
        workspace=work,
        waive=[feature for feature in wanted - probe.enforces if not feature.value.startswith("net.")],
        network=NetworkOptions(resolve=lambda name, port: [("127.0.0.1", web.port)]),
    )


#: What is granted: a name, and the address that it leads to here.
GRANTED = (f"network:http:{NAME}", "network:tcp:127.0.0.1:80")


def fetch(*urls: str) -> tuple[str, ...]:
    script = """
import sys, urllib.error, urllib.request
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=10).read().decode().strip())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip())
    except OSError as error:
        print(type(getattr(error, "reason", error)).__name__, error)
"""
    return (PYTHON, "-c", script, *urls)


def test_a_permitted_host_is_reached_and_no_other(web: Web, tmp_path: Path) -> None:
    sandbox = sandbox_for(web, tmp_path, *GRANTED)

    result = sandbox.run(fetch(f"http://{NAME}/one", "http://evil.test/two", f"http://{NAME}:22/three"))

    assert result.stdout.splitlines() == [
        "served /one",
        "403 corral: evil.test:80: not-granted; to permit it: network:http:evil.test",
        f"403 corral: {NAME}:22: not-granted; to permit it: network:tcp:{NAME}:22",
    ]
    assert web.asked == [(NAME, "/one")]
    found = {(each.subject, each.hint) for each in result.violations if each.evidence is Evidence.OBSERVED}
    assert found == {
        ("evil.test:80", "network:http:evil.test"),
        (f"{NAME}:22", f"network:tcp:{NAME}:22"),
    }
    assert result.network is not None
    assert (result.network.connections, result.network.refused) == (1, 2)


def test_curl_and_wget_find_the_proxy(web: Web, tmp_path: Path) -> None:
    sandbox = sandbox_for(web, tmp_path, *GRANTED)
    tools = {"curl": "curl -sS {}", "wget": "wget -qO- {}"}
    present = {name: words for name, words in tools.items() if shutil.which(name)}
    assert "curl" in present

    for name, words in present.items():
        assert sandbox.run(words.format(f"http://{NAME}/{name}")).stdout == f"served /{name}"
    socks = f'curl -sS -x "socks5h://${{http_proxy#http://}}" http://{NAME}/socks'
    tunnel = f"curl -sS -p http://{NAME}/tunnel"
    assert [sandbox.run(words).stdout for words in (socks, tunnel)] == ["served /socks", "served /tunnel"]


def test_past_the_proxy_there_is_nothing(web: Web, tmp_path: Path) -> None:
    """Not at the address of the server, and not at the port of the proxy on another address."""
    sandbox = sandbox_for(web, tmp_path, *GRANTED)
    met = []
    script = f"""
import os, socket, time
port = int(os.environ["http_proxy"].rpartition(":")[2])
with open("port", "w") as file:
    print(port, file=file)
while not os.path.exists("listening"):
    time.sleep(0.01)
for address in (("127.0.0.1", {web.port}), ("{ELSEWHERE}", port), ("{ELSEWHERE}", 80), ("203.0.113.7", 443)):
    try:
        socket.create_connection(address, timeout=5).send(b"secret")
        print("connected")
    except OSError as error:
        print(error.errno)
"""

    def listen() -> None:
        told = tmp_path / "port"
        while not is_over.is_set() and not (told.exists() and told.read_text().endswith("\n")):
            is_over.wait(0.01)
        with socket.create_server((ELSEWHERE, int(told.read_text()))) as listener:
            listener.settimeout(0.1)
            (tmp_path / "listening").touch()
            while not is_over.is_set():
                try:
                    met.append(listener.accept())
                except TimeoutError:
                    continue

    is_over = threading.Event()
    listening = threading.Thread(target=listen)
    listening.start()
    result = sandbox.run((PYTHON, "-c", script))
    is_over.set()
    listening.join()

    assert result.stdout.split() == ["13"] * 4, result.stderr
    assert (met, web.asked) == ([], [])
    subjects = {each.subject for each in result.violations if each.evidence is Evidence.OBSERVED}
    port = (tmp_path / "port").read_text().strip()
    assert subjects == {
        f"127.0.0.1:{web.port}",
        f"{ELSEWHERE}:{port}",
        f"{ELSEWHERE}:80",
        "203.0.113.7:443",
    }


def test_a_granted_address_is_reached_without_the_proxy(web: Web, tmp_path: Path) -> None:
    """By programs that know of none."""
    granted = (f"network:tcp:{host}:{web.port}" for host in ("127.0.0.1", "localhost"))
    sandbox = sandbox_for(web, tmp_path, *granted)

    result = sandbox.run(f"curl -sS --noproxy '*' http://127.0.0.1:{web.port}/direct")

    assert result.stdout == "served /direct", result.stderr
    assert result.violations == ()
    assert result.network is not None and result.network.connections == 1


def test_with_no_host_granted_there_is_nothing_to_connect_with(web: Web, tmp_path: Path) -> None:
    sandbox = sandbox_for(web, tmp_path)
    script = "import socket; socket.socket()"

    result = sandbox.run((PYTHON, "-c", script))

    assert result.exit_code == 1 and "Address family not supported" in result.stderr
    assert sandbox.run("env").stdout.count("proxy") == 0


@pytest.mark.parametrize("more", [(), ("pids:limit:64",)], ids=["filtered", "filters-of-their-own"])
def test_a_session_keeps_its_proxy_for_all_commands(web: Web, tmp_path: Path, more: tuple[str, ...]) -> None:
    with sandbox_for(web, tmp_path, *GRANTED, *more).session() as session:
        for number in range(3):
            assert _lines(session, f"http://{NAME}/{number}") == [f"served /{number}"]
        assert _lines(session, "http://later.test/")[0].startswith("403 ")

        session.network.allow("later.test")
        assert _lines(session, "http://later.test/now") == ["served /now"]
        session.network.revoke("later.test")
        assert _lines(session, "http://later.test/then")[0].startswith("403 ")
        refused = session.run("curl -sS --noproxy '*' http://127.0.0.9/")
        assert refused.exit_code == 7
        assert "127.0.0.9:80" in {each.subject for each in refused.violations}

    assert [path for _, path in web.asked] == ["/0", "/1", "/2", "/now"]


def _lines(session: Session, url: str) -> list[str]:
    result: Result = session.run(fetch(url))
    return result.stdout.splitlines()


def test_two_sandboxes_at_once_cannot_use_each_others_proxy(web: Web, tmp_path: Path) -> None:
    """Neither without the token nor with it: nobody but corral connects their sockets."""
    sandbox = sandbox_for(web, tmp_path, *GRANTED)
    with sandbox.session() as one, sandbox.session() as two:
        other = one.run("echo $http_proxy").stdout.strip()

        own = two.run(f"curl -sS -x $http_proxy http://{NAME}/own")
        stolen = two.run(f"curl -sS -x {other} http://{NAME}/stolen")

    assert own.stdout == "served /own"
    assert stolen.exit_code == 7
    assert [path for _, path in web.asked] == ["/own"]


def test_the_proxy_ends_with_the_run(web: Web, tmp_path: Path) -> None:
    result = sandbox_for(web, tmp_path, *GRANTED).run("echo $http_proxy")
    port = int(result.stdout.strip().rpartition(":")[2])

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_what_is_explained_has_no_token() -> None:
    sandbox = Sandbox(build_policy("moderate", [f"network:https:{NAME}"]), backend="landlock", waive=_all())
    explanation = sandbox.explain(["true"])

    assert dict(explanation.launch.inside.env)["https_proxy"] == "http://corral:@127.0.0.1:0"  # type: ignore[union-attr]


def _all() -> list[object]:
    from corral.model.feature import Feature

    return [feature for feature in Feature if not feature.value.startswith("net.")]
