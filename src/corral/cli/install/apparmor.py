"""A profile of AppArmor that lets corral's launcher make user namespaces.

Ubuntu restricts them to programs that have such a profile. It is named after the launcher's path, so that
several installations of corral have one each.
"""

from __future__ import annotations

import hashlib
import os
import tempfile

from corral.cli.install.install import Installation
from corral.host.programs import find_program
from corral.host.real import RealHost
from corral.model.errors import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

DIRECTORY = "/etc/apparmor.d"
_PARSER = "apparmor_parser"
_SECONDS = 60.0
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+- ")

#: The launcher is as free as without a profile, and may make user namespaces. What it starts has a second
#: profile besides, which takes them and every capability away. Commands have neither by corral's own means;
#: this is so that nobody gets them by way of the launcher. (Stacked, as Ubuntu does it for bwrap: a process
#: with no_new_privs can only be confined more.)
_TEXT = """\
# Written by `corral install apparmor`, for the launcher at the path below.
abi <abi/4.0>,
include <tunables/global>

profile {name} "{launcher}" flags=(attach_disconnected,mediate_deleted) {{
  allow userns,
  allow capability,
{everything}
  allow pix /** -> &{name}//&{name}-command,

  include if exists <local/{name}>
}}

profile {name}-command flags=(attach_disconnected,mediate_deleted) {{
  audit deny userns,
  audit deny capability,
{everything}
  allow pix /** -> &{name}-command,
}}
"""
_EVERYTHING = """\
  allow file rwlkm /{**,},
  allow network,
  allow unix,
  allow ptrace,
  allow signal,
  allow mqueue,
  allow io_uring,
  allow mount,
  allow umount,
  allow pivot_root,
  allow dbus,"""


def profile_name(launcher: str) -> str:
    """The name of the profile, and of its file."""
    return f"corral-launch-{hashlib.sha256(os.fsencode(launcher)).hexdigest()[:8]}"


def profile_text(launcher: str) -> str:
    """The profile for a launcher. Raises SetupError for a path that a profile cannot name."""
    if not _PLAIN.issuperset(launcher):
        raise SetupError(
            "install-path",
            "no profile can be written for the launcher",
            why=f"its path {launcher!r} has characters that mean something else in a profile",
            fix="install corral in a directory whose name has letters, digits and . _ + - only",
        )
    return _TEXT.format(name=profile_name(launcher), launcher=launcher, everything=_EVERYTHING)


def plan_profile(*, remove: bool = False, directory: str = DIRECTORY) -> Installation:
    """What is to be written and loaded, or taken out. Raises SetupError."""
    found, reason = RealHost().launcher()
    if not found:
        raise SetupError("launcher", "there is no launcher", why=reason, fix="install corral again")
    launcher = os.path.realpath(found)
    file = os.path.join(directory, profile_name(launcher))
    if remove:
        steps = (f"{_PARSER} --remove {file}", f"rm {file}")
        return Installation(steps, "Take the profile out?", lambda: _remove(file), needs_root=True)
    text = profile_text(launcher)
    words = (*text.splitlines(), *_owners(launcher), "", f"# in {file}, then: {_PARSER} --replace {file}")
    question = "Write and load this profile?"
    return Installation(words, question, lambda: _install(file, text), needs_root=True)


def _owners(launcher: str) -> Iterator[str]:
    """TRUST: the profile is for a path. Whoever can put another program there has what it permits."""
    path = launcher
    while path != "/":
        status = os.stat(path)
        if status.st_uid != 0 or (status.st_mode & 0o022 and not status.st_mode & 0o1000):
            yield ""
            yield f"# Note: {path} can be changed by others than root (user {status.st_uid})."
            yield "# Their programs can get user namespaces by replacing the launcher there. To prevent that,"
            yield "# install corral as root."
            return
        path = os.path.dirname(path)


def _install(file: str, text: str) -> str:
    parser = _find_parser()
    with tempfile.NamedTemporaryFile("w", prefix="corral-") as draft:
        draft.write(text)
        draft.flush()
        _call((parser, "--skip-kernel-load", "--skip-cache", draft.name), "the profile cannot be read")
    known = os.path.exists(file)
    with open(file, "w", encoding="utf-8") as profile:
        os.fchmod(profile.fileno(), 0o644)
        profile.write(text)
    try:
        _call((parser, "--replace", file), "the profile could not be loaded")
    except SetupError:
        if not known:
            os.unlink(file)
        raise
    return f"loaded: {file}; `corral doctor`, as yourself, says whether namespaces work now"


def _remove(file: str) -> str:
    if not os.path.exists(file):
        return f"there is no {file}: nothing was changed"
    _call((_find_parser(), "--remove", file), "the profile could not be removed")
    os.unlink(file)
    return f"removed: {file}"


def _find_parser() -> str:
    parser = find_program(_PARSER, ())
    if not parser:
        raise SetupError(
            "install-parser",
            "nothing was changed",
            why=f"there is no {_PARSER} on the PATH",
            fix="`apt-get install apparmor`; a host without AppArmor needs no profile",
        )
    return parser


def _call(argv: tuple[str, ...], what: str) -> None:
    said = RealHost().run_tool(argv, seconds=_SECONDS)
    if said.status != 0:
        lines = (said.errors or said.output).strip().splitlines()
        raise SetupError(
            "install-apparmor",
            what,
            why="; ".join(lines[-2:]) or f"{argv[0]} ended with {said.status}",
            fix="user namespaces in a profile need AppArmor 4.0 or newer, in the kernel as well",
        )
