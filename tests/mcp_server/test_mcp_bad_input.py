"""What no client should send: an error of the protocol or a clean end, no process left, no record lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from http.client import HTTPConnection

import pytest

from support.keeping import descendants_of
from support.mcp_clients import HELLO, RawServer, say, text_of, wait_for_processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from support.mcp_clients import HttpServer, McpHome

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawServer]:
    from support.mcp_clients import McpHome

    with RawServer(McpHome(tmp_path_factory.mktemp("raw"))) as started:
        started.initialize()
        yield started


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"jsonrpc": "2.0", "id": 1, "method"', PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff\xfe"}', PARSE_ERROR),
        (b"[" * 100_000, PARSE_ERROR),
        (b"\x00\x01\x02", PARSE_ERROR),
        (b"[]", INVALID_REQUEST),
        (b"17", INVALID_REQUEST),
        (b'{"id": true, "method": 5}', INVALID_REQUEST),
        (b'{"x": "' + b"y" * (33 * 1024 * 1024) + b'"}', INVALID_REQUEST),
    ],
    ids=["cut off", "no UTF-8", "deep", "binary", "a batch", "a number", "no message", "33 MB"],
)
def test_a_line_that_is_no_message_is_answered_with_an_error(
    server: RawServer, line: bytes, code: int
) -> None:
    server.send(line)

    assert server.answer(None)["error"]["code"] == code
    assert text_of(server.call(500, "bash", command="echo fine")) == "fine"


def test_a_wrong_message_with_an_id_is_answered_under_it(server: RawServer) -> None:
    server.send(b'{"id": 77, "method": 5}')
    assert server.answer(77)["error"]["code"] == INVALID_REQUEST
    server.ask(77, "tools/call", name="bash", arguments={"command": "\ud800"})  # half a character
    assert server.answer(77)["error"]["code"] == INVALID_REQUEST
    server.ask(78, "no/such/method")
    assert server.answer(78)["error"]["code"] == NO_METHOD
    server.ask(79, "tools/call", name=5)
    assert server.answer(79)["error"]["code"] == INVALID_PARAMS
    server.ask(80, "tools/call", name="no_such_tool", arguments={})
    assert server.answer(80)["error"]["code"] == INVALID_PARAMS
    server.ask(81, "tools/call", name="bash", arguments="echo")
    assert server.answer(81)["error"]["code"] == INVALID_PARAMS


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("bash", {}, "`command` is missing"),
        ("bash", {"command": 5}, "`command` has to be a text"),
        ("bash", {"command": " "}, "`command` is empty"),
        ("bash", {"command": "a\0b"}, "NUL"),
        ("bash", {"command": "x" * 10_000_000}, "has 10000000 bytes, and may have 100000"),
        ("bash", {"command": "true", "timeout": -1}, "`timeout` has to be a number, 1 or more"),
        ("bash", {"command": "true", "timeout": True}, "`timeout` has to be a number"),
        ("bash", {"command": "true", "dangerouslyDisableSandbox": "yes"}, "has to be true or false"),
        ("bash", {"command": "true", "cwd": "/"}, "there is no argument 'cwd'"),
        ("read_file", {"path": "x" * 5000}, "has 5000 bytes, and may have 4096"),
        ("read_file", {"path": "x", "offset": 0}, "`offset` has to be a number, 1 or more"),
        ("write_file", {"path": "/etc/motd", "content": "x"}, "[not done]"),
        ("edit_file", {"path": "gone", "old_string": "a", "new_string": "b"}, "No such file"),
        ("list_dir", {"path": "../../../none"}, "[not done]"),
        ("explain_denial", {"target": "x", "operation": "delete"}, "has to be one of: read, write, connect"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
def test_arguments_that_make_no_sense_are_told_to_the_model(
    server: RawServer, tool: str, arguments: dict[str, Any], told: str
) -> None:
    answer = server.call(90, tool, **arguments)

    assert answer["result"]["isError"]
    assert told in text_of(answer)


def test_an_edit_does_not_make_a_file_that_is_too_large(server: RawServer) -> None:
    """It is made in the server, where no limit of the sandbox holds: 8 MB for each of some letters."""
    server.call(92, "bash", command="head -c 3 /dev/zero | tr '\\0' a > letters; ln -s letters link")
    answer = server.call(
        93, "edit_file", path="link", old_string="a", new_string="b" * 8_000_000, replace_all=True
    )

    assert answer["result"]["isError"]
    assert "would have more than 16777216 characters: nothing was changed" in text_of(answer)
    assert text_of(server.call(94, "read_file", path="letters")) == "aaa"


def test_output_is_bounded_and_what_was_cut_is_said(server: RawServer) -> None:
    text = text_of(server.call(91, "bash", command="seq 1 1000000"))

    assert text.startswith("1\n2\n")
    assert text.endswith("\n1000000")
    assert "6858896 of 6888896 bytes of output are left out here" in text
    assert len(text) < 31_000


def test_a_client_that_disappears_takes_everything_with_it(home: McpHome) -> None:
    """In the middle of a command, and the command has put another one into the background."""
    mark = f"97531.{os.getpid()}"
    own = home.configure("[audit]\nenabled = true\n")
    with RawServer(home, environment=own) as server:
        server.initialize()
        server.ask(
            1, "tools/call", name="bash", arguments={"command": f"setsid sleep {mark}1 & sleep {mark}2"}
        )
        wait_for_processes(mark, count=3)  # with the shell that was told both
        server.close_pipes()

        assert server.wait() == 0
        wait_for_processes(mark, count=0)
        _wait_until_finished(home)


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.thorough), signal.SIGKILL], ids=["TERM", "KILL"]
)
def test_a_server_that_is_ended_takes_everything_with_it(home: McpHome, number: int) -> None:
    mark = f"97532.{os.getpid()}"
    with RawServer(home) as server:
        server.initialize()
        server.ask(
            1, "tools/call", name="bash", arguments={"command": f"setsid sleep {mark}1 & sleep {mark}2"}
        )
        wait_for_processes(mark, count=3)
        server.signal(number)

        assert server.wait() == (128 + number if number == signal.SIGTERM else -number)
        wait_for_processes(mark, count=0)


def _wait_until_finished(home: McpHome) -> None:
    """Until the audit log has the end of every run that it has the beginning of."""
    deadline = time.monotonic() + 60
    while True:
        records = home.audit_records()
        planned = {record["run"] for record in records if record["event"] == "planned"}
        ended = {record["run"] for record in records if record["event"] in {"ended", "setup-failed"}}
        if planned and planned == ended:
            return
        assert time.monotonic() < deadline, planned - ended
        time.sleep(0.02)


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
def test_a_client_of_http_that_disappears_leaves_no_command(
    shared_home: McpHome, served: HttpServer, era: str
) -> None:
    """Its connection breaks in the middle of a call, and nobody says goodbye."""
    mark = f"97533.{os.getpid()}"
    line = {"command": f"setsid sleep {mark}1 & sleep {mark}2"}
    params: dict[str, Any] = {"name": "bash", "arguments": line}
    headers = {
        **served.headers,
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Mcp-Protocol-Version": era,
    }
    if era == "2025-11-25":
        opened = _post(served, headers, "initialize", HELLO)
        headers["Mcp-Session-Id"] = opened.getresponse().headers["Mcp-Session-Id"]
        opened.close()
    else:
        prefix = "io.modelcontextprotocol"
        params["_meta"] = {f"{prefix}/protocolVersion": era, f"{prefix}/clientCapabilities": {}}
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "bash"}
    connection = _post(served, headers, "tools/call", params)
    wait_for_processes(mark, count=3)
    connection.close()

    wait_for_processes(mark, count=0)
    _wait_until_finished(shared_home)


def _post(served: HttpServer, headers: dict[str, str], method: str, params: object) -> HTTPConnection:
    connection = HTTPConnection(served.url.split("/")[2])
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    connection.request("POST", "/mcp", json.dumps(message), headers)
    return connection


@pytest.mark.parametrize("count", [8, pytest.param(50, marks=pytest.mark.thorough)])
def test_many_clients_at_once(shared_home: McpHome, served: HttpServer, count: int) -> None:
    """Each has a sandbox with a state of its own; when they have gone, all sandboxes have."""
    before = len(shared_home.audit_records())
    others = set(descendants_of(served.pid))  # the sandboxes of clients that have not ended their session

    async def work(number: int, ready: asyncio.Barrier) -> list[str]:
        async with served.client(mode="legacy") as client:
            await ready.wait()
            place = f"/tmp/n{number}"
            await say(client, "bash", command=f"export NUMBER={number}; mkdir -p {place}; cd {place}")
            first = await say(client, "bash", command='echo "$NUMBER $PWD"; ls -d /tmp/n*')
            await ready.wait()
            return [first, await say(client, "bash", command="kill -9 $$")]

    async def all_of_them() -> list[list[str]]:
        ready = asyncio.Barrier(count)
        return await asyncio.gather(*(work(number, ready) for number in range(count)))

    answers = asyncio.run(all_of_them())

    for number, (first, killed) in enumerate(answers):
        assert first == f"{number} /tmp/n{number}\n/tmp/n{number}"
        assert "signal 9" in killed
    new = shared_home.audit_records()[before:]
    assert sum(record["event"] == "ended" for record in new) == 3 * count
    _wait_until_finished(shared_home)
    deadline = time.monotonic() + 60
    while not others.issuperset(descendants_of(served.pid)):
        assert time.monotonic() < deadline, "a sandbox is left"
        time.sleep(0.02)


def test_what_a_request_must_show(served: HttpServer) -> None:
    """A page of another origin, another name for loopback, no token: nothing of the request is read."""
    import httpx2

    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    accepts = {"Accept": "application/json, text/event-stream"}
    good = {**served.headers, **accepts}

    def post(headers: dict[str, str], path: str = "") -> int:
        return int(httpx2.post(served.url + path, json=body, headers=headers).status_code)

    assert post(accepts) == 401
    assert post({**accepts, "Authorization": "Bearer wrong"}) == 401
    assert post({**accepts, "Authorization": f"Basic {served.token}"}) == 401
    assert post({**good, "Host": "attacker.example.org"}) == 421
    assert post({**good, "Host": "127.0.0.1:1"}) == 421
    assert post({**good, "Origin": "https://attacker.example.org"}) == 403
    assert post({**good, "Origin": "null"}) == 403
    assert post(good, "/a/b") == 404
    assert post(good, "/..%2f") == 404
    assert post(good) == 200  # it is read; that its parameters are wrong is said in the answer
    assert post({**good, "Mcp-Session-Id": "0" * 32}) == 404
    for data, status in ((b"{", 400), (b"\xff", 400), (b"x" * (33 * 1024 * 1024), 413)):
        typed = {**good, "Content-Type": "application/json"}
        assert httpx2.post(served.url, content=data, headers=typed).status_code == status


def test_the_token_is_in_a_private_file_while_the_server_runs(home: McpHome) -> None:
    from support.mcp_clients import CORRAL, http_server

    with http_server(home, home.environment) as server:
        assert server.token_file.stat().st_mode & 0o777 == 0o600
        assert len(server.token) == 64
        line = f"cat {server.token_file} {home.secret}"
        confined = (CORRAL, "run", "--read", str(home.state), "--read", str(home.secret), "-c", line)
        done = subprocess.run(
            confined, cwd=home.project, env=home.environment, capture_output=True, text=True
        )
        assert done.stdout == "hunter2"  # no command can read it, whatever is granted around it

        assert server.end(signal.SIGTERM) == 143

    assert not server.token_file.exists()


def test_answers_are_in_json_that_has_no_line_feed(server: RawServer) -> None:
    """Whatever a command prints: a message is a line."""
    answer = server.call(92, "bash", command=r"printf 'a\nb\r\x00\xff\xe2\x80\xa8{\"jsonrpc\"}\n'")

    assert text_of(answer) == 'a\nb\r\x00�\u2028{"jsonrpc"}'
    assert json.dumps(answer)
