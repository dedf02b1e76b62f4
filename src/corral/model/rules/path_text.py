"""The texts of paths and patterns in a policy: each is read into its one canonical form, or refused."""

from __future__ import annotations

import posixpath

from corral.model.rules.pattern import floating, is_floating, is_pattern, normal_steps


def _path(target: str) -> str:
    """Without double slashes and steps that lead nowhere; what `..` means above ~ the host must say."""
    if "\0" in target:
        raise ValueError("a path cannot hold a NUL byte")
    anchor, _, rest = target.partition("/")
    if anchor not in {"", "~", "${workspace}"}:
        raise ValueError(f"{target!r} must begin with /, ~/ or ${{workspace}}/")
    steps = rest.lstrip("/")
    if is_pattern(rest):
        return f"{anchor}/{normal_steps(steps)}"
    plain = normal_steps(posixpath.normpath(f"/{steps}" if not anchor else steps))
    if not anchor:
        return plain
    return anchor if plain == "." else f"{anchor}/{plain}"


def granted_path(target: str) -> str:
    """A path that is granted as a whole: who says `*` might mean more than he would like."""
    path = _path(target)
    if is_pattern(path):
        raise ValueError(
            f"{target!r} is a pattern, and only whole paths are granted: name the directory, and deny or "
            r"protect in it by patterns; a path that has such a character itself is written \*, \? or \["
        )
    return path


def path_or_pattern(target: str) -> str:
    """A path, or a pattern: anchored like a path, or with `**/` at its beginning, or a name with no slash."""
    if is_pattern(target) and (is_floating(target) or "/" not in target.rstrip("/")):
        _check_name(target)
        return floating(target) if not is_floating(target) else _floating_steps(target)
    return _path(target)


def _check_name(target: str) -> None:
    if "\0" in target:
        raise ValueError("a path cannot hold a NUL byte")
    if target.startswith("!"):
        raise ValueError(
            f"{target!r} would take back what is denied or protected, which nothing can; "
            rf"a name that begins so is written \{target}"
        )


def _floating_steps(target: str) -> str:
    steps = normal_steps(target)
    return steps if is_floating(steps) else f"**/{steps}"  # `**/*`, of which only `*` was left


def name_within(target: str) -> str:
    """A name inside every writable path, or a pattern for such names."""
    if is_pattern(target):
        _check_name(target)
        return path_or_pattern(target) if "/" not in target.rstrip("/") else _anchored_name(target)
    parts = target.split("/")
    if not all(part not in {"", ".", ".."} for part in parts) or "\0" in target:
        raise ValueError(f"{target!r} must be a plain relative path, such as .git/hooks")
    return normal_steps(target)


def _anchored_name(target: str) -> str:
    """A pattern in each writable path, as .gitignore has it at its top: `/*.sh`, `bin/*`."""
    steps = normal_steps(target)
    if is_floating(target):
        return _floating_steps(target)
    if is_pattern(steps.split("/")[0]) and "/" not in steps.rstrip("/"):
        return f"/{steps}"
    return steps
