"""Which changes of a git configuration are taken over, and that nothing else of the file changes."""

from __future__ import annotations

import pytest

from corral.git_formats import judge as judging
from corral.git_formats.config import MalformedConfig, read_config
from corral.git_formats.judge import judge
from corral.git_formats.rewrite import rewrite

BASE = b"""# the user's own
[core]
\trepositoryformatversion = 0
\tbare = false
\tfsmonitor = false ; never
\thooksPath = /opt/hooks
[remote "origin"]
\turl = https://example.org/a.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
[user]
\tname = Ann
"""


def _refused(after: bytes, base: bytes = BASE) -> dict[str, str]:
    judgement = judge(base, after)
    if not judgement.taken:
        assert judgement.data == base
    return dict(judgement.refused)


@pytest.mark.parametrize(
    ("more", "names"),
    [
        (b"[user]\n\temail = a@b.c\n", ("user.email",)),
        (
            b'[remote "fork"]\n\turl = git@example.org:b/c\n\tfetch = +refs/heads/*:refs/remotes/fork/*\n',
            ("remote.fork.url", "remote.fork.fetch"),
        ),
        (b'[branch "x"]\n\tremote = origin\n\tmerge = refs/heads/x\n', ("branch.x.remote", "branch.x.merge")),
        (b"[core]\n\tautocrlf = input\n", ("core.autocrlf",)),
    ],
)
def test_what_is_harmless_is_taken_over(more: bytes, names: tuple[str, ...]) -> None:
    judgement = judge(BASE, BASE + more)

    assert judgement.taken == names
    assert judgement.refused == ()
    assert [(entry.name, entry.value) for entry in read_config(judgement.data) if entry.name in names] == [
        (entry.name, entry.value) for entry in read_config(more)
    ]


@pytest.mark.parametrize(
    ("more", "name"),
    [
        (b"[core]\n\tfsmonitor = ./evil\n", "core.fsmonitor"),
        (b"[core]\n\tsshCommand = ./evil\n", "core.sshcommand"),
        (b"[alias]\n\tst = !./evil\n", "alias.st"),
        (b"[include]\n\tpath = ../evil\n", "include.path"),
        (b'[remote "x"]\n\turl = ext::./evil\n', "remote.x.url"),
        (b'[remote "x"]\n\turl = /tmp/evil\n', "remote.x.url"),
        (b'[branch "x"]\n\tremote = ./evil\n', "branch.x.remote"),
        (
            b'[url "https://evil.example/"]\n\tinsteadOf = https://example.org/\n',
            "url.https://evil.example/.insteadof",
        ),
    ],
)
def test_what_could_run_something_is_refused_by_name(more: bytes, name: str) -> None:
    assert _refused(BASE + more) == {name: judging.NOT_HARMLESS}


@pytest.mark.parametrize(
    ("more", "name", "why"),
    [
        (
            b'[remote "origin"]\n\tpushurl = https://evil.example/a\n',
            "remote.origin.pushurl",
            judging.EXISTING_ADDRESS,
        ),
        (
            b'[remote "origin"]\n\turl = https://evil.example/a\n',
            "remote.origin.url",
            judging.EXISTING_ADDRESS,
        ),
        (b"[lfs]\n\turl = https://evil.example/a\n", "lfs.url", judging.EXISTING_ADDRESS),
        (b'[branch "main"]\n\tpushRemote = origin\n', "branch.main.pushremote", judging.WHERE_TO_PUSH),
        (b"[remote]\n\tpushDefault = origin\n", "remote.pushdefault", judging.WHERE_TO_PUSH),
        (
            b'[remote "https://example.org/a.git"]\n\turl = https://evil.example/a\n',
            "remote.https://example.org/a.git.url",
            judging.ODD_NAME,
        ),
        (b'[remote "."]\n\turl = https://evil.example/a\n', "remote...url", judging.ODD_NAME),
        (b'[remote ".."]\n\turl = https://evil.example/a\n', "remote....url", judging.ODD_NAME),
        (b'[remote "../b"]\n\tpushurl = https://evil.example/a\n', "remote.../b.pushurl", judging.ODD_NAME),
        (b'[branch "main"]\n\tremote = .\n', "branch.main.remote", judging.WHERE_TO_PUSH),
    ],
)
def test_what_leads_the_next_push_elsewhere_is_refused(more: bytes, name: str, why: str) -> None:
    assert _refused(BASE + more) == {name: why}


def test_a_branch_does_not_follow_a_new_remote_where_there_are_others() -> None:
    more = b'[remote "fork"]\n\turl = https://evil.example/a\n[branch "main"]\n\tremote = fork\n'

    assert _refused(BASE + more) == {"branch.main.remote": judging.WHERE_TO_PUSH}


@pytest.mark.parametrize("name", [b".", b"..", b"../x"])
def test_no_remote_is_called_like_a_path(name: bytes) -> None:
    """Not the first one of a repository either. `.` is what branches follow that follow another branch."""
    base = b"[core]\n\tbare = false\n"
    follow = b'[branch "main"]\n\tremote = ' + name + b"\n"
    address = b'[remote "' + name + b'"]\n\turl = https://evil.example/a\n'

    assert f"remote.{name.decode()}.url" in _refused(base + address + follow, base)
    assert b"evil" not in judge(base, base + address + follow).data


