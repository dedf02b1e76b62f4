"""Finding the caller's programs without opening the home directory."""

from __future__ import annotations

import pytest

from corral.planning.resolve import Resolver
from corral.planning.resolved_policy import resolve_policy
from corral.planning.tools import find_tools
from corral.policy.compose import build_policy
from corral.policy.preset import hidden_in_homes
from support.fake_host import FakeHost

HOME = "/home/ann"
WORK = f"{HOME}/project"


def tools_of(files: dict[str, str], *path: str, **settings: object) -> tuple[str, ...]:
    host = FakeHost(files, env={"PATH": ":".join((*path, "/usr/bin", "/bin"))}, **settings)
    return find_tools(host, Resolver(host), WORK, (WORK,))


def granted(files: dict[str, str], *path: str) -> list[str]:
    host = FakeHost(files, env={"PATH": ":".join((*path, "/usr/bin", "/bin"))})
    return [grant.target.path for grant in resolve_policy(build_policy("moderate"), WORK, host).grants]


def _shows(paths, secret: str) -> bool:
    return any(secret == path or secret.startswith(path + "/") for path in paths)


def test_system_programs_need_nothing_more() -> None:
    assert tools_of({}) == ()


def test_pyenv_is_readable_as_a_whole() -> None:
    files = {f"{HOME}/.pyenv/shims/python": "#!", f"{HOME}/.pyenv/versions/3.11/bin/python3": "elf"}

    assert f"{HOME}/.pyenv" in tools_of(files, f"{HOME}/.pyenv/shims")


def test_a_version_of_node_is_readable_and_nothing_beside_it_is() -> None:
    files = {
        f"{HOME}/.nvm/versions/node/v20/bin/node": "elf",
        f"{HOME}/.nvm/versions/node/v20/lib/node_modules/npm/cli.js": "",
        f"{HOME}/.npmrc": "the secret",
    }
    found = granted(files, f"{HOME}/.nvm/versions/node/v20/bin")

    assert _shows(found, f"{HOME}/.nvm/versions/node/v20/lib/node_modules/npm/cli.js")
    assert not _shows(found, f"{HOME}/.npmrc")


def test_cargo_works_without_its_credentials() -> None:
    files = {
        f"{HOME}/.cargo/bin/cargo": "elf",
        f"{HOME}/.cargo/credentials.toml": "the secret",
        f"{HOME}/.cargo/registry/": "",
        f"{HOME}/.rustup/toolchains/stable/bin/rustc": "elf",
    }
    found = granted(files, f"{HOME}/.cargo/bin")

    assert _shows(found, f"{HOME}/.cargo/bin/cargo")
    assert _shows(found, f"{HOME}/.rustup/toolchains/stable/bin/rustc")
    assert not _shows(found, f"{HOME}/.cargo/credentials.toml")


def test_local_programs_work_without_the_keyrings_beside_them() -> None:
    files = {
        f"{HOME}/.local/bin/uv": "elf",
        f"{HOME}/.local/share/keyrings/login.keyring": "the secret",
        f"{HOME}/.local/share/uv/python/": "",
        f"{HOME}/.local/lib/python3.11/site-packages/x.py": "",
    }
    found = granted(files, f"{HOME}/.local/bin")

    assert _shows(found, f"{HOME}/.local/bin/uv")
    assert _shows(found, f"{HOME}/.local/lib/python3.11/site-packages/x.py")
    assert not _shows(found, f"{HOME}/.local/share/keyrings/login.keyring")


def test_a_link_on_the_path_leads_to_the_installation() -> None:
    files = {
        f"{HOME}/.local/bin/tool": f"-> {HOME}/.local/pipx/venvs/tool/bin/tool",
        f"{HOME}/.local/pipx/venvs/tool/bin/tool": "#!",
        f"{HOME}/.local/pipx/venvs/tool/pyvenv.cfg": "home = /usr/bin",
    }

    assert _shows(tools_of(files, f"{HOME}/.local/bin"), f"{HOME}/.local/pipx/venvs/tool/bin/tool")


def test_the_interpreter_of_a_project_leads_to_its_installation() -> None:
    files = {
        f"{WORK}/.venv/bin/python": f"-> {HOME}/.pyenv/versions/3.11/bin/python3.11",
        f"{WORK}/.venv/pyvenv.cfg": "",
        f"{HOME}/.pyenv/versions/3.11/bin/python3.11": "elf",
        f"{HOME}/.pyenv/versions/3.11/lib/python3.11/os.py": "",
    }

    assert f"{HOME}/.pyenv/versions/3.11" in tools_of(files)


@pytest.mark.parametrize("target", [f"{HOME}/.ssh/bin/python", f"{HOME}/.ssh/id_ed25519", "/etc/shadow"])
def test_an_interpreter_that_was_planted_opens_nothing(target: str) -> None:
    """The workspace is writable: an earlier command may have made the link."""
    files = {f"{WORK}/.venv/bin/python": f"-> {target}", f"{HOME}/.ssh/bin/python": "elf"}

    assert tools_of(files) == ()


