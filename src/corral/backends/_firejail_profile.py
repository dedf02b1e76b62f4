"""What firejail is told about files: a profile of lines, and what must be found inside when it has done so.

/             everything in it is hidden (`blacklist /*`), except what follows
/usr and such granted as a whole: stays, read-only
/etc, /home.. granted in parts: a tmpfs, with the parts bound into it (`whitelist`)
inside        read-only binds, writable binds, covers: shallow to deep, the strictest at each path; but what a
              cover or a private area hides comes before it, and stays a mount point: see _mounts.py

A line that firejail cannot carry out it passes over with a warning, or without. So nothing is taken for done:
each line has an expectation, which the launcher looks at from inside.
"""

from __future__ import annotations

import posixpath
from enum import IntEnum

from corral.linux.spec import Expect, ExpectFlag
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.plan import PathKind
from corral.model.policy import FsAccess
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.model.plan import Link, Plan, ResolvedPath, ResolvedPolicy

#: A name that nobody has: firejail makes a tmpfs of the directory that would hold it.
_NOBODY = ".corral-hidden"
#: Made anew by firejail, whatever is granted; /run holds what it needs itself.
_OWN = ("/proc", "/dev", "/run")
#: Never a tmpfs: firejail makes them read-only and starts its own helpers from there.
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
#: A new sysfs, in which nothing has the device number that it has on the host.
SYSFS = "/sys"
#: Of other sandboxes: their names, their profiles, their sockets. And the host's log.
_OTHERS = ("appimage", "bandwidth", "dbus", "name", "network", "profile", "sandbox", "x11")
_HIDDEN = ("/run/user", "/dev/log", *(f"/run/firejail/{name}" for name in _OTHERS))

#: Characters that one version or another of firejail refuses, takes for a pattern or for a comment.
_SPECIAL = frozenset("!\"#$%&',;<>\\^`{|}*?[]")
_MOST_CHARACTERS = 4000

_VAR_TMP = "/var/tmp"
_ITS_OWN = ExpectFlag.MOUNT_POINT | ExpectFlag.OTHER


class ProfileRuleKind(IntEnum):
    """What holds at a path. Of several the last: the strictest."""

    PIN = 0  # writable, and cannot be renamed away
    WRITE = 1
    READ = 2
    SHIELD = 3
    DENY = 4


class ProfileRule(Record):
    path: str
    kind: ProfileRuleKind
    device: int = 0
    inode: int = 0  # with device: what the planner saw; 0: it was not there yet, or is ours


class ProfileFiles(Record):
    """A profile, and what it must have led to."""

    lines: tuple[str, ...]
    expects: tuple[Expect, ...]
    areas: tuple[str, ...]  # private areas of the plan that are there and can be written, all in memory
    keeps_var_tmp: bool  # something of /var/tmp is granted, so that it cannot be replaced


def resolved_rules(resolved: ResolvedPolicy) -> Iterator[ProfileRule]:
    """The rules of a resolved policy."""
    for grant in resolved.grants:
        kind = ProfileRuleKind.WRITE if grant.access is FsAccess.WRITE else ProfileRuleKind.READ
        yield _rule(grant.target, kind)
    for target in resolved.denied:
        if target.kind is not PathKind.MISSING:
            yield _rule(target, ProfileRuleKind.DENY)


def protection(plan: Plan) -> Iterator[ProfileRule]:
    """The rules that this run adds."""
    for pin in plan.pins:
        yield _rule(pin, ProfileRuleKind.PIN)
    for shield in plan.shields:
        yield _rule(shield.target, ProfileRuleKind.SHIELD)


def _rule(target: ResolvedPath, kind: ProfileRuleKind) -> ProfileRule:
    return ProfileRule(target.path, kind, target.device, target.inode)


def make_files(
    rules: Iterable[ProfileRule],
    *,
    links: tuple[Link, ...] = (),
    root_links: tuple[str, ...] = (),
    private: tuple[str, ...] = (),
    home: str = "",
    is_locked: bool = False,
) -> ProfileFiles:
    """Rules as lines of a profile. Raises UnenforceableError for what a line cannot say.

    `links` are to be made again; `root_links` are names in / that firejail must not follow when it hides what
    is there; `home` is the caller's, which is a top directory of its own to firejail. With `is_locked` the
    launcher makes /proc read-only, when it has no more to write there.
    """
    strictest: dict[str, ProfileRule] = {}
    for rule in rules:
        if rule.path not in strictest or strictest[rule.path].kind < rule.kind:
            strictest[rule.path] = rule
    for path in strictest:
        check_word(path)
    layout = _Layout(strictest, private, home)
    proc = ExpectFlag(0) if is_locked else ExpectFlag.READ_ONLY
    lines = [*layout.whitelist(links), *_hiding(layout.tops, root_links)]
    if not is_locked:
        lines.append("read-only /proc")
    for rule in layout.ordered:
        lines += layout.lines_for(rule)
    lines += layout.areas_inside()
    expects = (
        Expect("/proc", _ITS_OWN | proc),
        *layout.frame(),
        *filter(None, map(layout.expectation, layout.ordered)),
    )
    return ProfileFiles(tuple(lines), expects, layout.areas, layout.keeps_var_tmp)


