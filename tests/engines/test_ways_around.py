"""Ways around the rules of a container that its mounts, its image or another run would open."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from corral.host.real import RealHost
from support.engines import IMAGE

from .test_runs_in_containers import fails, places, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import Launch
    from support.container_runs import ContainerRuns
    from support.engines import Engine

__all__ = ["places", "runs"]  # fixtures


def test_what_is_denied_stays_so_by_a_grant_above_the_workspace(runs: ContainerRuns, places: Path) -> None:
    """The workspace is at /workspace, and at its own path in what is granted above."""
    work = places / "above/work"
    (work / ".git/hooks").mkdir(parents=True)
    (work / "secret").write_text("the secret")
    runs.workspace = str(work)
    tries = f"echo x > {work}/.git/hooks/pre-commit; echo x > {work}/made"

    done = runs.run(
        f"echo alive; cat secret {work}/secret; {tries}",
        f"filesystem:write:{work.parent}",
        f"filesystem:deny:{work}/secret",
    )

    assert done.stdout == "alive\n"
    assert (work / "made").exists()
    assert not list((work / ".git/hooks").iterdir())


@pytest.mark.parametrize("way", ["own", "link", "volume"])
def test_a_private_home_is_private_wherever_it_is_seen(
    runs: ContainerRuns, places: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    homes = places / "homes"
    (homes / "ann").mkdir(parents=True)
    (homes / "ann/key").write_text("the secret")
    (homes / "shared").write_text("shared")
    (places / "link").symlink_to("homes")
    monkeypatch.setenv("HOME", str(homes / "ann"))
    granted = places / "link" if way == "link" else homes
    settings = {"volumes": (f"{homes}:/elsewhere:ro",)} if way == "volume" else {}

    done = runs.run(
        f"for at in {homes} {places}/link /elsewhere; do cat $at/shared $at/ann/key; done",
        f"filesystem:read:{granted}",
        **settings,
    )

    assert "shared" in done.stdout
    assert "the secret" not in done.stdout


@pytest.mark.parametrize("place", ["/tmp/kept", "/kept", "/workspace/kept"])
def test_a_volume_that_an_image_declares_is_not_for_the_command(
    runs: ContainerRuns, engine: Engine, place: str
) -> None:
    """Docker mounts it, and then nothing runs; podman was told to leave it out."""
    engine.ask("import", "--change", f"VOLUME {place}", str(engine.folder / "image.tar"), "declares")
    try:
        if engine.name == "podman":
            assert runs.run("echo alive", image="declares").stdout == "alive\n"
        elif place.startswith("/workspace"):
            runs.run("true", image="declares")
        else:
            assert "was not requested" in fails(runs, image="declares").why
    finally:
        engine.ask("rmi", "declares")
        if not engine.name == "podman":
            for volume in engine.ask("volume", "ls", "--quiet"):
                engine.ask("volume", "rm", volume)


def test_whoever_else_answers_at_the_socket_gets_nothing(runs: ContainerRuns, places: Path) -> None:
    """A process of the host, with the launcher's own program, is there before any container is asked for."""
    control = [RealHost().launcher()[0], "--control", "/proc/self/cwd/control"]  # 107 bytes are an address
    first = f'cd "$1" && test -S control && echo here > {places}/mark && {shlex.join(control)} </dev/null'

    def intrude(launch: Launch) -> Launch:
        line = ("/bin/sh", "-c", f'({first}); shift; exec "$@"', "sh", launch.scratch, *launch.argv)
        return launch.replace(argv=line)

    problem = fails(runs, "echo alive > made", change=intrude)

    assert (places / "mark").read_text() == "here\n"
    assert "first process" in problem.why
    assert not (places / "work/made").exists()


@pytest.mark.parametrize("image", ["oci:/tmp/image", "dir:image", "docker://busybox", "containers-storage:x"])
def test_an_image_is_a_name_and_nothing_else(runs: ContainerRuns, image: str) -> None:
    with pytest.raises(Exception, match="image"):
        runs.run("true", image=image)
    assert IMAGE
