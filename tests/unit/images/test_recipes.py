"""Every variant's data is valid, and its digest changes whenever the image would."""

from __future__ import annotations

import subprocess

import pytest

from corral.config.keys import BY_NAME
from corral.images import recipe as recipes
from corral.images.recipe import ALIASES, VARIANTS, canonical_variant, load_recipe
from corral.model.errors import BugError, PolicyError


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_recipe_can_be_read_and_says_what_it_is_for(variant: str) -> None:
    recipe = load_recipe(variant)

    assert recipe.description
    assert recipe.packages == tuple(sorted(set(recipe.packages)))
    assert recipe.names[0] == f"corral/sandbox:{variant}"


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_mmdebstrap_runs_is_a_script(variant: str, tmp_path) -> None:
    script = tmp_path / "script"
    script.write_text(load_recipe(variant).script())

    done = subprocess.run(["sh", "-n", script], capture_output=True, text=True, timeout=10)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_script_leaves_alone_what_keeps_apt_in_its_root() -> None:
    """mmdebstrap keeps its configuration of apt in /tmp of the new root until the end."""
    removed = [line for line in load_recipe("full").script().splitlines() if line.startswith("rm ")]

    assert removed
    assert [line for line in removed for word in line.split() if word.split("/")[0] == "tmp"] == []


def test_each_variant_has_what_the_smaller_one_has() -> None:
    packages = {variant: set(load_recipe(variant).packages) for variant in VARIANTS}

    assert packages["minimal"] < packages["python"] < packages["standard"] < packages["full"]
    assert packages["minimal"] < packages["node"] < packages["standard"]
    assert {"zsh", "gcc", "nodejs", "python3", "apt", "make"} <= packages["standard"]
    assert {"python3", "python3-pip", "python3-venv", "git"} <= packages["python"]
    assert {"nodejs", "npm"} <= packages["node"]
    assert {"g++", "rustc", "golang-go"} <= packages["full"]


def test_latest_is_another_name_of_standard() -> None:
    assert load_recipe("latest") == load_recipe("standard")
    assert load_recipe("standard").names == ("corral/sandbox:standard", "corral/sandbox:latest")
    assert BY_NAME["image"].example in load_recipe("latest").names


@pytest.mark.parametrize(
    "change",
    [
        {"packages": ("bash",)},
        {"links": (("/usr/bin/a", "/usr/bin/b"),)},
        {"removed": ("/usr/share/games",)},
        {"finish": "true\n"},
        {"description": "something else"},
    ],
)
def test_the_digest_changes_when_the_recipe_does(change: dict[str, object]) -> None:
    recipe = load_recipe("minimal")

    assert recipe.digest() == load_recipe("minimal").digest()
    assert recipe.replace(**change).digest() != recipe.digest()


def test_the_digests_of_variants_differ() -> None:
    assert len({load_recipe(variant).digest() for variant in VARIANTS}) == len(VARIANTS)


def test_an_unknown_variant_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PolicyError) as caught:
        canonical_variant("pyhton")

    assert caught.value.code == "image-unknown-variant"
    assert "did you mean `python`?" in caught.value.fix
    assert all(name in caught.value.why for name in (*VARIANTS, *ALIASES))


@pytest.mark.parametrize("line", ["package a;b", "package $(id)", "remove /x y", "install a", "link /a"])
def test_a_line_that_means_nothing_is_not_built(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "_read", lambda _: f"# minimal: x\n{line}\n")

    with pytest.raises(BugError):
        load_recipe("minimal")
