"""What git would go on with: a rebase, a series of patches, of picks, a merge, a bisection.

Git believes these files as it believes its configuration. They name commands (`exec`), programs (the strategy
`x` is the program `git-merge-x`), options of programs, refs and paths. Only what git itself writes is left
for the host's git: known files, with content that can do no more than pick, merge and move refs.
"""

from __future__ import annotations

from struct import Struct
from struct import error as malformed

from corral.git_formats.config import MalformedConfig, read_config
from corral.git_formats.index import is_unsafe
from corral.git_formats.pointer import is_head

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Check = Callable[[bytes], str]

_EXCERPT = 60
_DIGITS = b"0123456789"
_HEX = b"0123456789abcdefABCDEF"
_WORD = _DIGITS + b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-."
_KEY = _WORD + b" <>@+=/:~!,"
_SHELL = frozenset(b"$`\\\"';&|(){}*?[]!\0\r")
_CONTROL = frozenset(range(32)) | {127}

_PICKS = frozenset({b"pick", b"p", b"revert"})
_STEPS = _PICKS | frozenset(
    b"edit e reword r fixup f squash s break b label l reset t merge m update-ref u noop drop d".split()
)
_STRATEGIES = frozenset({"ort", "recursive", "resolve", "octopus", "ours", "subtree"})
_STRATEGY_OPTIONS = frozenset(
    {
        *("ours", "theirs", "subtree", "patience", "histogram", "minimal", "diff-algorithm"),
        *("renormalize", "no-renormalize", "find-renames", "no-renames", "rename-threshold"),
        *("ignore-space-change", "ignore-all-space", "ignore-space-at-eol", "ignore-cr-at-eol"),
    }
)
#: What `git am` passes on to `git apply`. Others would write to any file, as `--build-fake-ancestor=` does.
_APPLY_OPTIONS = frozenset({b"--ignore-space-change", b"--ignore-whitespace", b"--reject"})
_APPLY_VALUES = (b"--whitespace=", b"--directory=", b"--exclude=", b"--include=")
#: What a repository with reftables has in the place of `refs/heads`: no older git takes it for a directory.
_REFTABLE_MARK = b"this repository uses the reftable format\n"
_CHUNK = Struct(">4sQ4sQ")  # a part of the file and where it begins; the next one, where this one ends


def is_state(name: str) -> bool:
    """Whether a file of a git directory, by its name in there, has content that `unsafe_state` judges."""
    if _is_patch(name):
        return False  # only ever applied, and there may be thousands
    return name in _CHECKS or _directory(name) in {"refs/", *_DIRECTORIES} or _is_pack_index(name)


def unsafe_state(name: str, data: bytes) -> str:
    """Why a file of a git directory cannot be left for the host's git; empty if it can.

    The name is the one inside the git directory (that of a linked worktree is one of its own). What git does
    not know, where it keeps such files, is not left; elsewhere it is no matter of this module.
    """
    check = _CHECKS.get(name)
    if check is not None:
        return check(data)
    directory = _directory(name)
    if _is_patch(name):
        return ""
    if _is_pack_index(name):
        return _pack_index(data)
    if directory == "refs/":
        return "" if (name, data) == ("refs/heads", _REFTABLE_MARK) else _reference(data)
    return _DIRECTORIES.get(directory, "")


def is_judged_by_its_head(name: str) -> bool:
    """Whether the first MiB of such a file is enough; the whole of it may be hundreds of them."""
    return name == "objects/pack/multi-pack-index" or _is_pack_index(name)


def _is_patch(name: str) -> bool:
    number = name.removeprefix("rebase-apply/")
    return number != name and number.isascii() and number.isdecimal()


def _directory(name: str) -> str:
    above, slash, _ = name.partition("/")
    return above + slash


def _is_pack_index(name: str) -> bool:
    return name.startswith("objects/pack/multi-pack-index.d/") and name.lower().endswith(".midx")


def _shown(text: bytes) -> str:
    return repr(text[:_EXCERPT].decode("utf-8", "replace"))


