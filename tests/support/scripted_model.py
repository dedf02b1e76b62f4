"""A model server on loopback that says what a script has it say, in the protocols of three vendors.

A script is a list of shell commands. Each request that has tools is answered with the next of them, as a call
of the agent's own shell tool; then with a last word. What the agent says of each call is in `results`.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, Self

    Event = tuple[str, dict[str, Any]]


class ScriptedModel:
    """Serves one agent, for as long as the `with` block lasts."""

    def __init__(self, commands: Sequence[str | Mapping[str, Any]], *, tool: str = "") -> None:
        self.calls = [command if isinstance(command, dict) else {"command": command} for command in commands]
        self.tool = tool  # what commands are passed to; of Anthropic's it is Bash, or a server's
        self.requests: list[dict[str, Any]] = []
        self._turn = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def results(self) -> list[str]:
        """What the agent has said about each call, in the order of the calls."""
        return list(_results(self.requests[-1])) if self.requests else []

    def answer(self, request: dict[str, Any], *, as_responses: bool) -> list[Event]:
        """The events of the next turn."""
        with self._turn:
            if not request.get("tools"):  # a title, a summary: nothing of the script
                return list(_responses(None, 0, "") if as_responses else _messages(None, 0, ""))
            self.requests.append(request)
            number = sum(1 for _ in _results(request))
            call = self.calls[number] if number < len(self.calls) else None
            if as_responses:
                return list(_responses(call, number, self.tool))
            return list(_messages(call, number, self.tool if self.tool.startswith("mcp__") else "Bash"))


def _results(request: dict[str, Any]) -> Iterator[str]:
    for message in request.get("messages", ()):
        content = message["content"] if isinstance(message["content"], list) else []
        for block in content:
            if block.get("type") == "tool_result":
                yield _text(block.get("content"))
    for item in request.get("input", ()):
        if item.get("type") in {"function_call_output", "custom_tool_call_output"}:
            yield _text(item["output"])


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(block.get("text", "")) for block in content)
    return str(content)


def _messages(call: dict[str, Any] | None, number: int, tool: str) -> Iterator[Event]:
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": "Done."}
    if call is not None:
        block = {"type": "tool_use", "id": f"toolu_{number:04d}", "name": tool, "input": {}}
        arguments = {"description": "a step", **call} if tool == "Bash" else call
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    usage = {"input_tokens": 1, "output_tokens": 1}
    start = {"id": f"msg_{number:04d}", "type": "message", "role": "assistant", "model": "scripted"}
    start |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield "message_start", {"message": start}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    reason = "end_turn" if call is None else "tool_use"
    yield "message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield "message_stop", {}


def _responses(call: dict[str, Any] | None, number: int, tool: str) -> Iterator[Event]:
    response: dict[str, Any] = {"id": f"resp_{number:04d}", "object": "response", "output": []}
    item: dict[str, Any] = {"type": "message", "role": "assistant", "id": f"msg_{number:04d}"}
    item |= {"content": [{"type": "output_text", "text": "Done."}]}
    if call is not None:
        name = "cmd" if tool == "exec_command" else "command"
        arguments = {name: call["command"], **{key: call[key] for key in call if key != "command"}}
        item = {"type": "function_call", "id": f"fc_{number:04d}", "call_id": f"call_{number:04d}"}
        server, _, name = tool.rpartition("__")  # Codex has the tools of an MCP server in its namespace
        item |= {
            "name": name,
            "arguments": json.dumps(arguments),
            **({"namespace": server} if server else {}),
        }
    yield "response.created", {"response": response}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage |= {"input_tokens_details": None, "output_tokens_details": None}
    yield "response.completed", {"response": {**response, "output": [item], "usage": usage}}


def whole_answer(path: str, request: dict[str, Any], calls: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The next turn without streaming: Anthropic's Messages, OpenAI's chat completions, Gemini's contents."""
    if path.endswith(":generateContent"):
        parts = [part for content in request["contents"] for part in content["parts"]]
        number = sum(1 for part in parts if "functionResponse" in part)
        call = {"functionCall": {"name": "bash", "args": calls[number]}} if number < len(calls) else None
        return {"candidates": [{"content": {"role": "model", "parts": [call or {"text": "Done."}]}}]}
    if path.endswith("/chat/completions"):
        number = sum(1 for message in request["messages"] if message["role"] == "tool")
        message: dict[str, Any] = {"role": "assistant", "content": "Done."}
        if number < len(calls):
            function = {"name": "bash", "arguments": json.dumps(calls[number])}
            wanted = {"id": f"call_{number}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [wanted]}
        return {"choices": [{"message": message}]}
    number = sum(1 for _ in _results(request))
    content: list[dict[str, Any]] = [{"type": "text", "text": "Done."}]
    if number < len(calls):
        content = [{"type": "tool_use", "id": f"toolu_{number}", "name": "bash", "input": calls[number]}]
    return {
        "role": "assistant",
        "content": content,
        "stop_reason": "tool_use" if number < len(calls) else "end_turn",
    }


def _handler(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply(b'{"data": [], "models": []}', "application/json")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = self.path.partition("?")[0]
            request = json.loads(body) if body else {}
            if not request.get("stream") and request.get("tools"):
                model.requests.append(request)
                self._reply(json.dumps(whole_answer(path, request, model.calls)).encode(), "application/json")
                return
            if not path.endswith(("/messages", "/responses")):
                self._reply(b'{"input_tokens": 1}', "application/json")
                return
            events = model.answer(request, as_responses=path.endswith("/responses"))
            lines = (
                f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n" for name, fields in events
            )
            self._reply("".join(lines).encode(), "text/event-stream")

        def _reply(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
