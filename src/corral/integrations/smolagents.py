"""smolagents: an executor for the code of a CodeAgent, in a sandbox.

    from corral.integrations.smolagents import CorralExecutor

    with CorralExecutor(corral.Sandbox(workspace="project")) as executor:
        agent = CodeAgent(tools=[], model=model, executor=executor)

One Python runs in the sandbox and keeps its variables from step to step. What it answers is data: no pickle
is ever loaded.
"""

from __future__ import annotations

import json

from corral.integrations.agent_session import AgentSession
from corral.integrations.framework import missing_framework

try:
    from smolagents.local_python_executor import CodeOutput
    from smolagents.monitoring import AgentLogger, LogLevel
    from smolagents.remote_executors import RemotePythonExecutor
    from smolagents.utils import AgentError
except ImportError as problem:
    raise missing_framework("smolagents", "smolagents", problem) from problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from corral.sandbox import Sandbox
    from corral.sessions.background import Background

_PLACE = "/tmp/.corral-python"
_START_SECONDS = 30.0
#: Reads a program at a time from one FIFO, and writes an answer as JSON to the other.
_SERVER = r"""
import ast, contextlib, io, json, os, sys, traceback
place, most = sys.argv[1], int(sys.argv[2])
os.makedirs(place, exist_ok=True)
for name in ("in", "out"):
    os.mkfifo(f"{place}/{name}")
state = {"__name__": "__main__"}
print("ready", flush=True)

def run(code):
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<step>", "exec"), state)
    return None if last is None else eval(compile(ast.Expression(last.value), "<step>", "eval"), state)

while True:
    with open(f"{place}/in", encoding="utf-8") as file:
        code = file.read()
    logs = io.StringIO()
    answer = {"value": "", "final": "", "error": ""}
    with contextlib.redirect_stdout(logs), contextlib.redirect_stderr(logs):
        try:
            value = run(code)
            answer["value"] = "" if value is None else str(value)[:most]
        except BaseException as problem:
            if type(problem).__name__ == "FinalAnswerException":
                answer["final"] = str(problem.value)
            else:
                answer["error"] = traceback.format_exc()[-most:]
    text = logs.getvalue()
    answer["logs"] = text if len(text) <= most else text[: most // 2] + "\n[...]\n" + text[-most // 2 :]
    with open(f"{place}/out", "w", encoding="utf-8") as file:
        file.write(json.dumps(answer))
"""


class CorralExecutor(RemotePythonExecutor):
    """One sandbox with one Python, made at the first step; `close` ends both."""

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        *,
        session: AgentSession | None = None,
        timeout: float | None = 60,
        output_characters: int = 30_000,
    ) -> None:
        """`session` is one that is there already, to be shared; `timeout` is for each step, in seconds."""
        super().__init__([], AgentLogger(level=LogLevel.OFF), allow_pickle=False)
        self.session = session if session is not None else AgentSession(sandbox)
        self._timeout, self._most = timeout, output_characters
        self._server: Background | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox and everything in it."""
        self.session.close()

    cleanup = close

    def install_packages(self, additional_imports: list[str]) -> list[str]:
        """Nothing is installed: what the sandbox's Python has, code can import."""
        return []

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        """Run one step. Raises AgentError for what is to be told to the model."""
        self._start()
        talk = ("/bin/sh", "-c", f"cat > {_PLACE}/in && cat {_PLACE}/out")
        done = self.session.run(talk, stdin=code, timeout=self._timeout)
        answer = _read(done.stdout) if done.exit_code == 0 and not done.is_truncated else None
        if answer is None:
            why = (
                "the step timed out"
                if done.is_timed_out
                else "its Python ended, or said nothing that is an answer"
            )
            self._stop()
            raise AgentError(f"{why}; all variables are lost", self.logger)
        if answer["final"]:
            value = self._deserialize_final_answer(answer["final"], allow_pickle=False)
            return CodeOutput(output=value, logs=answer["logs"], is_final_answer=True)
        if answer["error"]:
            told = self.session.explain(answer["error"])
            raise AgentError(f"{answer['logs']}\n{answer['error']}{told}".lstrip("\n"), self.logger)
        return CodeOutput(output=answer["value"], logs=answer["logs"], is_final_answer=False)

    def _start(self) -> None:
        if self._server is not None and self._server.is_running:
            return
        argv = ("python3", "-c", _SERVER, _PLACE, str(self._most))
        self.session.run(("rm", "-rf", _PLACE))
        self._server = self.session.open().start(argv)
        if b"ready" not in self._server.read(timeout=_START_SECONDS):
            problem = self._server.read("stderr").decode("utf-8", "replace")
            self._stop()
            raise AgentError(f"no Python could be started in the sandbox: {problem[-500:]}", self.logger)

    def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.kill()


def _read(data: bytes) -> dict[str, Any] | None:
    """An answer, if it is one: the code of a step can write what it likes."""
    try:
        answer = json.loads(data)
    except ValueError:
        return None
    names = ("value", "final", "error", "logs")
    is_answer = isinstance(answer, dict) and all(isinstance(answer.get(name), str) for name in names)
    return answer if is_answer else None