def test_a_new_branch_may_follow_another_branch() -> None:
    assert _refused(BASE + b'[branch "x"]\n\tremote = .\n\tmerge = refs/heads/main\n') == {}


def test_the_first_remote_of_a_repository_may_be_followed() -> None:
    base = b"[core]\n\tbare = false\n"
    more = b'[remote "origin"]\n\turl = https://example.org/a\n[branch "main"]\n\tremote = origin\n'

    assert _refused(base + more, base) == {}


def test_no_new_remote_becomes_the_usual_one() -> None:
    base = b'[remote "work"]\n\turl = https://example.org/a\n'

    assert _refused(base + b'[remote "origin"]\n\turl = https://evil.example/a\n', base) == {
        "remote.origin.url": judging.ODD_NAME
    }


def test_what_belongs_to_a_refused_remote_is_refused_with_it() -> None:
    more = (
        b'[remote "x"]\n\turl = ext::./evil\n\tfetch = +refs/heads/*:refs/remotes/x/*\n'
        b'[branch "y"]\n\tremote = x\n'
    )

    assert _refused(BASE + more) == {
        "remote.x.url": judging.NOT_HARMLESS,
        "branch.y.remote": judging.NOT_HARMLESS,
        "remote.x.fetch": judging.OF_A_REMOTE,
    }


@pytest.mark.parametrize(
    ("line", "name", "why"),
    [
        (b"\tfsmonitor = false ; never\n", "core.fsmonitor", judging.PROTECTS),
        (b"\tbare = false\n", "core.bare", judging.PROTECTS),
        (b"\trepositoryformatversion = 0\n", "core.repositoryformatversion", judging.PROTECTS),
        (b"\thooksPath = /opt/hooks\n", "core.hookspath", judging.NOT_THE_COMMANDS),
        (b"\turl = https://example.org/a.git\n", "remote.origin.url", judging.EXISTING_ADDRESS),
    ],
)
def test_what_protects_is_not_removed(line: bytes, name: str, why: str) -> None:
    assert _refused(BASE.replace(line, b""))[name] == why


def test_a_removed_setting_is_removed_and_nothing_else() -> None:
    judgement = judge(BASE, BASE.replace(b"\tname = Ann\n", b""))

    assert judgement.taken == ("user.name",)
    assert judgement.data == BASE.replace(b"\tname = Ann\n", b"")


def test_a_setting_that_comes_and_goes_leaves_one_header() -> None:
    gone = judge(BASE, BASE.replace(b"\tname = Ann\n", b"")).data
    again = judge(gone, gone + b"[user]\n\tname = Bob\n").data

    assert again == BASE.replace(b"Ann", b"Bob")


def test_spelling_lines_and_comments_of_the_command_stay_outside() -> None:
    after = BASE + b"[user] # [core] fsmonitor=x\n\tNAME = Be\\\n[core]\\\n\n# evil\n"

    judgement = judge(BASE, after.replace(b"\tname = Ann\n", b""))

    assert judgement.data == BASE.replace(b"name = Ann", b"NAME = Be[core]")


def test_other_order_is_no_change() -> None:
    first, second = b"[user]\n\tname = A\n", b"[include]\n\tpath = x\n"

    assert judge(first + second, second + first).data == first + second


@pytest.mark.parametrize("value", ["plain", "with # and ;", " around ", 'a "b" \\ c', ""])
def test_values_are_read_as_they_were_written(value: str) -> None:
    written = rewrite(
        b"[user]\n\tname = x", {"user.name": (("name", value),), "user.email": (("email", value),)}
    )

    assert [entry.value for entry in read_config(written)] == [value, value]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_every_end_of_a_file_will_do(end: bytes) -> None:
    base = b"[user]\r\n\tname = Ann" + end
    judgement = judge(base, base + b"\n[user]\n\temail = a@b.c\n")

    assert judgement.taken == ("user.email",)
    assert judgement.data.startswith(b"[user]\r\n\tname = Ann")


@pytest.mark.parametrize("after", [b"[core", b"no section =\n[", b"\xff\xfe"])
def test_a_malformed_file_is_an_error(after: bytes) -> None:
    with pytest.raises(MalformedConfig):
        judge(BASE, after)


class _Compared(str):
    """A name that counts how often it is compared with another."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        _Compared.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_every_name_is_looked_for_once() -> None:
    data = b"".join(b'[branch "%d"]\n\tmerge = refs/heads/x\n' % number for number in range(1000))
    names = [_Compared(f"branch.{number}.merge") for number in range(500, 1500)]
    _Compared.times = 0

    rewritten = rewrite(data, dict.fromkeys(names, (("merge", "refs/heads/y"),)))

    assert rewritten.count(b"refs/heads/y") == 1000
    assert _Compared.times <= 4 * len(names)


def test_a_long_name_is_not_that_of_many_settings() -> None:
    with pytest.raises(MalformedConfig):
        read_config(b'[branch "' + b"x" * 10_000 + b'"]\n' + b"a\n" * 1000)
