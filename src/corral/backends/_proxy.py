"""Where there is no network of its own: what a command is told of corral's proxy, and what holds it there."""

from __future__ import annotations

from corral.backends import _gateway as gateway
from corral.linux.spec import GatewayFlag, GatewaySockets
from corral.model.launch import Front, GatewayRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.backend import Host
    from corral.model.plan import Plan, ProxyPlace, ResolvedPolicy

#: Landlock knows ports from here on: a connection that nobody is asked about is refused by it (Linux 6.7).
LEAST_ABI = 4
CONDITION = f"needs Landlock ABI {LEAST_ABI}, and permission to take sockets from its commands (pidfd_getfd)"
#: The launcher makes no socket here: it has every connection asked about.
ASKING = GatewaySockets((), GatewayFlag.NOTIFY)
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"
_USER = "corral"
#: With either spelling: programs read the one or the other.
_NAMES = ("http_proxy", "https_proxy", "all_proxy")


def request(resolved: ResolvedPolicy) -> GatewayRequest | None:
    """What the runner is asked for; None where the network is not limited."""
    return GatewayRequest(Front.PROXY, gateway.BENCHMARK_ADDRESSES) if gateway.is_limited(resolved) else None


def may_take_sockets(host: Host) -> bool:
    """Whether Yama lets a process look at those that it has started. The rest, the launcher finds out."""
    scope = host.read_text(_YAMA, 8).strip()
    return scope in {"", "0", "1"} or (scope == "2" and host.uid == 0)


def variables(place: ProxyPlace) -> dict[str, str]:
    """For the command's environment.

    `all_proxy` names the HTTP proxy as well: libraries that know no SOCKS fail at the very sight of one. Who
    asks for SOCKS5 at the same place is served. Nothing is to go past it, whatever the host's own list says.
    """
    url = f"http://{_USER}:{place.token}@127.0.0.1:{place.port}"
    told = dict.fromkeys((*_NAMES, *(name.upper() for name in _NAMES)), url)
    return {**told, "no_proxy": "", "NO_PROXY": "", "NODE_USE_ENV_PROXY": "1"}


def changed_environment(plan: Plan, scratch: str, *, is_proxied: bool) -> tuple[tuple[str, str], ...]:
    """The command's variables, with those that lead elsewhere here than on the host. No `scratch`: empty."""
    changed = variables(plan.proxy) if is_proxied else {}
    if scratch:
        # git gives up on a system configuration that is there and cannot be read.
        changed |= {"HOME": scratch, "TMPDIR": scratch, "GIT_CONFIG_NOSYSTEM": "1"}
    return tuple(sorted({**dict(plan.env), **changed}.items())) if changed else plan.env
