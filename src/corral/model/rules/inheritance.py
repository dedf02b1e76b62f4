"""Inheritance: what someone who has a policy can pass on. A child gets `parent & request`, never more."""

from __future__ import annotations

from corral.model.policy import WEB, FsAccess, NetMode, NetPolicy, Policy
from corral.model.record import Record
from corral.model.rules.algebra import is_within_net, meet, meet_names, meet_net
from corral.model.rules.capability import Capability, PolicyDraft, capabilities_of, parse_capability
from corral.model.rules.reach import ACCESS, LEVELS, NONE, READ, Reach, is_beneath, plain, upwards

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Cut(Record):
    """A requested capability that the parent does not permit in full."""

    capability: Capability
    kept: tuple[Capability, ...]  # what of it the child has
    why: str  # a sentence for a person


class Inheritance(Record):
    policy: Policy  # the child's
    cuts: tuple[Cut, ...] = ()  # empty if all that was requested was granted


def inherit(parent: Policy, request: Policy | Iterable[str | Capability]) -> Inheritance:
    """Narrow a request to what the parent permits. Raises CapabilitySyntaxError.

    A limit, a protected name or a denied system call of the parent that was not asked for comes along, and is
    no cut: nothing was requested that it removes.
    """
    wanted = request if isinstance(request, Policy) else _requested(request)
    comparison = _Comparison(parent, wanted)
    cuts = (comparison.cut(capability) for capability in capabilities_of(wanted))
    return Inheritance(comparison.child, tuple(cut for cut in cuts if cut is not None))


def _requested(capabilities: Iterable[str | Capability]) -> Policy:
    if isinstance(capabilities, str):  # it would be read letter by letter
        capabilities = (capabilities,)
    draft = PolicyDraft(Policy())
    for each in capabilities:
        draft.add(each if isinstance(each, Capability) else parse_capability(each))
    return draft.build()


#: Verbs of the network that lead nowhere by themselves.
_NO_REACH = frozenset({"none", "deny", "fronting", "publish"})


class _Comparison:
    """A request beside what became of it. What only narrows (deny, protect, env:set, ...) is never cut."""

    def __init__(self, parent: Policy, request: Policy) -> None:
        self.child = meet(parent, request)
        self._parent, self._request = parent, request
        self._permitted, self._wanted, self._left = Reach(parent), Reach(request), Reach(self.child)

    def cut(self, capability: Capability) -> Cut | None:
        kind, verb, target = capability.kind, capability.verb, capability.target
        if kind == "filesystem" and verb in {"read", "write"}:
            return self._cut_path(capability)
        if (kind, verb) == ("network", "fronting"):
            is_kept = self.child.net.fronting or self._parent.net.mode is NetMode.FULL
            return None if is_kept else Cut(capability, (), "the parent may not do so itself")
        if kind == "network" and verb not in _NO_REACH:
            return self._cut_network(capability)
        if verb in {"limit", "time", "rate", "default"}:
            return self._cut_limit(capability)
        if kind == "refusal" and verb != self.child.response.value:
            own = Capability("refusal", self.child.response.value)
            return Cut(capability, (own,), "the parent's own response is the stricter one")
        if kind == "env" and verb == "pass":
            left = meet_names(frozenset({target}), self._parent.env.passed)
            if left == {target}:
                return None
            kept = tuple(Capability("env", "pass", name) for name in sorted(left))
            return Cut(capability, kept, _of_those("passes", kept))
        refusals = {
            ("filesystem", "tools"): (self._parent.tools, "the parent does not grant the tools on the PATH"),
            ("process", "spawn"): (self._parent.spawn, "the parent may not start further processes itself"),
            ("process", "debug"): (
                self._parent.spawn and self._parent.debug,
                "the parent may not trace processes itself",
            ),
            ("network", "publish"): (target in self._parent.publish, "the parent may not publish it itself"),
            ("module", "call"): (
                target in self._parent.modules,
                "the parent may not call this module itself",
            ),
        }
        permitted, why = refusals.get((kind, verb), (True, ""))
        return None if permitted else Cut(capability, (), why)

    def _cut_path(self, capability: Capability) -> Cut | None:
        """Cut if anywhere this rule of the request decides, the parent permits less."""
        path, level = plain(capability.target), LEVELS[FsAccess(capability.verb)]
        short = [
            place
            for place in sorted(self._permitted.marks() | self._wanted.marks())
            if self._is_governed(place, path)
            and self._permitted.access(place) < min(level, self._wanted.access(place))
        ]
        if not short:
            return None
        kept = tuple(
            Capability("filesystem", ACCESS[min(level, self._left.access(place))].value, place)
            for place in sorted(self._left.granted)
            if self._is_governed(place, path) and not self._is_repetition(place, path)
        )
        return Cut(capability, kept, self._why_short(path, short[0]))

    def _is_governed(self, place: str, path: str) -> bool:
        rule = self._wanted.nearest(place)
        return rule is not None and rule.path == path

    def _is_repetition(self, place: str, path: str) -> bool:
        """Whether the same is left of what lies around it, which then stands for both."""
        if place == path:
            return False
        around = list(upwards(place))[1]
        return is_beneath(around, path) and self._left.access(around) == self._left.access(place)

    def _why_short(self, path: str, place: str) -> str:
        level = self._permitted.access(place)
        if place == path:
            if level == READ:
                return f"the parent may only read {path}"
            beneath = any(is_beneath(each, path) for each in self._left.granted)
            return f"the parent is granted {'only parts of' if beneath else 'nothing at'} {path}"
        if any(is_beneath(place, denial) for denial in self._permitted.denied):
            return f"{place} is denied to the parent"
        return f"the parent {'does not reach' if level == NONE else 'may only read'} {place}"

    def _cut_network(self, capability: Capability) -> Cut | None:
        verb, asked = capability.verb, self._request.net
        if verb == "full":
            wanted = asked
        else:
            allow = WEB if verb == "limited" else frozenset({f"{verb}:{capability.target}"})
            wanted = NetPolicy(NetMode.LIMITED, allow, asked.deny)
        if is_within_net(wanted, self._parent.net):
            return None
        left = capabilities_of(Policy(net=meet_net(wanted, self._parent.net)))
        kept = tuple(each for each in left if each.kind == "network" and each.verb not in _NO_REACH)
        if kept == (capability,):
            return Cut(
                capability, kept, f"to the parent are denied: {', '.join(sorted(self._parent.net.deny))}"
            )
        return Cut(capability, kept, _of_those("may connect to", kept))

    def _cut_limit(self, capability: Capability) -> Cut | None:
        kept = tuple(
            each
            for each in capabilities_of(Policy(limits=self.child.limits, defaults=self.child.defaults))
            if (each.kind, each.verb) == (capability.kind, capability.verb)
        )
        if capability in kept:  # memory may have two defaults, a size and a share
            return None
        return Cut(capability, kept, f"the parent's own limit is {kept[0].target}")


def _of_those(verb: str, kept: tuple[Capability, ...]) -> str:
    return f"the parent {verb} {'only a part of these' if kept else 'none of these'}"
