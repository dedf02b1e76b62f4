"""Targets of capabilities that are no paths, each brought into its canonical form. Raises ValueError."""

from __future__ import annotations

from corral.model.feature import Feature
from corral.model.network.endpoint import parse_endpoint, parse_port
from corral.model.rules.syscall_groups import GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def variable(target: str) -> str:
    """The name of a variable, or the beginning of several."""
    if "=" in target or "\0" in target or not target or "*" in target[:-1]:
        raise ValueError(f"{target!r} is not the name of an environment variable")
    return target


def assignment(target: str) -> str:
    """NAME=VALUE."""
    name, equals, _ = target.partition("=")
    if not equals:
        raise ValueError(f"{target!r} must be NAME=VALUE")
    if "\0" in target:
        raise ValueError("a value cannot hold a NUL byte")
    if name.endswith("*"):
        raise ValueError(f"{name!r} is not the name of one variable")
    variable(name)
    return target


def endpoint(scheme: str) -> Callable[[str], str]:
    """What reads a host, and a port, of one scheme."""

    def canonical(target: str) -> str:
        return str(parse_endpoint(scheme, target)).removeprefix(f"{scheme}:")

    return canonical


def ports(target: str) -> str:
    """A port, or one outside and another inside."""
    outside, _, inside = target.partition(":")
    ports = [parse_port(text) for text in (outside, inside or outside)]
    return str(ports[0]) if ports[0] == ports[1] else f"{ports[0]}:{ports[1]}"


def module(target: str) -> str:
    """The name of a module."""
    if not target.isascii() or not target.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise ValueError(f"{target!r} is not the name of a module: letters, digits, -, _ and .")
    return target


def feature(target: str) -> str:
    """The name of a feature."""
    if target not in tuple(Feature):
        raise ValueError(f"there is no feature {target!r}; they are {', '.join(Feature)}")
    return target


def path_word(target: str) -> str:
    """The one word for the programs on the PATH."""
    if target != "path":
        raise ValueError("only `path` is known: the programs on the caller's PATH")
    return target


def system_call(target: str) -> str:
    """A system call, or a group of them."""
    if target.startswith("@") and target not in GROUPS:
        raise ValueError(f"there is no group {target!r}; the groups are {', '.join(GROUPS)}")
    if target in GROUPS:
        return target
    if not target.isascii() or not target.replace("_", "").isalnum():
        raise ValueError(f"{target!r} is not the name of a system call")
    return target