class _Layout:
    """Where each rule lies among the others."""

    def __init__(self, rules: dict[str, ProfileRule], private: tuple[str, ...], home: str) -> None:
        self._private = private
        self._home = home
        self._rules = rules
        self._inner = tuple(filter(self._is_inner, sorted(private, key=_depth)))
        for path in self._inner:  # an area holds its own place
            rules.pop(path, None)
        self.ordered = sorted(rules.values(), key=self._order)
        self._whole = {path for path in rules if path == top_of(path)} | set(_PROGRAMS)
        granted = {top_of(path) for path in rules}
        areas = {top_of(path) for path in private if path in {"/tmp", _VAR_TMP}}
        #: Directories of / that a tmpfs covers.
        self._covered = sorted((granted | areas | {"/run"}) - self._whole - {SYSFS})
        self.tops = sorted({*granted, *self._covered, *self._whole, *_OWN})
        self.keeps_var_tmp = any(rule.path.startswith(f"{_VAR_TMP}/") for rule in self.ordered)
        self.areas = (*(path for path in private if self._is_area(path)), *self._inner)

    def _order(self, rule: ProfileRule) -> tuple[str | int, ...]:
        """Shallow to deep, and each before the covers that hide it."""
        key: tuple[str | int, ...] = (*_depth(rule.path), 1)
        for cover in self._covers_of(rule):
            key = (*_depth(cover), 0, *key)
        return key

    def _covers_of(self, rule: ProfileRule) -> Iterator[str]:
        """Covers and private areas between a rule and what is granted above it, from below."""
        if rule.kind in {ProfileRuleKind.WRITE, ProfileRuleKind.READ}:
            return
        path = posixpath.dirname(rule.path)
        while path != "/":
            above = self._rules.get(path)
            if above is not None and above.kind in {ProfileRuleKind.WRITE, ProfileRuleKind.READ}:
                return
            if path in self._inner or (above is not None and above.kind is ProfileRuleKind.DENY):
                yield path
            path = posixpath.dirname(path)

    def _is_hidden(self, rule: ProfileRule) -> bool:
        return next(self._covers_of(rule), None) is not None

    def _is_area(self, path: str) -> bool:
        if path == _VAR_TMP:  # firejail has one of its own for it
            return not self.keeps_var_tmp and "/var" in self._covered
        return path == "/dev/shm" or path in self._covered

    def _is_inner(self, path: str) -> bool:
        """Whether it would show what lies there, had it no tmpfs of its own; the home has one."""
        return path not in {_VAR_TMP, self._home} and self._above(path) is not None

    def whitelist(self, links: tuple[Link, ...]) -> Iterator[str]:
        if self._home in self._private or not self._is_seen(self._home):
            yield f"whitelist ${{HOME}}/{_NOBODY}"
        for top in self._covered:
            yield f"whitelist {top}/{_NOBODY}"
        if _VAR_TMP in self.areas:
            yield f"whitelist {_VAR_TMP}"
        for rule in self.ordered:
            if self._is_bound(rule):
                yield f"whitelist {rule.path}"
        known = {link.path: link.text for link in links}
        for link in links:
            if self._may_be_made(link, known):
                yield f"whitelist {link.path}"

    def _is_bound(self, rule: ProfileRule) -> bool:
        """Whether it lies in a tmpfs, and in nothing else that is bound there."""
        path = rule.path
        is_covered = top_of(path) in self._covered and path != top_of(path)
        return (is_covered or self._is_in_home(path)) and self._above(path) is None

    def _is_in_home(self, path: str) -> bool:
        return self._home in self._private and path.startswith(f"{self._home}/")

    def _is_seen(self, path: str) -> bool:
        return path in self._rules or self._above(path) is not None

    def _may_be_made(self, link: Link, known: dict[str, str]) -> bool:
        """firejail makes a link again, and binds what it leads to, which must not be more than is granted."""
        if top_of(link.path) not in self._covered or self._above(link.path) is not None:
            return False
        if not is_word(link.path):
            return False
        return self._is_seen(_follow(link, known))

    def _above(self, path: str) -> ProfileRule | None:
        """The nearest rule for a directory above. A private home begins anew.

        A cover is none: it is mounted after what it hides.
        """
        while path.count("/") > 1:
            path = posixpath.dirname(path)
            if path in self._rules and self._rules[path].kind is not ProfileRuleKind.DENY:
                return self._rules[path]
            if path == self._home and path in self._private:
                return None
        return None

    def _is_read_only(self, path: str) -> bool:
        """Whether it would be, had it no rule of its own."""
        above = self._above(path)
        if above is None and self._is_in_home(path):  # what holds above the home held for its mounts as well
            return self._is_read_only(self._home)
        if above is None:
            return top_of(path) in _PROGRAMS
        if above.kind is ProfileRuleKind.PIN:  # as it was found
            return self._is_read_only(above.path)
        return above.kind is not ProfileRuleKind.WRITE

    def lines_for(self, rule: ProfileRule) -> tuple[str, ...]:
        """ORDER: `read-only` and `read-write` hold for mounts further down as well, so those come later."""
        path, held = rule.path, self._is_read_only(rule.path)
        if top_of(path) == SYSFS:
            return ()
        if rule.kind is ProfileRuleKind.DENY:
            return (f"blacklist {path}", f"read-only {path}")
        if rule.kind is ProfileRuleKind.WRITE:
            return (f"read-write {path}",) if held else ()
        if rule.kind is ProfileRuleKind.PIN:  # the way there binds it onto itself
            return () if held else (f"read-only {path}", f"read-write {path}")
        return () if held else (f"read-only {path}",)

    def expectation(self, rule: ProfileRule) -> Expect | None:
        if top_of(rule.path) == SYSFS:
            return None
        if self._is_hidden(rule):
            return Expect(rule.path, ExpectFlag.BENEATH) if self.lines_for(rule) else None
        flags = ExpectFlag(0)
        above = self._above(rule.path)
        if rule.kind is ProfileRuleKind.DENY:
            flags |= ExpectFlag.OTHER
        elif self._is_bound(rule) or (above is not None and self.lines_for(rule)):
            flags |= ExpectFlag.MOUNT_POINT
        if rule.kind not in {ProfileRuleKind.WRITE, ProfileRuleKind.PIN}:
            flags |= ExpectFlag.READ_ONLY
        if not rule.inode:  # nobody knew it when this was planned
            flags |= ExpectFlag.OTHER
        return Expect(rule.path, flags, rule.device, rule.inode)

    def areas_inside(self) -> Iterator[str]:
        """Private areas in what is granted: anyone but root may have them in his home only."""
        for path in self._inner:
            yield f"tmpfs {path}"

    def frame(self) -> Iterator[Expect]:
        """What shows that firejail did its work: where it takes itself to be in a sandbox, it does none."""
        yield Expect("/dev", ExpectFlag.TMPFS)
        if any(top_of(rule.path) == SYSFS for rule in self.ordered):
            yield Expect(SYSFS, _ITS_OWN | ExpectFlag.READ_ONLY)
        seen = {path for path in self._private if self._above(path) is not None}
        areas = {path for path in self.areas if path != "/dev/shm"}
        for path in sorted({*self._covered, *seen, *areas}, key=_depth):
            yield Expect(path, ExpectFlag.TMPFS)


