"""The worker: what runs inside the sandbox. It takes one call, answers it, and is gone.

Corral sends this module and the codec on stdin, compiled, before the call; so neither corral nor anything
else has to be installed inside. It imports the standard library only.

ORDER: the answer's channel is taken from stdout before anything of the caller's is imported. From then on
what the function prints goes to stderr, and can never be taken for an answer.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: What is told of an error; the host takes no more either.
TRACEBACK_CHARACTERS = 65_536
#: The name under which a main file runs here, the same as with multiprocessing: libraries know it.
MAIN = "__mp_main__"


def serve(codec: Any, call: bytes) -> None:
    """Answer one call and end the process."""
    channel = os.dup(1)  # not inherited by programs that the function starts
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    # The host has made it, so it is taken at whatever size it has.
    everything = codec.Bounds(len(call), len(call), 1000, float("inf"))
    token, bounds, place, target, args, kwargs = codec.decode(call, everything)
    limits = codec.Bounds(*bounds)
    answer = _answer(codec, limits, token, lambda: _prepare(place, target)(*args, **kwargs))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # the function has closed or replaced it
            continue
    while answer:
        answer = answer[os.write(channel, answer) :]
    os._exit(0)  # threads that the function has left do not keep the answer waiting


def _answer(codec: Any, limits: Any, token: bytes, compute: Any) -> bytes:
    try:
        value = compute()
    except BaseException as error:  # SystemExit as well: it is an answer like any other
        name, message, trace = _describe(error)
        return bytes(codec.encode((token, "raised", name, message, trace)))
    try:
        return bytes(codec.encode((token, "value", value), limits))
    except codec.CodecError as problem:
        return bytes(codec.encode((token, "refused", str(problem)[:1000])))


def _describe(error: BaseException) -> tuple[str, str, str]:
    """Type, message and traceback as text; what describing it raises is told instead."""
    cls = type(error)
    name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    try:
        import traceback

        message = str(error)
        trace = error.__traceback__  # without the frames of this module
        while trace is not None and trace.tb_frame.f_globals is globals():
            trace = trace.tb_next
        text = "".join(traceback.format_exception(cls, error, trace))
    except Exception as problem:
        message, text = f"(it cannot be described: {type(problem).__name__})", ""
    return str(name)[:1000], str(message)[:TRACEBACK_CHARACTERS], text[-TRACEBACK_CHARACTERS:]


def _prepare(place: dict[str, Any], target: dict[str, str]) -> Any:
    """Import what the caller had imported, and find the function."""
    sys.path[:] = place["path"]
    sys.prefix, sys.exec_prefix, sys.executable = place["prefix"], place["exec_prefix"], place["executable"]
    sys.argv = [target["main_path"]]  # the caller's own may hold anything
    if target["module"] == "__main__":
        _run_main(target["main_name"], target["main_path"])
    from importlib import import_module

    found: Any = import_module(target["module"])
    for part in target["name"].split("."):
        found = getattr(found, part)
    return found


def _run_main(name: str, path: str) -> None:
    """Run the main file under another name, so that `if __name__ == "__main__"` does not hold."""
    import runpy
    from types import ModuleType

    main = ModuleType(MAIN)
    content = (
        runpy.run_module(name, run_name=MAIN, alter_sys=True) if name else runpy.run_path(path, run_name=MAIN)
    )
    main.__dict__.update(content)
    sys.modules["__main__"] = sys.modules[MAIN] = main
