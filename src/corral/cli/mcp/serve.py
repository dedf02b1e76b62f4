"""`corral mcp serve`: from options to a server."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys

from corral.cli.request import build_request
from corral.cli.run import announce, report_error, say
from corral.model.errors import CorralError, PolicyError, SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from corral.audit.recorder import Recorder
    from corral.cli.request import Request
    from corral.config.configuration import Configuration
    from corral.integrations.mcp_server.client_sandbox import ServerSettings

_AGENT = "mcp"
_MOST_PORT = 65535
_ROTATE_BYTES = 64 * 1024 * 1024


def serve(options: Mapping[str, Any], http: str | None) -> int:
    """Serve a client on stdio, or several over HTTP; returns the exit status."""
    try:
        check_sdk()
        request = build_server_request(options)
        announce(request, verbose=bool(options["verbose"]), as_json=False)
        settings = make_settings(request, options["agent"] or "")
        if http is not None:
            _collect_garbage()
            return _serve_http(settings, _port(http))
    except CorralError as error:
        return report_error(error, as_json=False, about_command=False)
    from corral.integrations.mcp_server.stdio import serve_stdio

    if sys.stdin.isatty():
        say("waiting for a client on stdin; `corral mcp install CLIENT` puts this server into an agent")
    _collect_garbage()
    return serve_stdio(settings)


def _collect_garbage() -> None:
    """From here on. It is off for commands that end soon, and need not look at what is there by now."""
    gc.freeze()
    gc.enable()


def check_sdk() -> None:
    """Raise SetupError if the official SDK is missing."""
    from importlib import import_module

    try:
        import_module("mcp.server.streamable_http_manager")
    except ImportError as problem:
        raise SetupError(
            "mcp-missing",
            "the MCP server cannot start",
            why=f"the official SDK is not there, or too old: {problem}",
            fix="pip install 'corral[mcp]'",
        ) from problem


def build_server_request(options: Mapping[str, Any]) -> Request:
    """The sandbox of a server's clients. Raises CorralError; PolicyError where nothing would confine them."""
    try:
        request = build_request(options)
    except PolicyError as error:
        # What `corral mcp install` writes names the client, and few have settings of their own.
        if error.code != "unknown-agent" or options["agent"] is None:
            raise
        request = build_request({**options, "agent": None})
    if request.sandbox.is_unconfined:
        raise PolicyError(
            "mcp-unconfined",
            "the MCP server does not start",
            why="this policy has no sandbox, and its tools are for commands that nobody has read",
            fix="choose another backend or profile",
        )
    refusal = request.sandbox.refusal()
    if refusal is not None:
        raise refusal
    return request


def make_settings(request: Request, agent: str) -> ServerSettings:
    """What holds for every client."""
    from corral.audit import caller
    from corral.integrations.mcp_server.client_sandbox import ServerSettings

    caller.agent = agent or _AGENT
    configuration = request.configuration
    if configuration is None:
        return ServerSettings(request.sandbox, agent)

    def check(command: str) -> list[str]:
        return _check(configuration, command)

    return ServerSettings(
        request.sandbox,
        agent,
        asks_unconfined=configuration.asks_unconfined,
        record_unconfined=lambda command: _record(configuration, caller.agent, command),
        check=check if configuration.check_mode != "off" else None,
        keeps=configuration.keep_alive,
    )


def _check(configuration: Configuration, command: str) -> list[str]:
    from corral.shell_check.apply import apply_check

    said: list[str] = []
    apply_check(configuration.check_mode, command, rules=configuration.check_rules, say=said.append, ask=None)
    return said


def _record(configuration: Configuration, agent: str, command: str) -> Recorder:
    """A run without a sandbox is in the audit log, also where others are not; or it does not begin.

    The log has no commands, so its text goes where those of agents' hooks are. Raises OSError.
    """
    from corral.audit.recorder import REFUSE
    from corral.cli.hook.unconfined import record
    from corral.config.audit import make_recorder

    record(agent, command)
    return make_recorder(_ROTATE_BYTES, REFUSE, configuration.audit_key, configuration.agent)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _MOST_PORT:
        raise PolicyError(
            "mcp-port",
            f"--http {text} is not a port",
            why=f"it is a number from 0 to {_MOST_PORT}",
            fix="--http 0 takes a free one",
        )
    return int(text)


def _serve_http(settings: ServerSettings, port: int) -> int:
    from corral.integrations.mcp_server.http import ENDED_BY, LOOPBACK, listen, make_token, serve_http

    token = make_token()
    # ORDER: the server takes them when it is ready. One in between would leave the token behind.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDED_BY)
    with contextlib.closing(listen(port)) as listener:
        taken = listener.getsockname()[1]
        with _token_file(token, taken) as path:
            sys.stdout.write(
                f"url:   http://{LOOPBACK}:{taken}/mcp\n"
                f"token: {path}\n"
                f"Clients send the header `Authorization: Bearer TOKEN`; the file has TOKEN, for you alone.\n"
            )
            sys.stdout.flush()
            return serve_http(settings, listener, token)


@contextlib.contextmanager
def _token_file(token: str, port: int) -> Iterator[str]:
    """The token in a file that no other user and no sandbox can read, while the server runs."""
    from corral.host.real import HIDDEN, state_directory
    from corral.host.state import write_state

    name = f"{HIDDEN}/mcp-{port}.token"
    try:
        write_state(name, token.encode())
    except OSError as problem:
        raise SetupError(
            "mcp-token",
            "the token of the server cannot be kept",
            why=problem.strerror or str(problem),
            fix="check that you can write to your state directory, or set XDG_STATE_HOME",
        ) from problem
    path = os.path.join(state_directory(), name)
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
