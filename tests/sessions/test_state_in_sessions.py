"""`stateful=True`: the next command begins where the last one ended, and nothing else is different."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from support.keeping import python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.result import Result
    from corral.sessions.session import Session
    from support.keeping import Keeper

BACKENDS = ("native", "landlock", "bubblewrap")


def do(session: Session, line: str) -> Result:
    return session.run(line, stateful=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_directory_and_variables_stay(keeper: Keeper, backend: str) -> None:
    session = keeper.session(backend=backend)

    assert do(session, "mkdir -p 'a b/c' && cd 'a b/c' && export X='one two' Y=3; Z=hidden").stdout == ""
    done = do(session, 'pwd; echo "$X" "$Y" "${Z-unset}"')

    assert done.stdout == f"{keeper.work}/a b/c\none two 3 unset\n"
    assert done.stderr == ""
    assert session.run("pwd; echo ${X-unset}").stdout == f"{keeper.work}\nunset\n"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("exit 3", 3),
        ("false", 1),
        ("true", 0),
        ("set -e; false; echo never", 1),
        ("set -u; echo $nothing_of_that_name", 2),
        ("trap 'exit 7' EXIT; exit 3", 7),
        ("trap 'echo bye' EXIT; exit 3", 3),
        ("exec sh -c 'exit 9'", 9),
        ("(exit 5)", 5),
        ("sh -c 'kill -TERM $$'", 128 + 15),
        ("if", 2),
        ("nothing-of-that-name-here", 127),
        ("! true", 1),
        ("return 4", 4),
    ],
)
def test_the_status_is_the_commands_own(keeper: Keeper, line: str, status: int) -> None:
    """As the same line has it in a plain shell of the host."""
    session = keeper.session()
    plain = session.run(line)

    done = do(session, line)

    assert (done.exit_code, done.stdout) == (plain.exit_code, plain.stdout)
    assert plain.exit_code == status
    assert do(session, "echo well").stdout == "well\n"


def test_who_ends_itself_by_a_signal_has_that_signal(keeper: Keeper) -> None:
    session = keeper.session()
    do(session, "export X=before")

    assert do(session, "export X=after; kill -9 $$").signal == signal.SIGKILL
    assert do(session, "echo $X").stdout == "before\n"


@pytest.mark.parametrize(
    "value",
    [
        "it's",
        'a "quoted" one',
        "two\nlines\n\nand more",
        "$(touch evil) `touch evil` ${HOME}",
        "żółć 🜚",
        "\\",
        "*",
        "-n",
    ],
)
def test_values_of_every_kind_stay(keeper: Keeper, value: str) -> None:
    session = keeper.session()
    assert session.run('export X="$GIVEN"', stateful=True, env={"GIVEN": value}).exit_code == 0

    done = do(session, "printenv X")

    assert done.stdout == f"{value}\n"
    assert not (keeper.work / "evil").exists()


def test_a_directory_that_is_gone_leads_back_to_the_workspace(keeper: Keeper) -> None:
    session = keeper.session()
    do(session, "mkdir gone; cd gone; rmdir ../gone")

    done = do(session, "pwd")

    assert (done.exit_code, done.stdout) == (0, f"{keeper.work}\n")


def test_a_program_with_arguments_begins_there_as_well(keeper: Keeper) -> None:
    session = keeper.session()
    do(session, "mkdir sub; cd sub; export X=1")

    done = session.run(
        python("import os, sys\nprint(os.getcwd(), os.environ['X'], sys.argv[1:])", "a b", "$X"),
        stateful=True,
    )

    assert done.stdout == f"{keeper.work}/sub 1 ['a b', '$X']\n"


def test_what_is_asked_for_by_name_wins(keeper: Keeper) -> None:
    """A directory or a variable that this very call gives is newer than what the last one left."""
    session = keeper.session()
    (keeper.work / "sub").mkdir()
    do(session, "export X=old; cd /")

    done = session.run("pwd; echo $X", stateful=True, cwd="sub", env={"X": "new"})

    assert done.stdout == f"{keeper.work}/sub\nnew\n"


def test_a_hostile_state_stays_inside(keeper: Keeper) -> None:
    outside = keeper.work.parent / "outside"
    session = keeper.session()
    do(session, "true")
    hostile = f"touch {outside}; export PATH=/evil; exit 0; cd /nowhere"
    session.run(f"echo '{hostile}' > $TMPDIR/.corral-state; echo '{hostile}' > $TMPDIR/.corral-state.new")

    do(session, "echo one")

    assert not outside.exists()
    assert session.run("echo well").stdout == "well\n"
    session.reset()
    assert do(session, "echo well").stdout == "well\n"


@pytest.mark.parametrize("name", ["dash", "bash", "busybox"])
def test_with_every_shell(keeper: Keeper, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What /bin/sh is differs between systems and images."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"there is no {name} on this host")
    import corral.sessions.stateful

    real = corral.sessions.stateful.remember

    def remember(*arguments: object, **more: object) -> tuple[str, ...]:
        _, *rest = real(*arguments, **more)
        return (program, *(["sh"] if name == "busybox" else []), *rest)

    monkeypatch.setattr("corral.sessions.stateful.remember", remember)
    session = keeper.session()

    assert do(session, "mkdir -p d; cd d; export X='it'\"'\"'s\n2'").exit_code == 0
    assert do(session, 'printf "%s|" "$X"; pwd').stdout == f"it's\n2|{keeper.work}/d\n"
    assert do(session, "exit 3").exit_code == 3
    assert do(session, "set -e; false").exit_code == 1
    assert do(session, "if").exit_code not in (0, None)
    assert do(session, "kill -9 $$").signal == signal.SIGKILL
    assert do(session, "pwd").stdout == f"{keeper.work}/d\n"
    assert os.listdir(keeper.work) == ["d"]
