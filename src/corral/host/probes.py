"""Probes, remembered: what a backend found out about this host is true until the next boot.

Trying a sandbox costs as much as using one. The answer is kept in a file of the user's own state
directory and believed only while boot, kernel, user, corral, launcher and whatever else the backend says
that it depends on are the ones it was found with. That something does not work is never remembered: it may
be fixed at any time. A probe that is out of date does no harm: the launch itself fails then, and the
command does not run.
"""

from __future__ import annotations

import contextlib
import os

from corral import __version__
from corral.host.real import state_directory
from corral.host.state import read_state, write_state
from corral.model.feature import Feature
from corral.model.probe import LIMITS_FILE, Dependence, Probe, read_hard_limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.host.real import RealHost
    from corral.model.backend import Backend

_MAX_BYTES = 16_384
_NOTHING = Dependence()
_APPROXIMATES = "~"  # begins the lines about what is only approximated; no name of a detail does


def probe_remembered(backend: Backend, host: RealHost) -> Probe:
    """Return what is known of a backend, or find it out."""
    name = f"probe-{backend.name}"
    key = _key(host, getattr(backend, "depends", _NOTHING))
    known = _decode(os.fsdecode(read_state(name, _MAX_BYTES)), key, backend.name)
    if known is not None:
        return known
    probe = backend.probe(host)
    if probe.available and key:
        with contextlib.suppress(OSError):  # such a host simply remembers nothing
            write_state(name, os.fsencode(_encode(probe, key)))
    return probe


def forget(backend: str) -> None:
    """A launch failed where the probe had succeeded: find it out again next time."""
    try:
        os.unlink(os.path.join(state_directory(), f"probe-{backend}"))
    except OSError:
        return


def _key(host: RealHost, depends: Dependence) -> str:
    """Everything that the answer depends on, in one line; empty if it cannot be told."""
    launcher, _ = host.launcher()
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        identity = _identity(launcher)
    except OSError:
        return ""
    parts = (
        *(__version__, boot, os.uname().release, host.uid, launcher, identity),
        *(host.limits_key(), host.processors()),
        *(f"{name}={_program(host.which(name))}" for name in depends.programs),
        *(f"{name}={_digest(host.environment().get(name))}" for name in depends.variables),
        *(read_hard_limits(host.read_text(LIMITS_FILE, 8192)) if depends.hard_limits else ()),
    )
    return " ".join(map(str, parts))


def _identity(path: str) -> str:
    status = os.stat(path)
    return f"{status.st_mtime_ns} {status.st_size} {status.st_ino}"


def _program(path: str) -> str:
    """Which program it is, links followed; empty for none."""
    try:
        return f"{path!r} {_identity(path)}" if path else ""
    except OSError:
        return ""


def _digest(value: str | None) -> str:
    """A value as it may be written down: it may be a secret, or have several lines."""
    if value is None:
        return ""
    import hashlib  # a plain run has no such backend

    return hashlib.sha256(os.fsencode(value)).hexdigest()


def _encode(probe: Probe, key: str) -> str:
    features = ",".join(sorted(feature.value for feature in probe.enforces))
    lines = [key, probe.backend, probe.version, features]
    lines += [f"{_APPROXIMATES}{feature.value}={how}" for feature, how in probe.approximates]
    return "\n".join([*lines, *(f"{name}={value}" for name, value in probe.details)]) + "\n"


def _decode(text: str, key: str, backend: str) -> Probe | None:
    lines = text.splitlines()
    if len(lines) < 4 or not key or lines[0] != key or lines[1] != backend:
        return None
    pairs = [line.partition("=")[::2] for line in lines[4:]]
    try:
        enforces = frozenset(Feature(name) for name in lines[3].split(","))
        approximates = tuple((Feature(name[1:]), how) for name, how in pairs if name[:1] == _APPROXIMATES)
    except ValueError:
        return None
    details = tuple((name, value) for name, value in pairs if name[:1] != _APPROXIMATES)
    return Probe(backend, True, enforces, version=lines[2], details=details, approximates=approximates)
