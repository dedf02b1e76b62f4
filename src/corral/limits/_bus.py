"""A D-Bus connection by way of libsystemd, which is wherever systemd is.

Of its functions only those with fixed arguments are used: ctypes cannot call the others right on every
machine. Nothing calls back either: messages are taken from the connection one at a time, so that one
deadline holds for everything, from the handshake to the last signal.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
from ctypes import byref, c_char, c_char_p, c_int, c_uint32, c_uint64, c_void_p

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

_LIBRARY = "libsystemd.so.0"
_CREDENTIAL_PID, _CREDENTIAL_EUID = 1 << 0, 1 << 4
_NUMBERS: dict[str, Any] = {"u": c_uint32, "t": c_uint64, "b": c_int}
_LETTERS: dict[str, Any] = {"p": c_void_p, "s": c_char_p, "i": c_int, "c": c_char, "t": c_uint64}
#: p: a pointer or an address, s: a text, i: an int, c: a letter, t: 64 bits. Each returns an int.
_FUNCTIONS = {
    "sd_bus_new": "p",
    "sd_bus_set_address": "ps",
    "sd_bus_set_bus_client": "pi",
    "sd_bus_start": "p",
    "sd_bus_send": "ppp",
    "sd_bus_process": "pp",
    "sd_bus_wait": "pt",
    "sd_bus_get_owner_creds": "ptp",
    "sd_bus_creds_get_pid": "pp",
    "sd_bus_creds_get_euid": "pp",
    "sd_bus_message_new_method_call": "ppssss",
    "sd_bus_message_set_auto_start": "pi",
    "sd_bus_message_append_basic": "pcp",
    "sd_bus_message_open_container": "pcs",
    "sd_bus_message_close_container": "p",
    "sd_bus_message_read_basic": "pcp",
    "sd_bus_message_enter_container": "pcs",
    "sd_bus_message_exit_container": "p",
    "sd_bus_message_skip": "ps",
    "sd_bus_message_is_signal": "pss",
    "sd_bus_message_is_method_error": "ps",
    "sd_bus_message_get_reply_cookie": "pp",
    "sd_bus_error_get_errno": "p",
}
#: Each takes a pointer and returns one, or nothing.
_POINTERS = (
    *("sd_bus_close", "sd_bus_unref", "sd_bus_message_unref", "sd_bus_creds_unref"),
    "sd_bus_message_get_error",
)


class BusError(OSError):
    """The other side answered with an error; `name` is what D-Bus calls it."""

    name = ""


class _ErrorFields(ctypes.Structure):
    """The public beginning of `sd_bus_error`, see sd-bus-errors(3)."""

    _fields_ = (("name", c_char_p), ("message", c_char_p))


class Message:
    """One message: a call, to be filled in order, or what came, to be read in order."""

    def __init__(self, library: ctypes.CDLL, pointer: c_void_p) -> None:
        self._library = library
        self.pointer = pointer

    def append(self, kind: str, value: str | int) -> Self:
        """Append a text (`s`), a number of 32 (`u`) or 64 bits (`t`), or a truth value (`b`)."""
        place = value.encode() if isinstance(value, str) else byref(_NUMBERS[kind](value))
        _check(self._library.sd_bus_message_append_basic(self.pointer, kind.encode(), place))
        return self

    def open(self, kind: str, contents: str) -> Self:
        """Begin an array (`a`), a structure (`r`) or a variant (`v`) of that signature."""
        _check(self._library.sd_bus_message_open_container(self.pointer, kind.encode(), contents.encode()))
        return self

    def close(self) -> Self:
        """End what was begun last."""
        _check(self._library.sd_bus_message_close_container(self.pointer))
        return self

    def read(self, kind: str) -> str:
        """Read a text (`s`) or the path of an object (`o`)."""
        text = c_char_p()
        if not _check(self._library.sd_bus_message_read_basic(self.pointer, kind.encode(), byref(text))):
            raise OSError(errno.EBADMSG, "the answer is shorter than it should be")
        return (text.value or b"").decode("utf-8", "replace")

    def enter(self, kind: str, contents: str) -> bool:
        """Go into the next array, structure or variant; whether there was one."""
        return bool(
            _check(
                self._library.sd_bus_message_enter_container(self.pointer, kind.encode(), contents.encode())
            )
        )

    def leave(self) -> None:
        """Leave what was entered last, all of which has been read."""
        _check(self._library.sd_bus_message_exit_container(self.pointer))

    def skip(self, signature: str) -> None:
        """Read over values that nobody needs."""
        _check(self._library.sd_bus_message_skip(self.pointer, signature.encode()))


class BusConnection:
    """One connection, for as long as a `with` lasts. Every method raises OSError, when late TimeoutError."""

    def __init__(self, address: str, *, has_daemon: bool, deadline: float) -> None:
        self._library = _load()
        self._deadline = deadline
        self.has_daemon = has_daemon
        self._messages: list[Message] = []
        self._waiting: list[Message] = []  # came while something else was waited for
        self._bus = c_void_p()
        _check(self._library.sd_bus_new(byref(self._bus)))
        try:
            _check(self._library.sd_bus_set_address(self._bus, address.encode()))
            _check(self._library.sd_bus_set_bus_client(self._bus, has_daemon))
            _check(self._library.sd_bus_start(self._bus))
        except OSError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release everything; messages of this connection must not be used any more."""
        for message in self._messages:
            self._library.sd_bus_message_unref(message.pointer)
        self._messages.clear()
        self._waiting.clear()
        self._library.sd_bus_close(self._bus)
        self._bus = c_void_p(self._library.sd_bus_unref(self._bus))

    def new_call(self, service: str, path: str, interface: str, member: str) -> Message:
        """An empty call of a method; a service that does not run is not started for it."""
        pointer = c_void_p()
        names = (text.encode() for text in (service, path, interface, member))
        _check(self._library.sd_bus_message_new_method_call(self._bus, byref(pointer), *names))
        _check(self._library.sd_bus_message_set_auto_start(pointer, 0))
        return self._keep(pointer)

    def call(self, message: Message) -> Message:
        """Send a call and return its answer. Raises BusError if that is an error."""
        cookie, answered = c_uint64(), c_uint64()
        _check(self._library.sd_bus_send(self._bus, message.pointer, byref(cookie)))
        while True:
            answer = self._receive()
            reply_to = self._library.sd_bus_message_get_reply_cookie(answer.pointer, byref(answered))
            if reply_to >= 0 and answered.value == cookie.value:
                break
            self._waiting.append(answer)
        if self._library.sd_bus_message_is_method_error(answer.pointer, None) > 0:
            raise self._error(answer)
        return answer

    def next_signal(self, interface: str, member: str) -> Message:
        """Return the next signal of that name, also one that came during a call."""
        while True:
            message = self._waiting.pop(0) if self._waiting else self._receive()
            names = (interface.encode(), member.encode())
            if self._library.sd_bus_message_is_signal(message.pointer, *names) > 0:
                return message

    def peer(self) -> tuple[int, int]:
        """(pid, uid) of whoever made the socket; the pid is 0 if that is in another PID namespace."""
        credentials, pid, uid = c_void_p(), c_int(0), c_uint32()
        wanted = _CREDENTIAL_PID | _CREDENTIAL_EUID
        found = self._library.sd_bus_get_owner_creds(self._bus, wanted, byref(credentials))
        if found == -errno.ENODATA:  # libsystemd says nothing at all of a process that we cannot see
            return 0, -1
        _check(found)
        try:
            self._library.sd_bus_creds_get_pid(credentials, byref(pid))
            _check(self._library.sd_bus_creds_get_euid(credentials, byref(uid)))
        finally:
            self._library.sd_bus_creds_unref(credentials)
        return pid.value, uid.value

    def _receive(self) -> Message:
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(errno.ETIMEDOUT, "no answer in time")
            pointer = c_void_p()
            did = _check(self._library.sd_bus_process(self._bus, byref(pointer)))
            if pointer:
                return self._keep(pointer)
            if not did:
                waited = self._library.sd_bus_wait(self._bus, int(left * 1_000_000))
                # A signal may cut it short; Python has handled that by now.
                if waited != -errno.EINTR:
                    _check(waited)

    def _keep(self, pointer: c_void_p) -> Message:
        self._messages.append(Message(self._library, pointer))
        return self._messages[-1]

    def _error(self, answer: Message) -> BusError:
        place = self._library.sd_bus_message_get_error(answer.pointer)
        fields = ctypes.cast(place, ctypes.POINTER(_ErrorFields)).contents
        name, text = ((field or b"").decode("utf-8", "replace") for field in (fields.name, fields.message))
        error = BusError(self._library.sd_bus_error_get_errno(place), text or name)
        error.name = name
        return error


def escape(path: str) -> str:
    """Write a path as addresses of D-Bus want it."""
    return "".join(
        chr(byte) if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in "-_/.") else f"%{byte:02x}"
        for byte in os.fsencode(path)
    )


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(_LIBRARY)  # the loader knows it when it is loaded already
    try:
        for name, letters in _FUNCTIONS.items():
            getattr(library, name).argtypes = [_LETTERS[letter] for letter in letters]
            getattr(library, name).restype = c_int
        for name in _POINTERS:
            getattr(library, name).argtypes = [c_void_p]
            getattr(library, name).restype = c_void_p
    except AttributeError as missing:
        raise OSError(errno.ENOSYS, f"{_LIBRARY} is too old: {missing}") from missing
    return library


def _check(result: int) -> int:
    """Functions of libsystemd return an error as a negative number."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result