def _anything(_data: bytes) -> str:
    """Text that is shown, or a switch that is on because the file is there."""
    return ""


def _consists_of(allowed: bytes, what: str) -> Check:
    return lambda data: "" if not data.strip(b"\n").translate(None, allowed) else f"{what} is expected there"


def _todo(steps: frozenset[bytes]) -> Check:
    return lambda data: _judge_steps(data, steps)


def _judge_steps(data: bytes, steps: frozenset[bytes]) -> str:
    """Every step begins with a small letter: a line that does not is a comment, or an error."""
    if b"\0" in data:
        return "it is not a list of steps"
    for raw in data.split(b"\n"):
        line = raw.strip(b" \t\r")
        if not b"a" <= line[:1] <= b"z":
            continue
        step, _, rest = line.replace(b"\t", b" ").replace(b"\r", b" ").partition(b" ")
        if step not in steps:
            return f"git would go on with the step {_shown(line)}"
        if step in {b"update-ref", b"u"} and not rest.lstrip().startswith(b"refs/"):
            return f"git would change the ref {_shown(rest)}"
    return ""


def _strategy(data: bytes) -> str:
    name = data.decode("utf-8", "replace").strip()
    return "" if name in _STRATEGIES else f"git would run the program git-merge-{name[:_EXCERPT]}"


def _strategy_options(data: bytes) -> str:
    return _judge_strategy_options(data.replace(b"'", b" ").replace(b'"', b" ").split())


def _judge_strategy_options(options: Iterable[bytes]) -> str:
    """Programs of strategies pass options on that they do not know: `--index-output=` writes to any file."""
    for option in options:
        name, _, value = option.removeprefix(b"--").partition(b"=")
        if name.decode("utf-8", "replace") not in _STRATEGY_OPTIONS or value.translate(None, _WORD + b"/%"):
            return f"git would pass on the option {_shown(option)}"
    return ""


def _signing(data: bytes) -> str:
    """An option, not only its value: git passes the whole to `git am`."""
    text = data.strip()
    if text and (text[:2] != b"-S" or text[2:3] == b"-" or text.translate(None, _KEY)):
        return f"git would pass on the option {_shown(text)}"
    return ""


def _apply_options(data: bytes) -> str:
    text = data.strip()
    if text and not (len(text) > 1 and text[:1] == text[-1:] == b"'"):
        return "these are not options as git writes them"
    for option in text[1:-1].split(b"' '") if text else ():
        prefix = next((prefix for prefix in _APPLY_VALUES if option.startswith(prefix)), b"")
        is_number = option[:2] in {b"-C", b"-p"} and option[2:].isdigit()
        is_known = option in _APPLY_OPTIONS or is_number or prefix
        if not is_known or not {*option}.isdisjoint(b"'\\\0") or is_unsafe(option[len(prefix) :]):
            return f"git would apply patches with the option {_shown(option)}"
    return ""


def _picking_options(data: bytes) -> str:
    """`sequencer/opts`, a configuration file; git includes nothing there and stops at unknown keys."""
    try:
        settings = read_config(data)
    except MalformedConfig:
        return "it is not a configuration"
    for setting in settings:
        value = (setting.value or "").encode("utf-8", "surrogateescape")
        if setting.name == "options.strategy":
            why = _strategy(value)
        elif setting.name == "options.strategy-option":
            why = _judge_strategy_options([value])
        elif setting.name == "options.gpg-sign":
            why = _signing(b"-S" + value)
        else:
            why = _consists_of(_WORD, "a plain value")(value)
        if why or not setting.name.startswith("options."):
            return why or f"git would be given {setting.name}"
    return ""


def _reference(data: bytes) -> str:
    """Object names, or the name of a ref: git writes the file that it names, and not only below `refs`."""
    target = data.strip()
    if target.startswith(b"ref:"):
        target = target[4:].lstrip()
        is_plain = target.startswith(b"refs/") and _CONTROL.isdisjoint(target) and b".." not in target
        return "" if is_plain else f"git would write to {_shown(target)} in place of a ref"
    return _consists_of(_HEX + b" \n", "the name of an object")(target)


