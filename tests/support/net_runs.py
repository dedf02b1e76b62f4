"""Commands on each backend, in a world where test names lead to servers of the test.

Names that no policy permits lead to the same servers: what is refused would have arrived.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from corral.model.container import Container
from corral.model.feature import Feature
from corral.model.result import Enforcement, Outcome, Result, Usage
from corral.network.options import NetworkOptions
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from support.confinement import INTERPRETER
from support.engines import ENGINES
from support.net_names import Names
from support.net_packages import Packages
from support.net_web import WebServer
from support.probed import probe_of
from support.user_engines import CONTAINER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from corral.model.violation import Violation
    from support.net_authority import Authority

#: Those whose commands have a network of their own, and need no proxy; and those who are told of one.
TRANSPARENT = ("native", "bubblewrap", "docker", "podman")
PROXIED = ("landlock",)
EVERY = (*TRANSPARENT, *PROXIED)
#: Every address of their network leads to the gateway, so that a refused one is heard of.
ROUTED = ("native", "bubblewrap")

#: Many small variations are tried one by one where a run is quick, and all in one run elsewhere.
QUICK, SLOW = ("native", "landlock"), ("bubblewrap", "docker", "podman")
_CONTROL_SECONDS = 60
_FEATURES = (Feature.NET_DOMAINS, Feature.NET_PORTS, Feature.NET_NONE)
#: For proofs: nothing is enforced, so they must fail.
_LEAKY = pytest.param(
    "leaky", marks=pytest.mark.xfail(strict=True, raises=AssertionError, reason="it enforces nothing")
)
on_every_backend = pytest.mark.parametrize("place", [*EVERY, _LEAKY], indirect=True)
on_quick_backends = pytest.mark.parametrize("place", [*QUICK, _LEAKY], indirect=True)
on_slow_backends = pytest.mark.parametrize("place", [*SLOW, _LEAKY], indirect=True)

#: Permitted, and its addresses too: test names lead to loopback, which is refused otherwise.
ALLOWED = "api.example.test"
GRANTS = (
    f"network:https:{ALLOWED}",
    f"network:http:{ALLOWED}",
    "network:https:127.0.0.1",
    "network:http:127.0.0.1",
)
#: Not permitted.
FORBIDDEN = "forbidden.example.test"
#: Where the packages are that the tests run with, those which tests confine among them.
SITE_PACKAGES = sysconfig.get_path("purelib")


class Site:
    """A web server with TLS and one without, names that lead to them, and things to fetch."""

    def __init__(self, authority: Authority, folder: Path) -> None:
        self.authority = authority
        self.names = Names()
        packages = Packages(folder)
        self.http = WebServer(packages)
        tls = authority.server_context([ALLOWED, FORBIDDEN, "127.0.0.1"], ("h2", "http/1.1"))
        self.https = WebServer(packages, tls)
        for name in (ALLOWED, FORBIDDEN):
            self.lead(name)

    def lead(self, name: str) -> None:
        """This name, too, leads to the servers."""
        self.names.lead(name, 80, self.http.where)
        self.names.lead(name, 443, self.https.where)

    def serve(self) -> Iterator[Site]:
        """For a fixture."""
        with self.http, self.https:
            yield self

    def hosts(self) -> set[str]:
        """Every host that was asked for something, or that a handshake was begun with."""
        for server in (self.http, self.https):
            server.settle()
        asked = {request.host.partition(":")[0] for request in (*self.http.requests, *self.https.requests)}
        return asked | set(self.https.server_names)


def why_not(name: str) -> str:
    """Why the network cannot be limited on a backend here; empty if it can."""
    probe = probe_of(name)
    if not probe.available:
        return f"{name} is not available: {probe.reason}"
    lacking = {Feature.NET_DOMAINS, Feature.NET_PORTS} - probe.enforces
    return f"{name} does not claim {sorted(f.value for f in lacking)} here" if lacking else ""


@dataclass(frozen=True)
class Place:
    """One backend and a workspace, with the certificate of the test's authority in it."""

    backend: str
    work: Path
    site: Site

    @property
    def is_proxied(self) -> bool:
        return self.backend in PROXIED

    def sandbox(
        self, *capabilities: str, grants: Sequence[str] = GRANTS, preset: str = "moderate", **options: Any
    ) -> Sandbox:
        """May reach the permitted name; `options` are those of the gateway."""
        wanted = (*INTERPRETER, *self._environment(), *grants, *capabilities)
        return Sandbox(
            build_policy(preset, wanted),
            backend=self.backend,
            workspace=self.work,
            waive=frozenset(Feature) - probe_of(self.backend).enforces if self.is_proxied else (),
            container=CONTAINER if self.backend in ENGINES else Container(),
            network=NetworkOptions(resolve=self.site.names, **options),
        )

    def run(self, argv: Sequence[str] | str, *capabilities: str, **options: Any) -> Result:
        """Run a command that may reach the permitted name."""
        return self.sandbox(*capabilities, **options).run(argv)

    def _environment(self) -> Iterator[str]:
        """Tools trust the authority: each has its own way to be told. None is told of a proxy."""
        authority = self.work / "authority.pem"
        if not authority.exists():
            authority.write_text(self.site.authority.text)
            (self.work / "wgetrc").write_text(f"ca_certificate = {authority}\n")
        for variable in (
            "CURL_CA_BUNDLE",
            "SSL_CERT_FILE",
            "GIT_SSL_CAINFO",
            "PIP_CERT",
            "NODE_EXTRA_CA_CERTS",
            "npm_config_cafile",
        ):
            yield f"env:set:{variable}={authority}"
        yield f"env:set:WGETRC={self.work / 'wgetrc'}"
        yield f"env:set:PIP_CONFIG_FILE={os.devnull}"


def run_unconfined(place: Place, argv: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    """Run a command without any sandbox. It is told where names lead, since nobody else knows them."""
    return subprocess.run(
        argv,
        cwd=place.work,
        env={**os.environ, "LEADS": json.dumps(place.site.names.leads())},
        capture_output=True,
        timeout=_CONTROL_SECONDS,
        check=False,
    )


class LeakyPlace(Place):
    """It enforces nothing: whoever proves something must fail here."""

    def run(self, argv: Sequence[str] | str, *capabilities: str, **options: Any) -> Result:
        done = run_unconfined(self, argv)
        policy = build_policy("moderate", ())
        nothing = Enforcement("leaky", {}, frozenset())
        exited = (Outcome.EXITED, done.returncode, None, done.stdout, done.stderr, False, 0.0)
        return Result(*exited, Usage(), (), nothing, policy, "leaky")


def copy_node(folder: Path) -> Path | None:
    """The host's node with libraries that images lack, in a directory to be granted; None: there is none."""
    program = shutil.which("node")
    if program is None:
        return None
    folder.mkdir()
    shutil.copy(program, folder / "node")
    for library in ("libstdc++.so.6", "libgcc_s.so.1", "libatomic.so.1"):
        for place in (sysconfig.get_config_var("MULTIARCH") or "", "."):
            found = Path("/usr/lib") / place / library
            if found.exists():
                shutil.copy(found, folder / library)
                break
    return folder


def network_violations(result: Result) -> list[Violation]:
    """What was reported about the network: a tool may stumble over other things as well."""
    return [found for found in result.violations if found.feature in _FEATURES]