def _hiding(tops: Iterable[str], root_links: tuple[str, ...]) -> Iterator[str]:
    """Everything in / but these, also what was put there since; a link would have its target hidden."""
    for path in sorted({*tops, *(f"/{name}" for name in root_links if is_word(name))}):
        yield f"noblacklist {path}"
    yield "blacklist /*"
    for path in _HIDDEN:
        yield f"blacklist {path}"


def _follow(link: Link, known: dict[str, str]) -> str:
    """Where a link leads, by way of the links that are known."""
    path = link.path
    for _ in range(len(known) + 1):
        if path not in known:
            break
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), known[path]))
    return path


def _depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def top_of(path: str) -> str:
    """The directory of / that holds a path, or is it."""
    return "/" + path.split("/", 2)[1]


def is_word(path: str) -> bool:
    """Whether a line of a profile can name it: firejail has no way of quoting."""
    return (
        path != "/"
        and len(path) < _MOST_CHARACTERS
        and not _SPECIAL & set(path)
        and ".." not in path
        and "  " not in path
        and not path.endswith(" ")
        and all(character.isprintable() or character >= "\x80" for character in path)
    )


def check_word(path: str) -> None:
    """Raise UnenforceableError for a path that firejail cannot be given."""
    if is_word(path):
        return
    raise UnenforceableError(
        "unenforceable",
        f"firejail cannot be given {path!r}",
        why="its profiles have no quoting (`..`, two spaces and some characters mean something else), "
        "and the root directory as a whole cannot be granted",
        fix="rename it, or use another backend",
        lacking=frozenset({Feature.FS_READ}),
    )