def _head(data: bytes) -> str:
    """Without a valid one git takes its directory for none, and works in the repository further up."""
    return _reference(data) if is_head(data) else "git would look for a repository further up"


def _branch(data: bytes) -> str:
    name = data.strip()
    return "" if name == b"detached HEAD" else _reference(b"ref: " + name)


def _refs_to_delete(data: bytes) -> str:
    wrong = [line for line in data.split(b"\n") if line and not line.startswith(b"refs/rewritten/")]
    return f"git would delete the ref {_shown(wrong[0])}" if wrong else ""


def _refs_to_update(data: bytes) -> str:
    """A ref, its value before and after, a line each."""
    lines = data.split(b"\n")
    refs, values = lines[::3], lines[1::3] + lines[2::3]
    whys = [*(_branch(ref) for ref in refs if ref), *map(_consists_of(_HEX, "the name of an object"), values)]
    return next(filter(None, whys), "")


def _trailers(data: bytes) -> str:
    """The user may have a command for one of them, in which git replaces `$ARG` by the text."""
    return "git would pass on what a shell could run" if not _SHELL.isdisjoint(data) else ""


def _author(data: bytes) -> str:
    """Once a script that a shell read; what git reads today are three variables."""
    for line in data.split(b"\n"):
        name, _, value = line.partition(b"=")
        is_known = name in {b"GIT_AUTHOR_NAME", b"GIT_AUTHOR_EMAIL", b"GIT_AUTHOR_DATE"}
        quoted = value[1:-1].replace(b"'\\''", b"").replace(b"'\\!'", b"")
        if line and not (
            is_known and len(value) > 1 and value[:1] == value[-1:] == b"'" and b"'" not in quoted
        ):
            return f"git would take {_shown(line)} for the author"
    return ""


def _resolutions(data: bytes) -> str:
    """`MERGE_RR`: git copies these files into its directory, and writes resolutions to them."""
    for record in data.split(b"\0"):
        number, _, path = record.partition(b"\t")
        if record and (not path or number.translate(None, _HEX + b".") or is_unsafe(path)):
            return f"git would record, or write, {_shown(path)}"
    return ""


def _start(data: bytes) -> str:
    """Of a bisection: what git would check out in the end."""
    text = data.strip()
    is_name = text[:1] != b"-" and _CONTROL.isdisjoint(text) and b" " not in text
    return "" if is_name else f"git would pass on the option {_shown(text)}"


def _terms(data: bytes) -> str:
    wrong = [line for line in data.split(b"\n") if line[:1] == b"-" or line.translate(None, _WORD)]
    return f"git would use {_shown(wrong[0])} as a name" if wrong else ""


def _quoted_names(data: bytes) -> str:
    """Older git has a shell evaluate the file: each word is in quotes, which none leaves."""
    rest = data.strip(b" \n")
    while rest:
        word, quote, rest = rest[1:].partition(b"'") if rest[:1] == b"'" else (b"", b"", rest)
        while quote and rest[:3] in {b"\\''", b"\\!'"}:
            _, quote, rest = rest[3:].partition(b"'")
        if not quote or rest[:1] not in {b"", b" "} or b"\0" in word:
            return f"older git would have a shell evaluate {_shown(data)}"
        rest = rest.lstrip(b" ")
    return ""


def _tables(data: bytes) -> str:
    return "git would remove files elsewhere" if b"/" in data else ""


def _pack_index(data: bytes) -> str:
    """Names of packs in there are not checked, and packs that are no longer needed are removed."""
    names = []
    try:
        for at in range(12, 12 + 12 * data[6], 12):
            kind, start, _, end = _CHUNK.unpack_from(data, at)
            names += [data[start:end]] if kind == b"PNAM" else []
        packs = int.from_bytes(data[8:12])
    except (IndexError, malformed):
        return "it is not a pack index"
    # Git reads as many names as it says there are, past the end of this part if need be.
    if data[:4] != b"MIDX" or len(names) != 1 or len(data) < 12 or names[0].count(b"\0") < packs:
        return "it is not a pack index"
    return "git would remove files elsewhere" if b"/" in names[0] else ""