def test_a_program_directory_inside_the_workspace_opens_nothing_outside() -> None:
    files = {
        f"{WORK}/node_modules/.bin/x": f"-> {HOME}/.ssh/id_ed25519",
        f"{WORK}/node_modules/.bin/y": f"-> {HOME}/.aws/bin/y",
        f"{HOME}/.aws/bin/y": "elf",
    }

    assert tools_of(files, f"{WORK}/node_modules/.bin") == ()


@pytest.mark.parametrize("entry", [HOME, "/home", "/", f"{HOME}/", "."])
def test_the_home_on_the_path_does_not_open_the_home(entry: str) -> None:
    assert not _shows(tools_of({}, entry), f"{HOME}/.ssh/id_ed25519")


def test_a_bin_directory_in_the_home_does_not_open_the_home() -> None:
    files = {f"{HOME}/bin/tool": "elf"}

    assert not _shows(tools_of(files, f"{HOME}/bin"), f"{HOME}/.ssh/id_ed25519")
    assert _shows(tools_of(files, f"{HOME}/bin"), f"{HOME}/bin/tool")


def test_no_file_of_the_home_is_opened_to_find_programs() -> None:
    host = FakeHost(
        {f"{HOME}/.cargo/credentials.toml": "the secret", f"{HOME}/.cargo/bin/cargo": "elf"},
        env={"PATH": f"{HOME}/.cargo/bin"},
    )
    find_tools(host, Resolver(host), WORK, (WORK,))

    assert host.opened == ["/etc/passwd"]


@pytest.mark.parametrize(
    "files",
    [
        {f"{WORK}/.venv/bin/python": "-> python"},
        {f"{WORK}/.venv": "-> .venv"},
        {f"{HOME}/.local/bin/broken": "-> broken", f"{HOME}/.local/bin/uv": "elf"},
    ],
)
def test_a_link_that_leads_round_in_a_circle_is_passed_over(files: dict[str, str]) -> None:
    """Or else a command could keep every later one from running by leaving such a link behind."""
    assert granted(files, f"{HOME}/.local/bin")


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ({f"{WORK}/bin": f"-> {HOME}/.ssh"}, f"{WORK}/bin"),
        ({f"{WORK}/x": f"-> {HOME}", f"{HOME}/alias": f"-> {WORK}/x/.ssh"}, f"{HOME}/alias"),
        (
            {f"{HOME}/.local/bin/t": f"-> {WORK}/t", f"{WORK}/t": f"-> {HOME}/.ssh/id_ed25519"},
            f"{HOME}/.local/bin",
        ),
    ],
)
def test_a_link_that_a_command_may_have_made_is_not_followed(files: dict[str, str], path: str) -> None:
    found = tools_of({**files, f"{HOME}/.ssh/id_ed25519": "key"}, path)

    assert not _shows(found, f"{HOME}/.ssh/id_ed25519")


def test_a_workspace_cannot_pass_for_the_library_of_an_installation() -> None:
    """It is called `lib`, lies beside `bin`, and a command has put `python3/os.py` into it."""
    host = FakeHost(
        {
            "/srv/lib/python3/os.py": "",
            "/srv/bin/tool": "elf",
            "/srv/secret": "x",
            "/srv/lib/.venv/bin/python": "-> /srv/bin/tool",
        },
        env={"PATH": "/usr/bin"},
    )

    assert not _shows(find_tools(host, Resolver(host), "/srv/lib", ("/srv/lib",)), "/srv/secret")


@pytest.mark.parametrize("home", ["/home/eve", "/srv/people/bob"])
def test_programs_in_the_home_of_another_show_no_more_than_in_the_callers(home: str) -> None:
    """HOME is not always the home that the PATH leads to: sudo, CI, programs that set it."""
    files = {
        "/etc/passwd": "bob:x:1001:1001:Bob:/srv/people/bob:/bin/sh\n",
        f"{home}/.local/bin/tool": "#!",
        f"{home}/.local/lib/tool.py": "",
        f"{home}/.local/share/keyrings/k": "secret",
        f"{home}/bin/tool": "#!",
        f"{home}/lib/x": "",
        f"{home}/share/notes": "secret",
    }
    found = tools_of(files, f"{home}/.local/bin", f"{home}/bin")
    linked = tools_of({**files, "/usr/local/bin/tool": f"-> {home}/.local/bin/tool"}, "/usr/local/bin")

    assert not _shows(linked, f"{home}/.local/share/keyrings/k")
    assert {f"{home}/.local/bin", f"{home}/.local/lib", f"{home}/bin"} <= set(found)
    assert not _shows(found, f"{home}/.local/share/keyrings/k")
    assert not _shows(found, f"{home}/share/notes")


def test_what_tools_bring_along_hides_what_homes_hide() -> None:
    files = {
        f"{HOME}/.local/share/keyrings/k": "secret",
        f"{HOME}/.local/bin/python3": "elf",
        f"{HOME}/.local/lib/python3.12/os.py": "",
        f"{WORK}/.venv/bin/python": f"-> {HOME}/.local/bin/python3",
    }
    resolved = resolve_policy(build_policy("moderate"), WORK, FakeHost(files), hidden_in_homes())

    assert f"{HOME}/.local/share" in {grant.target.path for grant in resolved.grants}
    assert f"{HOME}/.local/share/keyrings" in {target.path for target in resolved.denied}
