"""Corral runs commands and code that nobody has read yet, so that the host stays safe.

    import corral

    result = corral.run("pytest -q")            # the profile `moderate`, in the working directory
    print(result.exit_code, result.stdout, result.violations)

What a policy says is enforced, or the command does not run.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.background import Background
    from corral.config.configuration import Configuration
    from corral.config.load import load_configuration
    from corral.executor import SandboxExecutor, detect_best_sandbox
    from corral.limits.ceiling import Ceiling
    from corral.limits.group import GroupUsage
    from corral.limits.limiter import Excess, ResourceLimiter
    from corral.live import LiveNetwork
    from corral.model.capability import Capability, parse_capability
    from corral.model.container import Container
    from corral.model.errors import (
        BugError,
        CallError,
        CapabilitySyntaxError,
        CommandFailed,
        ConfigurationError,
        CorralError,
        PolicyError,
        RemoteError,
        SessionClosed,
        SetupError,
        UnconfinedWarning,
        UnenforceableError,
    )
    from corral.model.feature import Feature
    from corral.model.fidelity import Fidelity, Hold
    from corral.model.inheritance import Cut, Inheritance
    from corral.model.policy import Defaults, EnvPolicy, FsAccess, FsRule, Limits, NetMode, NetPolicy, Policy
    from corral.model.quantities import (
        format_duration,
        format_share,
        format_size,
        parse_duration,
        parse_share,
        parse_size,
    )
    from corral.model.result import Enforcement, Outcome, Result, Usage, UsageSample
    from corral.model.traffic import HostTraffic, NetAction, NetEvent, NetReason, Traffic
    from corral.model.violation import Evidence, Violation
    from corral.network.options import NetRequest, NetworkOptions
    from corral.planner import Explanation
    from corral.policy.compose import build_policy
    from corral.policy.preset import load_preset
    from corral.pool import Pool, PoolStats
    from corral.progress import Progress
    from corral.sandbox import Sandbox, run
    from corral.session import Session
    from corral.watch import Watch

#: Name -> module. Imported on first use, so that `import corral` costs nothing.
_EXPORTS = {
    "Background": "corral.background",
    "BugError": "corral.model.errors",
    "CallError": "corral.model.errors",
    "Capability": "corral.model.capability",
    "CapabilitySyntaxError": "corral.model.errors",
    "Ceiling": "corral.limits.ceiling",
    "CommandFailed": "corral.model.errors",
    "Configuration": "corral.config.configuration",
    "ConfigurationError": "corral.model.errors",
    "Container": "corral.model.container",
    "CorralError": "corral.model.errors",
    "Cut": "corral.model.inheritance",
    "Defaults": "corral.model.policy",
    "Enforcement": "corral.model.result",
    "EnvPolicy": "corral.model.policy",
    "Evidence": "corral.model.violation",
    "Excess": "corral.limits.limiter",
    "Explanation": "corral.planner",
    "Feature": "corral.model.feature",
    "Fidelity": "corral.model.fidelity",
    "FsAccess": "corral.model.policy",
    "FsRule": "corral.model.policy",
    "GroupUsage": "corral.limits.group",
    "Hold": "corral.model.fidelity",
    "HostTraffic": "corral.model.traffic",
    "Inheritance": "corral.model.inheritance",
    "Limits": "corral.model.policy",
    "LiveNetwork": "corral.live",
    "NetAction": "corral.model.traffic",
    "NetEvent": "corral.model.traffic",
    "NetMode": "corral.model.policy",
    "NetPolicy": "corral.model.policy",
    "NetReason": "corral.model.traffic",
    "NetRequest": "corral.network.options",
    "NetworkOptions": "corral.network.options",
    "Outcome": "corral.model.result",
    "Policy": "corral.model.policy",
    "PolicyError": "corral.model.errors",
    "Pool": "corral.pool",
    "PoolStats": "corral.pool",
    "Progress": "corral.progress",
    "RemoteError": "corral.model.errors",
    "ResourceLimiter": "corral.limits.limiter",
    "Result": "corral.model.result",
    "Sandbox": "corral.sandbox",
    "SandboxExecutor": "corral.executor",
    "Session": "corral.session",
    "SessionClosed": "corral.model.errors",
    "SetupError": "corral.model.errors",
    "Traffic": "corral.model.traffic",
    "UnconfinedWarning": "corral.model.errors",
    "UnenforceableError": "corral.model.errors",
    "Usage": "corral.model.result",
    "UsageSample": "corral.model.result",
    "Violation": "corral.model.violation",
    "Watch": "corral.watch",
    "build_policy": "corral.policy.compose",
    "detect_best_sandbox": "corral.executor",
    "format_duration": "corral.model.quantities",
    "format_share": "corral.model.quantities",
    "format_size": "corral.model.quantities",
    "load_configuration": "corral.config.load",
    "load_preset": "corral.policy.preset",
    "parse_capability": "corral.model.capability",
    "parse_duration": "corral.model.quantities",
    "parse_share": "corral.model.quantities",
    "parse_size": "corral.model.quantities",
    "run": "corral.sandbox",
}

__all__ = [
    "Background",
    "BugError",
    "CallError",
    "Capability",
    "CapabilitySyntaxError",
    "Ceiling",
    "CommandFailed",
    "Configuration",
    "ConfigurationError",
    "Container",
    "CorralError",
    "Cut",
    "Defaults",
    "Enforcement",
    "EnvPolicy",
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
    "UnconfinedWarning",
    "UnenforceableError",
    "Usage",
    "UsageSample",
    "Violation",
    "Watch",
    "__version__",
    "build_policy",
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


def __getattr__(name: str) -> object:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'corral' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
