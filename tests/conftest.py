"""Options and the fixture `backend`, for every test directory.

--require native,landlock   a skip because such a backend is unavailable becomes a failure
--launcher PATH             the corral-launch to test (the same as CORRAL_LAUNCHER)
--update-golden             write the golden files anew, to be read as a diff
--no-sandbox                a launcher that starts nothing: what is marked starts_sandboxes is left out
--all                       also what only `make test-all` runs (support/scope.py)
--first-proofs              one proof of each guarantee on every backend, whatever else is selected
"""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
if importlib.util.find_spec("corral") is None:  # what is installed is what is tested
    sys.path.insert(0, str(HERE.parent / "src"))
importlib.import_module("corral")  # from here and from nowhere else, whatever a deeper conftest does

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.container import Container
    from corral.model.feature import Feature
    from support.confinement import Case
    from support.warm_corral import WarmCorral

LEAKY = "leaky"
#: `seatbelt` as on a Mac, with a stand-in for the program that macOS has for it: support/mac_stage.py.
STANDIN = "seatbelt"
KEPT, STORED = "-session", "-stored"
#: Proved again in sessions: everything on the quickest backend, elsewhere what a kept sandbox does otherwise
#: than a single run, and on engines, whose containers take seconds, that it is the same sandbox at all.
KEPT_FEATURES: dict[str, tuple[str, ...]] = {
    "native": ("",),
    "landlock": (
        "fs.",
        "proc.",
        "ipc.",
        "descriptors",
        "syscalls",
        "privileges",
        "limit.wall",
    ),
    "bubblewrap": ("fs.write", "fs.protect", "proc.", "descriptors", "syscalls", "limit.wall", "limit.pids"),
    "docker": ("descriptors",),
    "podman": ("descriptors",),
}


