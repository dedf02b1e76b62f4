"""Settings for container engines: read, checked, handed to the plan, and closed to a project's file."""

from __future__ import annotations

import pytest

from corral.cli.options import defaults
from corral.cli.request import build_request
from corral.config.load import load_configuration
from corral.model.container import (
    DEFAULT_IMAGE,
    Container,
    check_container,
    parse_image,
    parse_inside,
    parse_name,
    parse_port,
    parse_user,
    parse_volume,
)
from corral.model.errors import ConfigurationError, PolicyError
from corral.sandbox import Sandbox
from support.fake_host import FakeHost
from support.user_files import forget_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

TEXT = """
[sandbox]
image = "python:3.12-slim"
network = "full"
[sandbox.container]
workspace = "same"
ports = ["8080:80", "127.0.0.1:53:53/udp"]
volumes = ["cache:/cache", "/srv/data:/data:ro"]
entrypoint = ["/usr/bin/env", "-i"]
user = "root"
name = "review"
start_timeout = "2m"
pull = "missing"
network = "bridge"
root = "writable"
keep = true
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    forget_settings(tmp_path, monkeypatch)
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def say(project: Path, text: str) -> None:
    (project.parent / "config" / "corral" / "corral.toml").write_text(text)


def test_nothing_said_is_the_default(project: Path) -> None:
    assert load_configuration(project).container == Container()


def test_the_users_file_becomes_the_container_of_the_plan(project: Path) -> None:
    say(project, TEXT)
    configuration = load_configuration(project)
    expected = Container(
        "python:3.12-slim",
        "",
        ("8080:80", "127.0.0.1:53:53/udp"),
        ("cache:/cache", "/srv/data:/data:ro"),
        ("/usr/bin/env", "-i"),
        user="root",
        name="review",
        start_seconds=120.0,
        pull="missing",
        network="bridge",
        root="writable",
        keep=True,
    )

    assert configuration.container == expected
    assert configuration.sandbox(for_run=False).explain("true").plan.container == expected


def test_an_agents_entrypoint_takes_the_place_of_everyones_and_its_ports_add_up(project: Path) -> None:
    say(
        project,
        '[sandbox.container]\nentrypoint = ["a", "b"]\nports = ["1:1"]\n'
        '[agent.x.sandbox.container]\nentrypoint = ["b"]\nports = ["2:2"]\n',
    )
    container = load_configuration(project, agent="x").container

    assert (container.entrypoint, container.ports) == (("b",), ("1:1", "2:2"))


@pytest.mark.parametrize(
    "line",
    [
        'image = "evil/image"',
        'container.workspace = "/etc"',
        'container.ports = ["22:22"]',
        'container.volumes = ["/:/host"]'.replace("/:/host", "/etc:/host"),
        'container.entrypoint = ["/usr/bin/env"]',
        'container.user = "5"',
        'container.name = "another"',
        'container.start_timeout = "9m"',
        'container.network = "host"',
    ],
)
def test_a_projects_file_chooses_none_of_it(project: Path, line: str) -> None:
    say(project, TEXT)
    before = load_configuration(project).container
    (project / "corral.toml").write_text(f"[sandbox]\n{line}\n")
    configuration = load_configuration(project)

    assert configuration.container == before
    assert len(configuration.cuts) == 1


@pytest.mark.parametrize(
    ("name", "wide", "narrow"),
    [("pull", '"missing"', '"never"'), ("root", '"writable"', '"read-only"'), ("keep", "true", "false")],
)
def test_a_projects_file_narrows_the_container_and_never_widens_it(
    project: Path, name: str, wide: str, narrow: str
) -> None:
    (project / "corral.toml").write_text(f"[sandbox.container]\n{name} = {wide}\n")
    asked = load_configuration(project)
    assert asked.container == Container() and len(asked.cuts) == 1

    say(project, f"[sandbox.container]\n{name} = {wide}\n")
    (project / "corral.toml").write_text(f"[sandbox.container]\n{name} = {narrow}\n")
    narrowed = load_configuration(project)
    assert narrowed.container == Container() and not narrowed.cuts


@pytest.mark.parametrize(
    ("order", "asked", "left"),
    [
        ('["podman", "native"]', '["native", "podman"]', ("native", "podman")),
        ('["podman", "native"]', '["docker", "native"]', ("native",)),
        ('["podman"]', '["docker"]', ("podman",)),
    ],
)
def test_a_projects_file_chooses_among_the_backends_that_are_permitted(
    project: Path, order: str, asked: str, left: tuple[str, ...]
) -> None:
    say(project, f"[sandbox]\nbackends = {order}\n")
    (project / "corral.toml").write_text(f"[sandbox]\nbackends = {asked}\n")

    assert load_configuration(project).backends == left


def test_a_projects_file_names_no_backend_outside_of_the_order(project: Path) -> None:
    say(project, '[sandbox]\nbackends = ["podman", "native"]\n')
    for name, taken in (("native", "native"), ("docker", "auto"), ("none", "auto")):
        (project / "corral.toml").write_text(f'[sandbox]\nbackend = "{name}"\n')
        assert load_configuration(project).backend == taken


def test_where_something_is_waived_a_projects_file_changes_no_order(project: Path) -> None:
    """One backend may hold more of the rest than another."""
    say(project, '[sandbox]\nbackends = ["native", "landlock"]\nwaive = ["fs.metadata"]\n')
    (project / "corral.toml").write_text('[sandbox]\nbackends = ["landlock"]\n')

    assert load_configuration(project).backends == ("native", "landlock")


@pytest.mark.parametrize("name", ["none", "auto"])
def test_an_order_holds_only_what_confines(project: Path, name: str) -> None:
    say(project, f'[sandbox]\nbackends = ["native", "{name}"]\n')

    with pytest.raises(ConfigurationError, match="backends"):
        load_configuration(project)


@pytest.mark.parametrize("configured", [False, True])
def test_the_flag_names_an_image(project: Path, monkeypatch, configured: bool) -> None:
    if configured:
        say(project, '[sandbox]\nimage = "other"\n')
    monkeypatch.chdir(project)
    sandbox = build_request({**defaults(), "image": "alpine:3"}, ("true",)).sandbox

    assert sandbox.explain("true").plan.container.image == "alpine:3"


@pytest.mark.parametrize("image", ["--privileged", "-v", "", "a b", "a\nb", "$(x)", "/etc", "é"])
def test_what_is_no_image_is_refused(image: str) -> None:
    with pytest.raises(ValueError, match="image"):
        parse_image(image)
    with pytest.raises(PolicyError) as refused:
        Sandbox(container=Container(image), host=FakeHost(), workspace="/home/ann/project")
    assert refused.value.code == "container-setting"


@pytest.mark.parametrize("image", [DEFAULT_IMAGE, "a", "host.example:5000/a/b:1.0", f"a@sha256:{'0' * 64}"])
def test_images_are_written_as_usual(image: str) -> None:
    assert parse_image(image) == image


@pytest.mark.parametrize("port", ["80:80", "80:80/udp", "127.0.0.1:80:80", "[::1]:80:80/tcp"])
def test_ports_are_written_as_usual(port: str) -> None:
    assert parse_port(port) == port


@pytest.mark.parametrize(
    "port", ["80", "0:80", "80:70000", "80:80/x", ":80:80", "::1:80:80", "a:80:80", "-p:1:1", "٣:80"]
)
def test_what_is_no_port_is_refused(port: str) -> None:
    with pytest.raises(ValueError, match=r"port|address"):
        parse_port(port)


@pytest.mark.parametrize("volume", ["a:/b", "a:/b:ro", "/srv/x:/y:rw"])
def test_volumes_are_written_as_usual(volume: str) -> None:
    assert parse_volume(volume) == volume


@pytest.mark.parametrize(
    "volume",
    ["a", "a:b", "a:/", "a:/b:z", "/..:/b", "/a/../b:/c", "-v:/b", ":/b", "a:/b,readonly", "a:/b:ro:x"],
)
def test_what_is_no_volume_is_refused(volume: str) -> None:
    with pytest.raises(ValueError, match=r"volume|inside"):
        parse_volume(volume)


@pytest.mark.parametrize("user", ["caller", "root", "0", "5", "1000:1000"])
def test_users_are_numbers(user: str) -> None:
    assert parse_user(user) == user


@pytest.mark.parametrize("user", ["", "ann", "-1", "5:", ":5", "1:2:3", "4294967295", "٣", "0x1", " 5"])
def test_what_is_no_user_is_refused(user: str) -> None:
    with pytest.raises(ValueError, match="a user is"):
        parse_user(user)


@pytest.mark.parametrize("name", ["", "a", "-a", ".a", "a b", "a/b", "a" * 129, "é" * 2])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        parse_name(name)


@pytest.mark.parametrize(
    "setting",
    [
        *({"pull": "always"}, {"network": "none"}, {"root": "rw"}, {"user": 0}, {"name": "-x"}),
        *({"start_seconds": 0}, {"start_seconds": "1"}, {"start_seconds": float("nan")}),
    ],
    ids=str,
)
def test_what_cannot_be_said_of_a_container_is_refused(setting: dict[str, object]) -> None:
    with pytest.raises(PolicyError):
        check_container(Container(**setting))


@pytest.mark.parametrize("path", ["", "relative", "/", "/a//b", "/a/./b", "/a/..", "/a:b", "/a\nb"])
def test_what_is_no_path_inside_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="inside"):
        parse_inside(path)


def test_the_default_is_right() -> None:
    check_container(Container())
