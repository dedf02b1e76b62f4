"""`corral image` with scripts as its tools: what it prints, how it fails, and that it leaves nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from corral.images.recipe import VARIANTS, load_recipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from conftest import Workshop

OLD = {"corral.variant": "standard", "corral.recipe": "sha256:0", "corral.version": "0.0.1"}


def assert_refused(done: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert len(lines) == 3, lines
    assert lines[0].startswith("corral: ") and "command" not in lines[0]
    assert lines[1].startswith("  because: ")
    assert lines[2].startswith("  fix: ")
    assert [word for word in words if word not in done.stderr] == []


def test_an_archive_is_written_without_any_engine(workshop: Workshop) -> None:
    workshop.mmdebstrap()

    done = workshop.run("build", "minimal", "--output", "m.tar")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "m.tar: minimal, 1 packages, 49 B\n"
    assert workshop.left() == [str(workshop.here / "m.tar")]


def test_without_a_variant_the_default_is_built_into_every_engine_that_answers(workshop: Workshop) -> None:
    workshop.mmdebstrap()
    workshop.engine("docker")
    workshop.engine("podman")

    done = workshop.run("build")

    assert (done.returncode, done.stderr) == (0, "")
    for engine in ("docker", "podman"):
        (image,) = workshop.images(engine).values()
        assert image["names"] == ["corral/sandbox:standard", "corral/sandbox:latest"]
        assert image["labels"]["corral.variant"] == "standard"
        assert image["labels"]["corral.recipe"] == load_recipe("standard").digest()
        assert f"corral/sandbox:standard, corral/sandbox:latest: in {engine}" in done.stdout
        # The engine says another size: that of the archive, or of what it keeps of it.
        assert f"  {engine:<8}  49 B, built 2026-01-02, up to date\n" in workshop.run("list").stdout
    assert workshop.left() == []


def test_only_the_engine_that_was_asked_for_gets_it(workshop: Workshop) -> None:
    workshop.mmdebstrap()
    workshop.engine("docker")
    workshop.engine("podman")

    assert workshop.run("build", "minimal", "--engine", "docker").returncode == 0

    assert len(workshop.images("docker")) == 1
    assert workshop.images("podman") == {}


def test_what_corral_built_before_under_the_name_is_removed(workshop: Workshop) -> None:
    workshop.mmdebstrap()
    workshop.engine(
        "podman",
        images={
            "sha256:old": {"names": ["corral/sandbox:standard", "corral/sandbox:latest"], "labels": OLD},
            "sha256:kept": {"names": ["mine:1"], "labels": OLD},
        },
    )

    assert workshop.run("build", "standard").returncode == 0

    assert "sha256:old" not in workshop.images("podman")
    assert "sha256:kept" in workshop.images("podman")


def test_an_image_of_someone_else_only_loses_the_name(workshop: Workshop) -> None:
    workshop.mmdebstrap()
    workshop.engine("podman", images={"sha256:a": {"names": ["corral/sandbox:minimal"], "labels": {}}})

    assert workshop.run("build", "minimal").returncode == 0

    assert workshop.images("podman")["sha256:a"]["names"] == []


def test_mmdebstrap_is_told_the_packages_and_the_mirrors(workshop: Workshop) -> None:
    told = workshop.folder / "told"
    workshop.script("mmdebstrap", f'for word; do echo "$word"; done >{told}; echo "E: enough" >&2; exit 1')

    workshop.run("build", "minimal", "-o", "m.tar", "--suite", "trixie", "--mirror", "http://mirror.example")

    lines = told.read_text().splitlines()
    assert f"--include={','.join(load_recipe('minimal').packages)}" in lines
    assert lines[lines.index("--") + 1] == "trixie"
    assert lines[-1] == "http://mirror.example"


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["build", "pyhton"], 2, ["'pyhton'", "did you mean `python`?"]),
        (["build", "--engine", "rkt"], 2, ["'rkt'", "podman, docker"]),
        (["build", "--engine", "podman", "--output", "x.tar"], 2, ["exclude each other"]),
        (["build", "--output", "no/such/x.tar"], 2, ["there is no directory"]),
        (["build", "--output", "."], 2, ["it is a directory"]),
        (["build"], 125, ["podman and docker not installed", "apt-get install podman"]),
        (["build", "--engine", "docker"], 125, ["docker not installed", "apt-get install docker.io"]),
        (["build", "--output", "x.tar"], 125, ["mmdebstrap is not installed", "apt-get install mmdebstrap"]),
        (["inspect", "python"], 125, ["podman and docker not installed"]),
    ],
)
def test_what_cannot_be_done_is_said_in_three_lines(
    workshop: Workshop, arguments: list[str], status: int, words: list[str]
) -> None:
    assert_refused(workshop.run(*arguments), status, *words)
    assert workshop.left() == []


def test_an_engine_that_does_not_answer_is_named_with_its_words(workshop: Workshop) -> None:
    workshop.mmdebstrap()
    workshop.engine("docker", down="Cannot connect to the Docker daemon")

    assert_refused(workshop.run("build"), 125, "docker cannot be reached", "Cannot connect to", "DOCKER_HOST")


def test_a_build_that_fails_says_what_mmdebstrap_said(workshop: Workshop) -> None:
    talk = 'echo "I: working" >&2; echo "E: Unable to locate package x" >&2; echo "E: failed" >&2'
    workshop.mmdebstrap(f'echo half >"$3"; {talk}; exit 100')

    done = workshop.run("build", "minimal", "-o", "m.tar")

    assert_refused(done, 125, "mmdebstrap: E: Unable to locate package x; E: failed", "--mirror")
    assert workshop.left() == []


def test_a_full_disk_is_called_one(workshop: Workshop) -> None:
    workshop.mmdebstrap('echo "E: tar: write error: No space left on device" >&2; exit 1')

    assert_refused(workshop.run("build", "minimal", "-o", "m.tar"), 125, "make room", "TMPDIR")


def test_a_success_without_an_archive_is_none(workshop: Workshop) -> None:
    workshop.script("mmdebstrap", "exit 0")

    assert_refused(workshop.run("build", "minimal", "-o", "m.tar"), 125, "m.tar", "cannot be read")
    assert workshop.left() == []


def test_an_archive_with_a_set_id_program_is_not_used(workshop: Workshop) -> None:
    workshop.mmdebstrap(**{"usr/bin/su": (b"x", 0o4755)})
    workshop.engine("podman")

    assert_refused(workshop.run("build", "minimal"), 125, "/usr/bin/su")
    assert_refused(workshop.run("build", "minimal", "-o", "m.tar"), 125, "/usr/bin/su")
    assert workshop.images("podman") == {}
    assert workshop.left() == []


@pytest.mark.parametrize("step", ["import", "tag"])
def test_an_import_that_fails_leaves_the_engine_as_it_was(workshop: Workshop, step: str) -> None:
    before = {"sha256:old": {"names": ["corral/sandbox:standard", "corral/sandbox:latest"], "labels": OLD}}
    workshop.mmdebstrap()
    workshop.engine("docker", fail=step, images=before)

    assert_refused(workshop.run("build", "standard"), 125, "no space left on device", "make room")

    assert workshop.images("docker") == before
    assert workshop.left() == []


def test_an_interrupted_build_leaves_nothing(workshop: Workshop, fifo: Path, ending: int) -> None:
    """Not a file, not a process: whoever still ran would hold the FIFO open."""
    workshop.mmdebstrap(f'echo half >"$3"; echo x >"$TMPDIR/file"; exec 9>{fifo}; echo begun >&9; sleep 600')
    (workshop.here / "m.tar").write_text("an older one")

    done = workshop.run_until(fifo, ending, "build", "minimal", "-o", "m.tar")

    assert_refused(done, 128 + ending, "interrupted", "nothing of it is left")
    assert workshop.left() == [str(workshop.here / "m.tar")]
    assert (workshop.here / "m.tar").read_text() == "an older one"


def test_the_next_build_removes_what_a_killed_one_has_left(workshop: Workshop, fifo: Path) -> None:
    """But not while its tool still works there, nor what only looks like it."""
    (workshop.temporary / "corral-build-file").write_text("not a directory")
    workshop.mmdebstrap(f'echo x >"$TMPDIR/file"; exec 9>{fifo}; echo begun >&9; read line <{fifo}.go')
    os.mkfifo(f"{fifo}.go")
    killed = workshop.start("build", "minimal", "-o", "m.tar")
    with open(fifo) as said:
        assert said.readline() == "begun\n"
        killed.kill()
        killed.communicate()
        workshop.mmdebstrap()
        assert workshop.run("build", "minimal", "-o", "m.tar").returncode == 0
        (orphaned,) = workshop.temporary.glob("*/file")
        with open(f"{fifo}.go", "w"):
            pass
        assert said.read() == ""  # now the orphan has ended as well

    assert workshop.run("build", "minimal", "-o", "m.tar").returncode == 0
    assert not orphaned.exists()
    assert [path.name for path in workshop.temporary.iterdir()] == ["corral-build-file"]


def test_an_interrupted_import_leaves_nothing(workshop: Workshop, fifo: Path, ending: int) -> None:
    workshop.mmdebstrap()
    workshop.engine("podman", wait=str(fifo))

    done = workshop.run_until(fifo, ending, "build", "minimal")

    assert_refused(done, 128 + ending, "interrupted")
    assert workshop.images("podman") == {}
    assert workshop.left() == []


def test_the_list_says_what_each_engine_has(workshop: Workshop) -> None:
    current = {**OLD, "corral.variant": "minimal", "corral.recipe": load_recipe("minimal").digest()}
    workshop.engine("docker", down="no daemon")
    workshop.engine(
        "podman",
        images={
            "sha256:1": {"names": ["corral/sandbox:minimal"], "labels": current},
            "sha256:2": {"names": ["corral/sandbox:standard"], "labels": OLD},
            "sha256:3": {"names": ["mine:1"], "labels": current},
            "sha256:4": {"names": ["corral/sandbox:own"], "labels": {}},
        },
    )

    text = workshop.run("list").stdout
    value = json.loads(workshop.run("list", "--json").stdout)

    assert "  podman    976.6 KiB, built 2026-01-02, up to date\n" in text
    assert "  podman    976.6 KiB, built 2026-01-02, out of date; is not corral/sandbox:latest\n" in text
    assert "  podman    mine:1: 976.6 KiB, built 2026-01-02, up to date\n" in text
    assert "  podman    corral/sandbox:own: 976.6 KiB, built 2026-01-02, not made by corral\n" in text
    assert "docker cannot be reached\n  because: no daemon\n  fix: " in text
    assert [variant["variant"] for variant in value["variants"]] == list(VARIANTS)
    assert {image["id"]: image["up_to_date"] for image in value["images"]} == {
        "sha256:1": True,
        "sha256:2": False,
        "sha256:3": True,
        "sha256:4": None,
    }
    assert {engine["engine"]: engine["reachable"] for engine in value["engines"]} == {
        "podman": True,
        "docker": False,
    }


def test_the_list_works_without_engines(workshop: Workshop) -> None:
    done = workshop.run("list")

    assert (done.returncode, done.stderr) == (0, "")
    assert "no container engine is installed" in done.stdout


def test_an_archive_can_be_inspected(workshop: Workshop) -> None:
    workshop.mmdebstrap()
    workshop.run("build", "minimal", "-o", "m.tar")

    text = workshop.run("inspect", "-v", "m.tar").stdout
    value = json.loads(workshop.run("inspect", "m.tar", "--json").stdout)

    assert "  set-id    no program changes its user or group\n" in text
    assert "  package   bash 5.2\n" in text
    assert value["contents"]["packages"] == {"bash": "5.2"}


def test_an_unknown_image_is_refused_with_what_would_build_it(workshop: Workshop) -> None:
    workshop.engine("podman")

    assert_refused(workshop.run("inspect", "latest"), 2, "corral image build standard")
    assert_refused(workshop.run("inspect", "other:1"), 2, "'other:1'", "corral image list")
