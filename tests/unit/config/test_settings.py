"""What a file says: every key of its kind, and every mistake with its place."""

from __future__ import annotations

import pytest

from corral.config.document import DocumentProblems
from corral.config.keys import KEYS
from corral.config.read import read_settings
from corral.config.setting import Source
from corral.config.template import render_toml
from corral.config.values import WrongValue
from corral.config.variables import read_variables
from corral.model.problem import Problem
from support.mistakes import FIVE_MISTAKES


def settings(text: str, file: str = "corral.toml") -> dict[str, object]:
    """Key -> value, of what holds for everyone; lists are gathered."""
    found: dict[str, object] = {}
    for setting in read_settings(text, file, Source.USER).for_agent(""):
        name = setting.key.name
        found[name] = [*found.get(name, []), setting.value] if setting.key.is_list else setting.value  # type: ignore[misc]
    return found


def problems(text: str, file: str = "corral.toml") -> list[Problem]:
    with pytest.raises(DocumentProblems) as found:
        read_settings(text, file, Source.USER)
    return list(found.value.problems)


def test_five_different_mistakes_are_five_problems_with_their_places() -> None:
    found = [(problem.line, problem.column, problem.fix) for problem in problems(FIVE_MISTAKES)]

    assert found == [
        (2, 11, "write true or false, without quotes"),
        (3, 1, "did you mean 'network'?"),
        (4, 11, "did you mean 'docker'?"),
        (7, 10, 'write it as in "2G" or "512MiB"'),
        (8, 8, "write it as in 256"),
    ]


def test_the_same_mistakes_in_json_have_their_places_too() -> None:
    text = '{\n "sandbox": {\n  "enabled": 1,\n  "netwrok": "x"\n }\n}'

    assert [(problem.line, problem.column) for problem in problems(text, "corral.json")] == [(3, 14), (4, 3)]


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ('network = "none"', "write sandbox.network"),
        ("[resources]\nmemory = 1", "write sandbox.resources"),
        ("[sandox]", "did you mean 'sandbox'?"),
        ("[sandbox]\nmemory = 1", "write resources.memory"),
        ("[agent.x]\nnetwork = 1", "write sandbox.network"),
        ('[sandbox]\nreadonly_paths = ["docs"]', "write ${workspace}/docs for a path in the project"),
        ('[sandbox]\nreadonly_paths = "/docs"', "write a list, each of it a path"),
        ('[sandbox]\nbackend = "auto"\nruntime = "auto"', "leave one of them out"),
        ('[sandbox]\nnetwork = "none"\n[security.sandbox]\nnetwork = "full"', "leave one of them out"),
        ('[sandbox]\ncapabilities = ["filesystem:raed:/x"]', "did you mean 'read'?"),
        ('[sandbox]\nwaive = ["fs.metdata"]', "did you mean 'fs.metadata'?"),
        ('[sandbox]\nbypass_tools = ["bin/sh"]', "write the name of a program, or its whole path"),
        ('[sandbox]\nallow_domains = ["http://x.org/"]', 'write "x.org"'),
        ('[sandbox.environment]\nset = { "A=B" = "1" }', 'write NAME = "value"'),
        ("[sandbox.environment.set]\nCI = 1", 'write it in quotes: "1"'),
        ("sandbox = 1", "write [sandbox] and keys below it"),
        ("[sandbox]\nnetwork = 1979-05-27", "use one of: none, limited, full"),
    ],
)
def test_a_mistake_comes_with_what_to_write_instead(text: str, fix: str) -> None:
    assert [problem.fix for problem in problems(text)] == [fix]


def test_every_key_takes_its_own_example() -> None:
    text = render_toml({key.name: key.example for key in KEYS}, for_user=True)

    assert set(settings(text)) == {key.name for key in KEYS}


def test_the_file_that_init_writes_says_nothing_until_someone_does() -> None:
    assert settings(render_toml({}, for_user=False)) == {}


def test_quantities_can_be_numbers_or_texts() -> None:
    text = "[sandbox.resources]\nmemory = 2147483648\ncpus = 0.5\npids = '64'\ntime = 90\n"

    assert settings(text) == {
        "resources.memory": "2GiB",
        "resources.cpus": "50%",
        "resources.pids": "64",
        "resources.time": "1m30s",
    }


def test_a_table_of_pyproject_is_read_from_where_it_begins() -> None:
    text = "[project]\nname = 'x'\n[tool.corral.sandbox]\nnetwork = 'none'\n[tool.other]\nsandbox = 1\n"

    found = read_settings(text, "pyproject.toml", Source.PROJECT, below=("tool", "corral"))

    assert [str(setting.origin) for setting in found.for_agent("")] == ["pyproject.toml:4:1"]


def test_an_agents_settings_come_after_those_of_everyone() -> None:
    text = "[agent.a.sandbox]\nnetwork = 'full'\n[sandbox]\nnetwork = 'none'\n[agent.b]\n"

    found = read_settings(text, "corral.toml", Source.USER)

    assert [setting.value for setting in found.for_agent("a")] == ["none", "full"]
    assert found.agents == {"a", "b"}


def test_variables_say_the_same_as_keys() -> None:
    found = read_variables(
        {
            "CORRAL_NETWORK": "none",
            "CORRAL_RUNTIME": "native",
            "CORRAL_READONLY_PATHS": "/a:/b",
            "CORRAL_ENVIRONMENT_SET": "A=1,B=2",
            "CORRAL_MOUNTS_WORKSPACE_WRITABLE": "no",
            "CORRAL_SANDBOX": "1",
            "OTHER": "x",
        }
    )

    assert [(setting.key.name, setting.value) for setting in found] == [
        ("backend", "native"),
        ("mounts.workspace_writable", False),
        ("network", "none"),
        ("readonly_paths", "/a"),
        ("readonly_paths", "/b"),
        ("environment.set", ("A", "1")),
        ("environment.set", ("B", "2")),
    ]


def test_a_variable_that_does_not_exist_is_a_mistake() -> None:
    with pytest.raises(DocumentProblems, match="did you mean 'CORRAL_NETWORK'"):
        read_variables({"CORRAL_NETWROK": "none", "CORRAL_ENABLED": "perhaps"})


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
@pytest.mark.parametrize("value", [None, object(), 1j, b"x", float("nan"), [[]], {"": {}}])
def test_no_kind_takes_what_no_file_can_mean(key: object, value: object) -> None:
    from corral.config.keys import Key

    assert isinstance(key, Key)
    kind = key.kind.element if key.kind.element is not None else key.kind
    with pytest.raises(WrongValue):
        kind.read(value)
