"""Known ways out of a Seatbelt profile, each asked of the evaluator: services, second names, moves."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from pathlib import Path

import pytest

from corral.backends.registry import get_backend
from corral.model.errors import UnenforceableError
from corral.model.plan import StdioMode
from corral.policy.compose import build_policy
from corral.untrusted_files import removal
from support.mac import HOME, REPOSITORY, WORKSPACE, MacHost, mac_plan, mac_probe
from support.sbpl import OPERATIONS, Profile, Request

TOOLS = "/Library/Developer/CommandLineTools"
XCODE = "/Applications/Xcode-16.app/Contents/Developer"
FILES = {
    **REPOSITORY,
    f"{WORKSPACE}/secrets/key": "the secret",
    f"/System/Volumes/Data{WORKSPACE}/secrets/key": "the secret",
    f"{TOOLS}/usr/bin/git": "elf",
    f"{XCODE}/usr/bin/git": "elf",
    "/private/var/db/xcode_select_link": f"-> {XCODE}",
}
#: Who is asked for each way out: open(1) and `lsopen`; AppleScript; the clipboard; the keychain; consent;
#: Spotlight; preferences; the screen; notifications; lists of processes; disks; logs; launchd.
DOORS = (
    *("com.apple.coreservices.launchservicesd", "com.apple.launchservicesd", "com.apple.lsd.mapdb"),
    *("com.apple.coreservices.appleevents", "com.apple.pasteboard.1", "com.apple.SecurityServer"),
    *("com.apple.securityd.xpc", "com.apple.tccd", "com.apple.tccd.system", "com.apple.metadata.mds"),
    *("com.apple.cfprefsd.daemon", "com.apple.cfprefsd.agent", "com.apple.windowserver.active"),
    *("com.apple.distributed_notifications@Uv3", "com.apple.system.notification_center"),
    *("com.apple.sysmond", "com.apple.DiskArbitration.diskarbitrationd", "com.apple.FSEvents"),
    *("com.apple.logd", "com.apple.system.logger", "com.apple.xpc.launchd.domain.user"),
    *("com.apple.authd", "com.apple.security.authhost", "com.apple.backupd", "com.apple.usernoted.client"),
)
#: All that some rule of some profile allows; of every other operation nothing is.
EVER_ALLOWED = frozenset(
    """
    file-ioctl file-map-executable file-read-data file-read-metadata file-read-xattr file-write-create
    file-write-data file-write-flags file-write-mode file-write-owner file-write-times file-write-unlink
    file-write-xattr mach-lookup network-bind network-inbound network-outbound process-exec
    process-exec-interpreter process-fork process-info-listpids process-info-pidfdinfo process-info-pidinfo
    process-info-setcontrol pseudo-tty signal sysctl-read
    """.split()
)


def profile_of(*capabilities: str, stdio: StdioMode = StdioMode.CAPTURE) -> Profile:
    host = MacHost(FILES)
    probe = mac_probe("seatbelt", host)
    plan = mac_plan(build_policy("moderate", capabilities), host, probe, stdio=stdio)
    launch = get_backend("seatbelt").lower(plan, probe)
    assert launch.profile is not None
    return Profile(launch.profile.content.decode())


WIDEST = profile_of("network:full", stdio=StdioMode.TERMINAL)


@pytest.mark.parametrize("name", DOORS)
def test_no_service_that_acts_outside_can_be_asked(name: str) -> None:
    assert WIDEST.allows(Request("mach-lookup", name="com.apple.trustd.agent"))  # the control
    assert not WIDEST.allows(Request("mach-lookup", name=name))


def test_who_fetches_from_the_network_is_asked_only_where_there_is_a_network() -> None:
    """trustd asks servers whose addresses stand in certificates, and the resolver asks for any name."""
    without = profile_of()

    for name in ("com.apple.trustd", "com.apple.trustd.agent", "com.apple.SystemConfiguration.configd"):
        assert not without.allows(Request("mach-lookup", name=name))
    assert not without.allows(Request("network-outbound", "/private/var/run/mDNSResponder"))


def test_operations_that_are_not_listed_here_are_never_allowed() -> None:
    """Mounts (CVE-2023-32364), searches of a whole disk, hard links, jobs of launchd, Apple events."""
    others = OPERATIONS - EVER_ALLOWED
    wishes = [
        Request(operation, path, remote="localhost:80", local="localhost:80", target="self", name="hw.ncpu")
        for operation in sorted(others)
        for path in (f"{WORKSPACE}/x", "/private/tmp/corral-0123456789abcdef/x", "/dev/null", "/")
    ]

    assert {"file-mount", "file-search", "file-link", "file-clone", "job-creation", "lsopen"} <= others
    assert [wish for wish in wishes if WIDEST.allows(wish)] == []
    assert all(any(written.rstrip("*") in name for name in EVER_ALLOWED) for written in _allowed(WIDEST))


def _allowed(profile: Profile) -> list[str]:
    return [operation for allowed, operation, _ in profile.rules if allowed]


def test_code_is_mapped_only_from_what_can_be_read() -> None:
    """`deny default` leaves this one open."""
    profile = profile_of()

    assert profile.allows(Request("file-map-executable", f"{WORKSPACE}/made.dylib"))
    assert not profile.allows(Request("file-map-executable", f"{HOME}/other.dylib"))


@pytest.mark.parametrize(
    "capability",
    [
        "filesystem:deny:/Users/ada/PROJECT/secrets",
        "filesystem:deny:/users/ada/project/secrets",
        "filesystem:deny:~/Project/s*",
        "filesystem:deny:/System/Volumes/Data/Users/ada/project/secrets",
        "filesystem:deny:/system/volumes/data/Users/ada/project/secrets",
        "filesystem:deny:/.vol/16777220/4711",
        "filesystem:deny:/USERS",
    ],
)
def test_a_denial_by_a_name_that_no_rule_is_about_is_refused(capability: str) -> None:
    """It would hide nothing: the kernel has another name for the same file."""
    spelled = profile_of("filesystem:deny:${workspace}/secrets")
    assert not spelled.allows(Request("file-read-data", f"{WORKSPACE}/secrets/key"))  # the control

    with pytest.raises(UnenforceableError, match="by this name"):
        profile_of(capability)


@pytest.mark.parametrize(
    "capability",
    [
        "filesystem:read:/System/Volumes/Data/Users/ada/project/secrets",
        f"filesystem:private:{HOME}/PROJECT/secrets",
    ],
)
def test_so_is_what_would_be_stricter_than_what_is_around_it(capability: str) -> None:
    with pytest.raises(UnenforceableError, match="by this name"):
        profile_of(capability)


def test_unrelated_names_are_not_taken_for_one_another() -> None:
    profile = profile_of("filesystem:deny:/USR2/x", "filesystem:deny:/Users/ada/projects/secrets")

    assert profile.allows(Request("file-read-data", f"{WORKSPACE}/secrets/key"))


@pytest.mark.parametrize("fork", ["..namedfork/rsrc", "..namedfork/data"])
def test_a_second_fork_of_a_file_is_held_like_the_first(fork: str) -> None:
    profile = profile_of("filesystem:deny:${workspace}/secrets/key")

    assert not profile.allows(Request("file-read-data", f"{WORKSPACE}/secrets/key/{fork}"))
    assert not profile.allows(Request("file-write-data", f"{WORKSPACE}/.envrc/{fork}"))


@pytest.mark.parametrize("path", ["secrets", "secrets/key", "SECRETS", ".git", ".git/hooks"])
def test_what_is_held_cannot_be_moved_to_where_it_is_not(path: str) -> None:
    profile = profile_of("filesystem:deny:${workspace}/secrets/key")

    assert profile.allows(Request("file-write-unlink", f"{WORKSPACE}/README.md"))
    assert not profile.allows(Request("file-write-unlink", f"{WORKSPACE}/{path}"))


@pytest.mark.parametrize("place", [TOOLS, XCODE])
def test_the_developer_tools_that_programs_of_the_system_lead_to_can_be_started(place: str) -> None:
    profile = profile_of()

    assert profile.allows(Request("process-exec", f"{place}/usr/bin/git"))
    assert profile.allows(Request("file-read-data", "/private/var/db/xcode_select_link"))
    assert not profile.allows(Request("file-write-data", f"{place}/usr/bin/git"))
    assert not profile.allows(Request("file-read-data", "/Applications/Other.app/Contents/Info.plist"))


def test_what_a_command_made_immutable_is_removed_with_its_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """chflags uchg: macOS lets nobody move or remove it, its owner included, until the flag is cleared."""
    (tmp_path / "home/deep").mkdir(parents=True)
    (tmp_path / "home/deep/held").write_text("x")
    (tmp_path / "home/link").symlink_to(tmp_path / "outside")
    (tmp_path / "outside").write_text("kept")
    immutable = {"home", "deep", "held", "link"}
    _hold(monkeypatch, immutable)
    with pytest.raises(PermissionError):
        os.rmdir("home")  # the control

    removal.remove_tree(str(tmp_path), "home")

    assert sorted(os.listdir(tmp_path)) == ["outside"]
    assert immutable == set()


def _hold(monkeypatch: pytest.MonkeyPatch, immutable: set[str]) -> None:
    """A kernel with flags, of which names are kept in a set, and the call that clears them."""

    class Flagged:
        def __init__(self, status: os.stat_result, flags: int) -> None:
            self.st_mode, self.st_flags = status.st_mode, flags

    class Library:
        @staticmethod
        def setattrlistat(handle, name, asked, flags, size, options) -> int:
            assert (struct.unpack("HHIIIII", asked), flags) == ((5, 0, 1 << 18, 0, 0, 0, 0), b"\0\0\0\0")
            assert (size.value, options.value) == (4, 1)
            assert os.stat(name, dir_fd=handle, follow_symlinks=False)
            immutable.discard(os.fsdecode(name))
            return 0

    def guarded(call):
        def wrapper(name, *more, **named):
            if name in immutable:
                raise PermissionError(errno.EPERM, "immutable", name)
            return call(name, *more, **named)

        return wrapper

    real = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **named: Flagged(real(path, **named), path in immutable))
    for name in ("unlink", "rename", "rmdir"):
        monkeypatch.setattr(os, name, guarded(getattr(os, name)))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library)
