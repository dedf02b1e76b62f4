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
    from corral.audit.log import AuditLog
    from corral.config.configuration import Configuration
    from corral.config.load import load_configuration
    from corral.integrations.bash_call import BashOutput
    from corral.integrations.bash_tool import AsyncBashTool, BashTool
    from corral.limits.ceiling import Ceiling
    from corral.limits.limiter import Excess, ResourceLimiter
    from corral.model.container import Container
    from corral.model.errors import (
        BugError,
        CallError,
        CapabilitySyntaxError,
        CommandFailed,
        ConfigurationError,
        CorralError,
        ModuleTrap,
        PolicyError,
        RemoteError,
        SessionClosed,
        SetupError,
        UnconfinedWarning,
        UnenforceableError,
    )
    from corral.model.event import Event, EventKind
    from corral.model.feature import Feature
    from corral.model.fidelity import Fidelity, Hold
    from corral.model.network.traffic import HostTraffic, NetAction, NetEvent, NetReason, Traffic
    from corral.model.policy import Defaults, EnvPolicy, FsAccess, FsRule, Limits, NetMode, NetPolicy, Policy
    from corral.model.result import Enforcement, GroupUsage, Outcome, Result, Usage, UsageSample
    from corral.model.rules.capability import Capability, parse_capability
    from corral.model.rules.inheritance import Cut, Inheritance
    from corral.model.rules.quantities import (
        format_duration,
        format_share,
        format_size,
        parse_duration,
        parse_share,
        parse_size,
    )
    from corral.model.violation import Evidence, Violation
    from corral.network.options import NetRequest, NetworkOptions
    from corral.parallel.executor import SandboxExecutor, detect_best_sandbox
    from corral.parallel.progress import Progress
    from corral.pipeline.live_run import Watch
    from corral.pipeline.planner import Explanation
    from corral.policy.compose import build_policy
    from corral.policy.preset import load_preset
    from corral.sandbox import Sandbox, run
    from corral.sessions.background import Background
    from corral.sessions.live_network import LiveNetwork
    from corral.sessions.pool import Pool, PoolStats
    from corral.sessions.session import Session
    from corral.sessions.trial import Trial
    from corral.shell_check.check import check
    from corral.shell_check.verdict import CheckFinding, CheckResult, CheckVerdict
    from corral.trials.change import TrialChange
    from corral.wasm.module_sandbox import ModuleSandbox

#: Name -> module. Imported on first use, so that `import corral` costs nothing.
_EXPORTS = {
    "AsyncBashTool": "corral.integrations.bash_tool",
    "AuditLog": "corral.audit.log",
    "Background": "corral.sessions.background",
    "BashOutput": "corral.integrations.bash_call",
    "BashTool": "corral.integrations.bash_tool",
    "BugError": "corral.model.errors",
    "CallError": "corral.model.errors",
    "Capability": "corral.model.rules.capability",
    "CapabilitySyntaxError": "corral.model.errors",
    "Ceiling": "corral.limits.ceiling",
    "CheckFinding": "corral.shell_check.verdict",
    "CheckResult": "corral.shell_check.verdict",
    "CheckVerdict": "corral.shell_check.verdict",
    "CommandFailed": "corral.model.errors",
    "Configuration": "corral.config.configuration",
    "ConfigurationError": "corral.model.errors",
    "Container": "corral.model.container",
    "CorralError": "corral.model.errors",
    "Cut": "corral.model.rules.inheritance",
    "Defaults": "corral.model.policy",
    "Enforcement": "corral.model.result",
    "EnvPolicy": "corral.model.policy",
    "Event": "corral.model.event",
    "EventKind": "corral.model.event",
    "Evidence": "corral.model.violation",
    "Excess": "corral.limits.limiter",
    "Explanation": "corral.pipeline.planner",
    "Feature": "corral.model.feature",
    "Fidelity": "corral.model.fidelity",
    "FsAccess": "corral.model.policy",
    "FsRule": "corral.model.policy",
    "GroupUsage": "corral.model.result",
    "Hold": "corral.model.fidelity",
    "HostTraffic": "corral.model.network.traffic",
    "Inheritance": "corral.model.rules.inheritance",
    "Limits": "corral.model.policy",
    "LiveNetwork": "corral.sessions.live_network",
    "ModuleSandbox": "corral.wasm.module_sandbox",
    "ModuleTrap": "corral.model.errors",
    "NetAction": "corral.model.network.traffic",
    "NetEvent": "corral.model.network.traffic",
    "NetMode": "corral.model.policy",
    "NetPolicy": "corral.model.policy",
    "NetReason": "corral.model.network.traffic",
    "NetRequest": "corral.network.options",
    "NetworkOptions": "corral.network.options",
    "Outcome": "corral.model.result",
    "Policy": "corral.model.policy",
    "PolicyError": "corral.model.errors",
    "Pool": "corral.sessions.pool",
    "PoolStats": "corral.sessions.pool",
    "Progress": "corral.parallel.progress",
    "RemoteError": "corral.model.errors",
    "ResourceLimiter": "corral.limits.limiter",
    "Result": "corral.model.result",
    "Sandbox": "corral.sandbox",
    "SandboxExecutor": "corral.parallel.executor",
    "Session": "corral.sessions.session",
    "SessionClosed": "corral.model.errors",
    "SetupError": "corral.model.errors",
    "Traffic": "corral.model.network.traffic",
    "Trial": "corral.sessions.trial",
    "TrialChange": "corral.trials.change",
    "UnconfinedWarning": "corral.model.errors",
    "UnenforceableError": "corral.model.errors",
    "Usage": "corral.model.result",
    "UsageSample": "corral.model.result",
    "Violation": "corral.model.violation",
    "Watch": "corral.pipeline.live_run",
    "build_policy": "corral.policy.compose",
    "check": "corral.shell_check.check",
    "detect_best_sandbox": "corral.parallel.executor",
    "format_duration": "corral.model.rules.quantities",
    "format_share": "corral.model.rules.quantities",
    "format_size": "corral.model.rules.quantities",
    "load_configuration": "corral.config.load",
    "load_preset": "corral.policy.preset",
    "parse_capability": "corral.model.rules.capability",
    "parse_duration": "corral.model.rules.quantities",
    "parse_share": "corral.model.rules.quantities",
    "parse_size": "corral.model.rules.quantities",
    "run": "corral.sandbox",
}

__all__ = [
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


def __getattr__(name: str) -> object:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'corral' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
