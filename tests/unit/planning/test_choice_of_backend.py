"""`auto`: which backends are asked on which platform, in which order, and what a refusal says."""

from __future__ import annotations

import pytest

from corral.backends import registry
from corral.backends.registry import AUTO, CONFINING, names_for
from corral.model.errors import PolicyError, SetupError, UnenforceableError
from corral.model.feature import Feature
from corral.model.launch import Launch, Outer
from corral.model.probe import Probe
from corral.planning.select import select
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from support.fake_host import FakeHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

ALL = frozenset(Feature)


class FakeBackend:
    """Says what it is told to say, and counts how often it was asked."""

    outer: Outer | None = None

    def __init__(self, name: str, *, lacks: frozenset[Feature] = frozenset(), reason: str = "") -> None:
        self.name, self.lacks, self.reason = name, lacks, reason
        self.asked = 0
        self.refuses: UnenforceableError | None = None

    def probe(self, host: FakeHost) -> Probe:
        self.asked += 1
        if self.reason:
            return Probe(self.name, False, reason=self.reason, fix=f"mend {self.name}")
        return Probe(self.name, True, ALL - self.lacks, version="1.0")

    def lower(self, plan, probe: Probe) -> Launch:
        if self.refuses is not None:
            raise self.refuses
        mechanisms = dict.fromkeys(ALL - self.lacks, "a fake")
        return Launch(self.name, ("/bin/true",), (), mechanisms, outer=self.outer)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch):
    """Replace the backends, in the registry's order."""

    def register(*backends: FakeBackend) -> None:
        known = {backend.name: backend for backend in backends}
        monkeypatch.setattr(registry, "BUILTIN", dict.fromkeys(known, "fake:fake"))
        monkeypatch.setattr("corral.sandbox.BUILTIN", dict.fromkeys(known, "fake:fake"))
        for module in ("corral.pipeline.planner", "corral.pipeline.fidelity", "corral.backends.registry"):
            monkeypatch.setattr(f"{module}.get_backend", known.__getitem__)

    return register


def sandbox(platform: str = "linux", **options) -> Sandbox:
    host = FakeHost()
    host.platform = platform
    return Sandbox(build_policy("moderate"), workspace="/home/ann/project", host=host, **options)


@pytest.mark.parametrize(
    ("platform", "order"),
    [
        ("linux", ("native", "landlock", "bubblewrap", "firejail", "podman", "docker")),
        ("darwin", ("seatbelt", "lima", "docker", "podman")),
        ("win32", ("docker",)),
        ("plan9", ()),
    ],
)
def test_each_platform_has_an_order_of_its_own(registered, platform: str, order: tuple[str, ...]) -> None:
    backends = [FakeBackend(name, reason="it is broken") for name in CONFINING]
    registered(*backends)

    with pytest.raises(UnenforceableError) as refused:
        sandbox(platform).explain("true")

    tried = [reason.partition(":")[0] for reason in refused.value.reasons]
    assert tried == (list(order) or ["there is no backend to try"])


def test_only_what_there_is_can_be_chosen(tmp_path: Path) -> None:
    """A name that is offered, and then not there, is a promise that nobody keeps."""
    assert set(registry.NAMES) == {"auto", *registry.BUILTIN}
    assert names_for("auto", "linux") == AUTO["linux"]
    for options in ({"backend": "gvisor"}, {"backends": ["gvisor"]}):
        with pytest.raises(PolicyError, match="gvisor"):
            Sandbox(workspace=tmp_path, **options).explain(("true",))


def test_auto_never_chooses_what_runs_modules(tmp_path: Path) -> None:
    assert not any(registry.MODULES in names for names in AUTO.values())
    assert registry.MODULES not in CONFINING
    with pytest.raises(PolicyError, match="runs modules, and no commands"):
        Sandbox(workspace=tmp_path, backends=["native", "wasm"])


def test_nothing_is_asked_after_the_one_that_fits(registered) -> None:
    """A container engine takes seconds to answer: where native does it, nobody waits for one."""
    native, docker = FakeBackend("native"), FakeBackend("docker")
    registered(native, docker)

    assert sandbox().explain("true").probe.backend == "native"
    assert (native.asked, docker.asked) == (1, 0)


def test_an_order_of_the_users_own_takes_the_place_of_the_usual_one(registered) -> None:
    native, podman, docker = FakeBackend("native"), FakeBackend("podman"), FakeBackend("docker")
    registered(native, podman, docker)

    assert sandbox(backends=["docker", "native"]).explain("true").probe.backend == "docker"
    assert (native.asked, podman.asked) == (0, 0)


