"""Packages come from the host's own Debian archives, from what was asked for, and from nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.images.sources import Sources, choose_sources

DEB822 = """\
Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: https://other.example/node
Suites: nodistro
Components: main

Enabled: no
Types: deb
URIs: http://old.example/debian
Suites: bookworm
Components: main
"""
ONE_LINE = """\
# deb http://commented.example/debian bookworm main
deb [signed-by=/key.gpg arch=amd64] http://security.example/debian-security bookworm-security main contrib
deb-src http://source.example/debian bookworm main
deb http://browser.example/deb stable main
"""


@pytest.fixture
def debian(tmp_path: Path) -> Path:
    """The root of a Debian 12 with archives of its own and of others."""
    (tmp_path / "etc/apt/sources.list.d").mkdir(parents=True)
    (tmp_path / "etc/os-release").write_text('ID=debian\nVERSION_CODENAME=bookworm\nNAME="Debian"\n')
    (tmp_path / "etc/apt/sources.list.d/debian.sources").write_text(DEB822)
    (tmp_path / "etc/apt/sources.list").write_text(ONE_LINE)
    return tmp_path


def test_only_the_archives_of_the_hosts_release_are_taken(debian: Path) -> None:
    assert choose_sources(root=str(debian)).listing == (
        "types: deb\n"
        "uris: http://security.example/debian-security\n"
        "suites: bookworm-security\n"
        "components: main contrib\n"
        "signed-by: /key.gpg\n"
        "architectures: amd64\n"
        "\n"
        "types: deb\n"
        "uris: http://mirror.example/debian\n"
        "suites: bookworm bookworm-updates\n"
        "components: main\n"
        "signed-by: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )


def test_what_was_asked_for_is_all_that_is_taken(debian: Path) -> None:
    asked = ("http://mine.example/debian",)

    assert choose_sources("trixie", asked, root=str(debian)) == Sources("trixie", asked)
    assert choose_sources("", asked, root=str(debian)) == Sources("bookworm", asked)
    assert choose_sources("trixie", root=str(debian)) == Sources("trixie")


def test_elsewhere_debian_has_public_mirrors(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text("ID=fedora\nVERSION_CODENAME=\n")

    assert choose_sources(root=str(tmp_path)) == Sources("stable")
    assert choose_sources(root=str(tmp_path / "nowhere")) == Sources("stable")


def test_mmdebstrap_gets_a_suite_and_mirrors_or_a_list() -> None:
    assert Sources("trixie", ("http://a",)).arguments("/x.tar") == ["trixie", "/x.tar", "http://a"]
    assert Sources(listing="types: deb\n").arguments("/x.tar") == ["", "/x.tar", "-"]