_OBJECT = _consists_of(_HEX, "the name of an object")
_OBJECTS = _consists_of(_HEX + b" \n", "names of objects")
_NUMBER = _consists_of(_DIGITS, "a number")
_SWITCH = _consists_of(_WORD, "a word")


def _in(directory: str, check: Check, names: str) -> dict[str, Check]:
    return {directory + name: check for name in names.split()}


_CHECKS: dict[str, Check] = {
    **_in("rebase-merge/", _todo(_STEPS), "git-rebase-todo git-rebase-todo.backup"),
    # What is done is only shown and counted: it may have been an `exec` of the user's.
    **_in("rebase-merge/", _anything, "done message message-squash message-fixup patch current-fixups"),
    **_in("rebase-merge/", _SWITCH, "interactive quiet verbose signoff dropped cdate_is_adate ignore_date"),
    **_in("rebase-merge/", _SWITCH, "drop_redundant_commits keep_redundant_commits"),
    **_in("rebase-merge/", _SWITCH, "reschedule-failed-exec no-reschedule-failed-exec"),
    **_in("rebase-merge/", _NUMBER, "end msgnum"),
    **_in("rebase-merge/", _OBJECT, "onto orig-head head amend stopped-sha squash-onto autostash"),
    **_in("rebase-merge/", _OBJECTS, "rewritten-list rewritten-pending"),
    "rebase-merge/refs-to-delete": _refs_to_delete,
    "rebase-merge/update-refs": _refs_to_update,
    "rebase-merge/trailer": _trailers,
    **_in("rebase-apply/", _anything, "final-commit info msg patch patch-merge-index dirtyindex"),
    **_in("rebase-apply/", _SWITCH, "threeway quiet sign utf8 keep messageid scissors quoted-cr keepcr"),
    **_in("rebase-apply/", _SWITCH, "rerere-autoupdate applying rebasing verbose signoff"),
    **_in("rebase-apply/", _NUMBER, "next last"),
    **_in("rebase-apply/", _OBJECT, "onto orig-head head original-commit abort-safety stopped-sha autostash"),
    **_in("rebase-apply/", _OBJECTS, "rewritten"),
    "rebase-apply/apply-opt": _apply_options,
    **{
        f"{directory}/{name}": check
        for directory in ("rebase-merge", "rebase-apply")
        for name, check in (
            ("author-script", _author),
            ("head-name", _branch),
            ("gpg_sign_opt", _signing),
            ("strategy", _strategy),
            ("strategy_opts", _strategy_options),
            ("allow_rerere_autoupdate", _SWITCH),
        )
    },
    "sequencer/todo": _todo(_PICKS),
    "sequencer/opts": _picking_options,
    **_in("sequencer/", _OBJECT, "head abort-safety"),
    **_in("", _reference, "ORIG_HEAD MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD AUTO_MERGE"),
    **_in(
        "", _reference, "BISECT_HEAD BISECT_EXPECTED_REV MERGE_AUTOSTASH NOTES_MERGE_REF NOTES_MERGE_PARTIAL"
    ),
    "HEAD": _head,
    "MERGE_MODE": _SWITCH,
    "MERGE_RR": _resolutions,
    "BISECT_START": _start,
    "BISECT_TERMS": _terms,
    "BISECT_NAMES": _quoted_names,
    "objects/pack/multi-pack-index": _pack_index,
    "reftable/tables.list": _tables,
    "pid": lambda _: "git instaweb would send a signal to the process that it names",
}
#: Directories where nothing else may be, and why not.
_DIRECTORIES = {
    **dict.fromkeys(("rebase-merge/", "rebase-apply/", "sequencer/"), "git has no such file"),
    **dict.fromkeys(("remotes/", "branches/"), "git would take an address from it"),
    "gitweb/": "git instaweb would run it",
}
#: Every name that is on the way to one of them.
NAMES = frozenset(name for path in (*_CHECKS, *_DIRECTORIES) for name in path.split("/") if name)
