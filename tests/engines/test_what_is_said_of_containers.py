"""What a caller can say of a container, on real engines: its user, name, root, network, image and end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engines.test_runs_in_containers import OURS, fails, places, runs
from support import registry
from support.container_runs import ContainerRuns
from support.engines import IMAGE, Engine

__all__ = ["places", "runs"]

PORT = 5000


def test_another_user_is_a_number_and_files_are_the_caller_s(runs: ContainerRuns, places: Path) -> None:
    script = "busybox id -u; busybox id -g; echo x > made; busybox chown 5 made || echo no"
    done = runs.run(f"{script}; busybox grep CapEff /proc/self/status", user="1234:99")

    assert done.stdout.split() == ["1234", "99", "no", "CapEff:", "0" * 16]
    status = (places / "work/made").stat()
    assert (status.st_uid, status.st_gid) == (os.getuid(), os.getgid())


CHANGE = """
echo x > /etc/made && cat /etc/made; busybox rm /bin/chmod && echo gone
for at in /proc/sys/kernel/core_pattern /sys/x /proc/sysrq-trigger; do echo x > $at; done
echo x > .git/hooks/x; echo x > docs/x
"""


def test_a_writable_root_is_gone_with_its_container(runs: ContainerRuns, places: Path) -> None:
    """And nothing else is writable that was not before."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    for name in (".git/hooks", "docs"):
        (places / "work" / name).mkdir(parents=True)
    docs = f"filesystem:read:{places}/work/docs"
    for _ in range(2):
        assert runs.run(CHANGE, docs, root="writable").stdout == "x\ngone\n"

    assert runs.run("cat /etc/made; busybox ls /bin/chmod").stdout == "/bin/chmod\n"
    assert runs.run("echo x > /etc/made && echo wrote").stdout == ""
    assert Path("/proc/sys/kernel/core_pattern").read_text() == pattern
    assert not any((places / "work" / name / "x").exists() for name in (".git/hooks", "docs"))


def test_a_container_that_has_the_name_already_is_left_alone(runs: ContainerRuns, engine: Engine) -> None:
    engine.ask("create", "--name", "review", "--network", "none", IMAGE, "true")
    try:
        problem = fails(runs, name="review")
        assert problem.code == "container-name"
        assert engine.ask("ps", "--all", "--format", "{{.Names}}", "--filter", "name=review") == ["review"]
    finally:
        engine.ask("rm", "--force", "review")
    assert runs.run("echo now", name="review").stdout == "now\n"


def test_a_container_that_is_kept_tells_neither_command_nor_environment(
    runs: ContainerRuns, engine: Engine
) -> None:
    done = runs.run(
        "echo found > /etc/left", "env:set:TOKEN=the-secret", name="review", keep=True, root="writable"
    )
    try:
        assert done.notes == (
            f"the container review is kept: `{engine.name} rm --volumes review` removes it",
        )
        about = "\n".join(engine.ask("inspect", "review"))
        assert "the-secret" not in about and "/etc/left" not in about
        assert any("/etc/left" in line for line in engine.ask("diff", "review"))
    finally:
        engine.ask("rm", "--volumes", "review")


def test_a_network_of_the_engine_s_own(runs: ContainerRuns, engine: Engine) -> None:
    """The private docker has no bridge, and says nothing of it."""
    if engine.name == "docker":
        assert fails(runs, "true", network="bridge", preset="permissive").code == "engine-network"
        assert fails(runs, "true", ports=("18080:80",), preset="permissive").code == "engine-network"
        return
    script = "cat /proc/net/dev"
    inside = runs.run(script, "network:full", network="bridge").stdout
    assert "eth0:" in inside and inside != Path("/proc/net/dev").read_text()


@pytest.mark.parametrize("engine", ["docker"], indirect=True)  # which takes a loopback address without TLS
def test_an_image_is_fetched_where_it_is_missing(runs: ContainerRuns, engine: Engine) -> None:
    """And what it asks for itself is not followed: its entry point and its user."""
    name = f"127.0.0.1:{PORT}/test/image:1"
    assert fails(runs, image=name).code == "image-missing"

    enclosed = engine.enclosure.enter
    subprocess.run(enclosed(["ip", "link", "set", "lo", "up"]), check=True)
    line = [sys.executable, registry.__file__, str(PORT), str(engine.folder / "image.tar")]
    server = subprocess.Popen(
        enclosed(line),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"]},
    )
    try:
        assert server.stdout.readline() == "ready\n"
        assert fails(runs, image=name.replace("image:1", "image:2"), pull="missing").code == "image-pull"
        first = runs.run("echo $FROM; busybox id -u", image=name, pull="missing")
    finally:
        server.communicate(timeout=20)
    second = runs.run("echo again", image=name, pull="missing")
    engine.ask("image", "rm", name)

    assert first.stdout.split() == ["image", str(os.getuid())]
    assert first.notes[0].startswith(f"the image {name} was fetched by docker: sha256:")
    assert (second.stdout, second.notes) == ("again\n", ())
    assert engine.ask("ps", "--all", "--quiet", *OURS) == []
