"""After a run: leave its plan behind, so that the entry program can do the next one like it by itself."""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import time

from corral.cli.options import OF_A_TRIAL, OPTIONS
from corral.cli.request import build_request
from corral.cli.seen import facts_of
from corral.compiled_plans.compiler import build_of
from corral.compiled_plans.stored import caller_environment, compile_run
from corral.compiled_plans.traced_host import Trace
from corral.config.find import working_directory
from corral.config.traced import note_configuration
from corral.git_check.remembered import forget_oldest
from corral.host.real import state_directory, stored_directory
from corral.model.errors import CorralError
from corral.streams.callers_outputs import leads_past_corral
from corral.untrusted_files.quarantine import make_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from corral.cli.request import Request
    from corral.model.launch import Launch
    from corral.model.plan import Plan

#: Variables that no planning reads. Their values differ from one command to the next.
LEFT_OUT = ("COLUMNS", "LINES", "OLDPWD", "SHLVL", "_")
#: What Python does itself during a run, or says after it.
_ONLY_PYTHON = (
    *("terminal", "stats", "trace", "debug", "on_refusal", "json", "verbose", "image"),
    *OF_A_TRIAL,
)
#: Time stamps are as coarse as the kernel's tick; a younger one may hide a second change.
_TICK_NS = 20_000_000
_MOST_FILES = 512
#: After the name of what could not be stored, and for how long nobody tries again.
_IN_VAIN, _IN_VAIN_SECONDS = ".not", 600.0


def store(
    options: Mapping[str, Any], arguments: list[str], request: Request, ran: tuple[Plan, Launch]
) -> None:
    """Store the plan of a request that was carried out, if the entry program can do all that it takes.

    Nothing depends on it: where that fails, the next such run is Python's again.
    """
    if _is_for_python(options, request):
        return
    with contextlib.suppress(CorralError, OSError, ValueError, TypeError):
        hears = _passes_by(ran[0])
        in_vain = f"{request_key(arguments, '', hears=hears).hex()}{_IN_VAIN}"
        if _was_in_vain(in_vain):
            return
        _write(in_vain, b"")  # until it is known otherwise
        began, trace = time.time_ns(), Trace()
        place = os.path.realpath(os.path.join(working_directory(), options["cwd"] or ""))
        if not options["no_config"]:
            note_configuration(trace, place, options["config"])
        for path in options["deny_from"]:
            trace.note_content(os.path.abspath(path))
        trace.note_content(os.path.join(state_directory(), "told"))
        key = request_key(arguments, build_of(ran[1].argv[0]), hears=hears)
        sandbox = build_request(options, request.command).sandbox
        data = compile_run(sandbox, trace, ran, key, facts_of(sandbox, ran[1].backend, options))
        if data is not None and trace.newest_ns < began - _TICK_NS:
            _write(key.hex(), data)
        if data is not None:
            os.unlink(os.path.join(stored_directory(), in_vain))


def _passes_by(plan: Plan) -> bool:
    """Whether standard error would go past corral, as far as anybody can tell who has not seen the plan."""
    is_limited = plan.resolved.limits.output_bytes is not None
    return leads_past_corral() if is_limited else plan.hears


def _was_in_vain(name: str) -> bool:
    """Whether the same was tried a while ago in vain: to find that out takes as long as a run."""
    try:
        return time.time() - os.stat(os.path.join(stored_directory(), name)).st_mtime < _IN_VAIN_SECONDS
    except FileNotFoundError:
        return False


def _is_for_python(options: Mapping[str, Any], request: Request) -> bool:
    configuration = request.configuration
    said = configuration is not None and (
        configuration.cuts or configuration.bypass_tools or configuration.check_mode != "off"
    )
    is_elsewhere = os.path.join(state_directory(), "stored") != stored_directory()
    has_own = any(options[name] for name in _ONLY_PYTHON)
    is_nested = "CORRAL_SANDBOX" in os.environ
    return bool(said or is_elsewhere or has_own or is_nested or request.sandbox.recorder)


def request_key(arguments: list[str], build: str, *, hears: bool) -> bytes:
    """The name of a stored plan: a digest of all that a plan may depend on besides files.

    `entry/request.c` computes the same: whoever finds the file of that name has typed the same options in
    the same directory, with the same variables. Raises OSError.
    """
    parts = [(b"b", os.fsencode(build)), (b"d", os.fsencode(os.getcwd())), (b"h", b"1" if hears else b"0")]
    parts += ((b"o", os.fsencode(word)) for word in _options(arguments))
    parts += ((b"e", entry) for entry in sorted(caller_environment()) if not _is_left_out(entry))
    groups = b"".join(struct.pack("<I", group) for group in os.getgroups())
    return hashlib.sha256(b"".join(kind + text + b"\0" for kind, text in parts) + groups).digest()


def _options(arguments: list[str]) -> Iterator[str]:
    """The words up to the command, but for a shell line and the `--` at their end."""
    known = {flag: option for option in OPTIONS for flag in option.flags}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] not in {"-", "--"}:
        word = rest.pop(0)
        name, equals, _ = word.partition("=") if word.startswith("--") else (word, "", "")
        words = [word, rest.pop(0)] if known[name].metavar and not equals else [word]
        yield from () if known[name].name == "line" else words


def _is_left_out(entry: bytes) -> bool:
    return entry.partition(b"=")[0].decode("utf-8", "surrogateescape") in LEFT_OUT


def _write(name: str, data: bytes) -> None:
    """Replace it as a whole."""
    directory = stored_directory()
    make_private(directory)
    temporary = os.path.join(directory, f"{name}.{os.urandom(4).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.rename(temporary, os.path.join(directory, name))
    except OSError:
        os.unlink(temporary)
        raise
    forget_oldest(directory, _MOST_FILES)