def test_what_is_not_in_the_order_is_never_taken(registered) -> None:
    registered(FakeBackend("native"), FakeBackend("docker", reason="no daemon"))

    with pytest.raises(UnenforceableError, match="no daemon"):
        sandbox(backends=["docker"]).explain("true")


@pytest.mark.parametrize("name", ["none", "auto", "magic"])
def test_an_order_holds_only_what_confines(name: str) -> None:
    with pytest.raises(PolicyError) as refused:
        sandbox(backends=["native", name])

    assert refused.value.code == "auto-order"


def test_a_backend_that_cannot_hold_this_very_plan_is_passed_over(registered) -> None:
    first, second = FakeBackend("native"), FakeBackend("landlock")
    first.refuses = UnenforceableError(
        "unenforceable",
        "not with this",
        why="so",
        fix="wait",
        lacking=frozenset({Feature.FS_DENY}),
    )
    registered(first, second)

    assert sandbox().explain("true").probe.backend == "landlock"
    with pytest.raises(UnenforceableError, match="not with this"):
        sandbox(backend="native").explain("true")


def test_a_refusal_has_a_line_for_each_and_the_nearest_fix_first(registered) -> None:
    registered(
        FakeBackend("native", reason="no user namespaces"),
        FakeBackend("landlock", lacks=frozenset({Feature.FS_PROTECT, Feature.FS_METADATA})),
        FakeBackend("bubblewrap", lacks=frozenset({Feature.FS_PRIVATE})),
        FakeBackend("firejail", reason="not installed"),
        FakeBackend("podman", reason="not installed"),
        FakeBackend("docker", reason="the daemon does not answer\nat all"),
    )

    with pytest.raises(UnenforceableError) as refused:
        sandbox().explain("true")

    assert refused.value.render().splitlines() == [
        "the command did not run: no backend on this host can enforce the policy",
        "  because: native: no user namespaces",
        "           landlock: cannot enforce fs.metadata,fs.protect",
        "           bubblewrap: cannot enforce fs.private",
        "           firejail: not installed",
        "           podman: not installed",
        "           docker: the daemon does not answer\\nat all",
        "  fix: ask for less, or give this up, on record, with `backend='bubblewrap', waive=['fs.private']`; "
        "`corral doctor` says what each backend needs",
    ]


def test_nobody_is_told_to_waive_a_trial() -> None:
    """Without the layer the command would write the workspace itself."""
    low = Probe("landlock", True, ALL - {Feature.FS_TRIAL})

    with pytest.raises(UnenforceableError) as refused:
        select(ALL, [low])
    assert "native" in refused.value.fix and "waive" not in refused.value.fix
    with pytest.raises(UnenforceableError) as refused:
        select(ALL, [Probe("native", False, reason="x", fix="mend it"), low])
    assert (
        refused.value.fix
        == "trials need the backend native: mend it; `corral doctor` says what each backend needs"
    )


def test_where_nothing_works_the_first_fix_is_that_of_the_preferred_one() -> None:
    probes = [Probe("a", False, reason="x", fix="mend a"), Probe("b", False, reason="y", fix="mend b")]

    with pytest.raises(UnenforceableError) as refused:
        select(ALL, probes)
    assert refused.value.fix.startswith("mend a; ")


def test_what_failed_is_asked_again_for_the_next_command(registered) -> None:
    native = FakeBackend("native", reason="no user namespaces")
    registered(native)
    used = sandbox()
    with pytest.raises(UnenforceableError):
        used.explain("true")
    native.reason = ""

    assert used.explain("true").probe.backend == "native"


@pytest.mark.parametrize(("code", "asked"), [("outer", 2), ("outer-missing", 2), ("path-changed", 1)])
def test_an_outer_program_that_cannot_be_started_is_probed_again(
    registered, monkeypatch: pytest.MonkeyPatch, code: str, asked: int
) -> None:
    """Somebody took `bwrap` away between the probe and the run: whatever the words of the failure are."""
    outer = FakeBackend("bubblewrap")
    outer.outer = Outer()
    registered(outer)
    used = sandbox()

    def fail(*_: object) -> None:
        raise SetupError(code, "it could not be started", why="No such file or directory", fix="install it")

    monkeypatch.setattr("corral.pipeline.planned_run.Run.run", fail)
    with pytest.raises(SetupError, match="No such file or directory"):
        used.run(["true"])
    used.explain("true")

    assert outer.asked == asked


def test_a_named_backend_is_taken_or_nothing(registered) -> None:
    registered(FakeBackend("native", reason="broken"), FakeBackend("landlock"))

    with pytest.raises(UnenforceableError) as refused:
        sandbox(backend="native").explain("true")
    assert refused.value.reasons == ("native: broken",)
