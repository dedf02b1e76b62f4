"""The servers that other tests judge by: they keep what comes in, and serve what tools expect."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading

import httpx
import pytest

from support.net_authority import Authority
from support.net_dns import AAAA, NameServer, TcpNameServer, build_question, read_answer, read_question
from support.net_names import ANY_PORT, Names
from support.net_packages import SAYS, Packages
from support.net_servers import FastOpenSink, TalkativeSink, TcpSink, UdpSink
from support.net_web import Request, WebServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

NAME = "api.example.test"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_sink_keeps_what_a_client_sent_before_it_went(address: str) -> None:
    with TcpSink(address) as sink:
        for number in range(20):
            with socket.create_connection(sink.where, 5) as client:
                client.sendall(b"secret %d" % number)

        assert sink.has(b"SECRET 19")
        assert len(sink.received) == 20
        sink.forget()
        assert not sink.has(b"secret")


def test_a_sink_keeps_what_a_client_sent_that_is_still_there() -> None:
    with TalkativeSink() as sink, socket.create_connection(sink.where, 5) as client:
        client.sendall(b"hello")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        client.sendall(b" secret")
        client.shutdown(socket.SHUT_WR)

        assert sink.has(b"hello secret")


def test_packets_are_kept() -> None:
    with UdpSink() as sink:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"secret", sink.where)

        assert sink.has(b"secret")
        assert sink.received == [b"secret"]


def test_data_in_the_first_packet_is_kept() -> None:
    with FastOpenSink() as sink:
        with socket.socket() as sender:
            sender.sendto(b"secret", socket.MSG_FASTOPEN, sink.where)

        assert sink.has(b"secret")


def test_nothing_is_left_running() -> None:
    before = set(threading.enumerate())
    with TcpSink() as one, UdpSink(), WebServer(), socket.create_connection(one.where, 5):
        pass

    assert set(threading.enumerate()) <= before


def test_requests_are_kept_one_after_the_other() -> None:
    with WebServer() as server:
        with httpx.Client(trust_env=False) as client:
            where = f"http://127.0.0.1:{server.port}"
            first = client.get(f"{where}/one", headers={"Host": NAME})
            client.post(f"{where}/two", content=iter([b"in ", b"chunks"]), headers={"Host": "other.test"})

        server.settle()
        assert first.text == f"this is {NAME} at /one\n"
        assert server.requests == [
            Request("HTTP/1.1", "GET", "/one", NAME),
            Request("HTTP/1.1", "POST", "/two", "other.test", b"in chunks"),
        ]
        assert server.has("in chunks")


@pytest.mark.parametrize(
    ("protocols", "version"), [(["http/1.1"], "HTTP/1.1"), (["h2", "http/1.1"], "HTTP/2")]
)
def test_both_versions_of_http_are_spoken_over_tls(
    authority: Authority, protocols: list[str], version: str
) -> None:
    with WebServer(tls=authority.server_context([NAME], ["h2", "http/1.1"])) as server:
        curl = ["curl", "-sS", "--noproxy", "*", "--cacert", str(authority.file)]
        leads = ["--connect-to", f"{NAME}:443:127.0.0.1:{server.port}"]
        chosen = [] if "h2" in protocols else ["--http1.1"]
        done = subprocess.run(
            [*curl, *leads, *chosen, "-d", "body", f"https://{NAME}/x"],
            capture_output=True,
            timeout=20,
            check=True,
        )

        server.settle()
        assert done.stdout.decode() == f"this is {NAME} at /x\n"
        assert server.requests == [Request(version, "POST", "/x", NAME, b"body", NAME)]
        assert server.server_names == [NAME]


def test_a_name_that_the_certificate_lacks_is_not_believed_but_kept(authority: Authority) -> None:
    with WebServer(tls=authority.server_context([NAME])) as server:
        with socket.create_connection(server.where, 5) as plain, pytest.raises(OSError, match="ertificate"):
            authority.client_context().wrap_socket(plain, server_hostname="other.example.test")

        assert server.has("other.example.test")
        assert server.server_names == ["other.example.test"]
        assert server.requests == []


def test_a_repository_an_index_and_a_registry_are_what_tools_expect(tmp_path: Path) -> None:
    packages = Packages(tmp_path / "packages")
    with WebServer(packages) as server:
        where = f"http://127.0.0.1:{server.port}"
        quiet = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "GIT_CONFIG_GLOBAL": os.devnull}
        for name in [*quiet]:
            if name.lower().endswith("_proxy") or name in {"PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"}:
                del quiet[name]
        subprocess.run(
            ["git", "clone", "-q", f"{where}/tiny.git", "cloned"],
            cwd=tmp_path,
            env=quiet,
            timeout=30,
            check=True,
        )
        index = ("--index-url", f"{where}/simple/", "--target", "installed", "tiny-thing")
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", *index],
            cwd=tmp_path,
            env=quiet,
            timeout=60,
            check=True,
        )
        registry = httpx.get(f"{where}/registry/tiny-thing", trust_env=False).json()

    assert (tmp_path / "cloned/read.me").read_text() == SAYS
    assert SAYS in (tmp_path / "installed/tiny_thing.py").read_text()
    assert registry["dist-tags"] == {"latest": "1.0.0"}
    assert packages("x", "/tiny.git/../source/read.me") is None


def test_a_name_server_keeps_the_questions() -> None:
    with NameServer() as server, TcpNameServer() as over_tcp:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(5)
            client.sendto(build_question("SECRET.evil.test"), server.where)
            answer = client.recv(1000)
        with socket.create_connection(over_tcp.where, 5) as client:
            question = build_question("secret.evil.test", AAAA)
            client.sendall(len(question).to_bytes(2) + question)
            size = int.from_bytes(client.recv(2, socket.MSG_WAITALL))
            answer_over_tcp = client.recv(size, socket.MSG_WAITALL)

        assert server.names == ["secret.evil.test"]
        assert server.has(b"secret\x04evil")
        assert read_answer(answer) == (0, ["127.0.0.1"])
        over_tcp.settle()
        assert [read_question(packet) for packet in over_tcp.received] == [("secret.evil.test", AAAA)]
        assert read_answer(answer_over_tcp) == (0, [])


def test_names_lead_where_the_test_says_and_are_kept() -> None:
    names = Names()
    names.lead(NAME, 443, ("127.0.0.1", 8443))
    names.lead(NAME, ANY_PORT, ("::1", 9))

    assert names(NAME, 443) == (("127.0.0.1", 8443),)
    assert names(NAME, 80) == (("::1", 9),)
    with pytest.raises(OSError, match="no test name"):
        names("evil.test", 443)
    assert names.asked == [NAME, NAME, "evil.test"]
    assert json.dumps(names.leads())