_NO_SOCKETS = "no descriptor leaves the sandbox: there are no sockets with a path"
#: Tests whose way to the harm is closed before they come to it.
WITHOUT_A_WAY = {
    "test_a_directory_that_outlives_the_sandbox_leads_to_nothing_denied": _NO_SOCKETS,
    "test_a_directory_that_outlives_the_sandbox_is_protected_still": _NO_SOCKETS,
    "test_a_directory_of_another_sandbox_is_no_way_around_one_that_hides_it": _NO_SOCKETS,
    "test_a_debugger_reaches_only_what_the_command_has_started": "process:debug is refused",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("corral")
    group.addoption("--require", default="", metavar="NAMES", help="backends that must be available: a,b")
    group.addoption("--launcher", default="", metavar="PATH", help="the corral-launch to test")
    group.addoption("--update-golden", action="store_true", help="write the golden files anew")
    group.addoption("--no-sandbox", action="store_true", help="a launcher that starts nothing")
    group.addoption("--all", action="store_true", help="also what only `make test-all` runs")
    group.addoption("--first-proofs", action="store_true", help="one proof of each guarantee")


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all is collected: nothing of that is garbage, and looking for some takes long
    os.environ["CORRAL_CONFIG"] = ""  # whatever the developer's own configuration says
    from support.dispositions import put_back_signals

    put_back_signals()  # what is tested is what a person has
    launcher = config.getoption("--launcher")
    if config.getoption("--no-sandbox"):
        launcher = "/bin/false"
    if launcher:
        os.environ["CORRAL_LAUNCHER"] = os.path.abspath(launcher)
    _prefer_real_interpreter()
    from support import scope
    from support.control_once import share_controls
    from support.summary import Summary

    config.pluginmanager.register(scope)
    if importlib.util.find_spec("hypothesis") is not None:  # an ordinary user's few packages lack it
        from support.examples import register_examples

        register_examples(is_all=config.getoption("--all"))
    share_controls(is_shared=not config.getoption("--all") and not scope.is_narrowed(config))
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(Summary())


def _prefer_real_interpreter() -> None:
    """Where `python3` is a script that looks for one (pyenv and the like), it is found without it.

    Such a script starts a dozen processes: it takes longer than most tests, and some cannot be tried with it.
    """
    found = shutil.which("python3")
    with open(found or os.devnull, "rb") as file:
        if file.read(2) == b"#!":
            own = os.path.dirname(os.path.realpath(sys.executable))
            os.environ["PATH"] = f"{own}{os.pathsep}{os.environ['PATH']}"


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Where `-n` was given and no other `--dist`: tests that share what takes long go to the same worker."""
    if config.getoption("dist") != "load":
        return None
    from support.scheduling import Scheduling

    return Scheduling(config, log)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what is tested: a suite that skips everything is green as well."""
    from corral.backends.registry import BUILTIN

    return [f"corral {name}: {_describe(name)}" for name in BUILTIN]


def _describe(name: str) -> str:
    from support.engines import ENGINES
    from support.probed import probe_of
    from support.user_engines import why_not

    if name in ENGINES:  # started by the first test that needs one
        return why_not(name) or "a private engine"
    probe = probe_of(name)
    return probe.version if probe.available else probe.reason


def pytest_sessionfinish() -> None:
    engines = sys.modules.get("support.user_engines")
    if engines is not None:
        engines.stop_engines()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A proof runs on every confining backend, in sessions, and on the leaky one, which must fail it."""
    if "backend" not in metafunc.fixturenames or not metafunc.definition.get_closest_marker("proves"):
        return
    from corral.backends.registry import BUILTIN, MODULES, UNCONFINED, UNPROVED

    must_fail = pytest.mark.xfail(strict=True, raises=AssertionError, reason="it enforces nothing")
    feature = metafunc.definition.get_closest_marker("proves").args[0].value
    names = [pytest.param(name) for name in BUILTIN if name not in {UNCONFINED, MODULES, *UNPROVED}]
    names.append(pytest.param(STANDIN))
    names += [
        pytest.param(name + KEPT)
        for name, begins in KEPT_FEATURES.items()
        if feature.startswith(begins) and feature != "proc.identity"  # which is for single commands
    ]
    names += _stored(feature)
    metafunc.parametrize("backend", [*names, pytest.param(LEAKY, marks=must_fail)], indirect=True)


def _stored(feature: str) -> list[object]:
    """Once more by the entry program, of which `make test` tries a sample."""
    from support.stored_runs import FEATURES, SAMPLE

    marks = () if feature in SAMPLE else pytest.mark.thorough
    return [pytest.param(f"native{STORED}", marks=marks)] if feature.startswith(FEATURES) else []


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Case:
    """A backend that claims the feature which the test proves; skipped, with the reason, if it does not."""
    from corral.backends.registry import get_backend
    from support.confinement import Case
    from support.leaky import LeakyBackend
    from support.probed import probe_of, require
    from support.summary import CLAIM

    feature = request.node.get_closest_marker("proves").args[0]
    name = request.param.removesuffix(KEPT).removesuffix(STORED)
    if name == LEAKY:
        return Case(LeakyBackend(), LeakyBackend().probe(None), feature)
    if name == STANDIN:
        return _on_a_mac(request, feature)
    require(request, name)
    probe = probe_of(name)
    if feature not in probe.enforces:
        pytest.skip(f"{name} does not claim {feature.value} here")
    kinds = {"is_kept": request.param.endswith(KEPT), "is_stored": request.param.endswith(STORED)}
    if kinds["is_stored"]:
        from support.entry_home import check_available

        check_available()
    request.node.user_properties.append((CLAIM, f"{request.param} {feature.value}"))
    return Case(get_backend(name), probe, feature, _container(name), **kinds)


def _on_a_mac(request: pytest.FixtureRequest, feature: Feature) -> Case:
    from corral.backends import seatbelt
    from corral.backends.registry import get_backend
    from support.confinement import Case
    from support.mac_stage import MacRealHost, find_standin

    program, why = find_standin(request.getfixturevalue("tmp_path_factory"))
    if why:
        pytest.skip(why)
    request.getfixturevalue("monkeypatch").setattr(seatbelt, "PROGRAM", program)
    if why := WITHOUT_A_WAY.get(request.node.originalname):
        pytest.skip(f"{STANDIN}: {why}")
    host = MacRealHost()
    probe = get_backend(STANDIN).probe(host)
    assert probe.available, probe.reason
    if feature not in probe.enforces:
        pytest.skip(f"{STANDIN} does not claim {feature.value} here")
    return Case(get_backend(STANDIN), probe, feature, host=host)


@pytest.fixture(scope="session")
def warm_corral() -> Iterator[WarmCorral]:
    """The command line, without the time that it takes to import it."""
    from support.warm_corral import WarmCorral

    warm = WarmCorral()
    yield warm
    warm.close()


def _container(name: str) -> Container:
    from corral.model.container import Container
    from support.engines import ENGINES
    from support.user_engines import CONTAINER

    return CONTAINER if name in ENGINES else Container()
