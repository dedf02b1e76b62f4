"""The public interface is what `corral.__all__` lists, and nothing else is promised."""

from __future__ import annotations

import ast
import importlib

from sources import PACKAGE, parse

import corral

PUBLIC = [
    "AsyncBashTool",
    "AuditLog",
    "Background",
    "BashOutput",
    "BashTool",
    "BugError",
    "CallError",
    "Capability",
    "CapabilitySyntaxError",
    "Ceiling",
    "CheckFinding",
    "CheckResult",
    "CheckVerdict",
    "CommandFailed",
    "Configuration",
    "ConfigurationError",
    "Container",
    "CorralError",
    "Cut",
    "Defaults",
    "Enforcement",
    "EnvPolicy",
    "Event",
    "EventKind",
    "Evidence",
    "Excess",
    "Explanation",
    "Feature",
    "Fidelity",
    "FsAccess",
    "FsRule",
    "GroupUsage",
    "Hold",
    "HostTraffic",
    "Inheritance",
    "Limits",
    "LiveNetwork",
    "ModuleSandbox",
    "ModuleTrap",
    "NetAction",
    "NetEvent",
    "NetMode",
    "NetPolicy",
    "NetReason",
    "NetRequest",
    "NetworkOptions",
    "Outcome",
    "Policy",
    "PolicyError",
    "Pool",
    "PoolStats",
    "Progress",
    "RemoteError",
    "ResourceLimiter",
    "Result",
    "Sandbox",
    "SandboxExecutor",
    "Session",
    "SessionClosed",
    "SetupError",
    "Traffic",
    "Trial",
    "TrialChange",
    "UnconfinedWarning",
    "UnenforceableError",
    "Usage",
    "UsageSample",
    "Violation",
    "Watch",
    "__version__",
    "build_policy",
    "check",
    "detect_best_sandbox",
    "format_duration",
    "format_share",
    "format_size",
    "load_configuration",
    "load_preset",
    "parse_capability",
    "parse_duration",
    "parse_share",
    "parse_size",
    "run",
]


def test_the_list_is_the_one_that_was_agreed_on() -> None:
    """A change here is a change of the promise: it belongs into CHANGELOG.md."""
    assert sorted(corral.__all__) == PUBLIC


def test_the_list_is_sorted_and_without_repetition() -> None:
    names = [name for name in corral.__all__ if not name.startswith("_")]

    assert names == sorted(set(names))


def test_every_public_name_can_be_imported_and_is_what_its_module_defines() -> None:
    for name in corral.__all__:
        value = getattr(corral, name)
        module = corral._EXPORTS.get(name)

        assert module is None or value is getattr(importlib.import_module(module), name)


def test_type_checkers_see_the_same_names() -> None:
    """The imports under TYPE_CHECKING and the table are two lists of one thing."""
    checked = {
        alias.name: node.module
        for node in ast.walk(parse(PACKAGE / "__init__.py"))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("corral.")
        for alias in node.names
    }

    assert checked == corral._EXPORTS


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(corral, "manager")


def test_every_error_class_is_public() -> None:
    from corral.model import errors

    classes = {name for name, value in vars(errors).items() if isinstance(value, type) and "Error" in name}

    assert classes <= set(corral.__all__)
