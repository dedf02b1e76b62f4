"""Recipes: what each variant of the image consists of, in data files that are read on one page.

A line is `extend NAME`, `package NAME`, `link TARGET PATH` or `remove PATTERN`; `#` begins a comment.
`finish.sh`, the same for all, trims the result and says what is in it.
"""

from __future__ import annotations

import os.path

from corral.model.errors import BugError, PolicyError
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The name that images get; the variant is the tag.
REPOSITORY = "corral/sandbox"
VARIANTS = ("minimal", "python", "node", "standard", "full")
#: Other names of a variant: further tags of the same image.
ALIASES = {"latest": "standard"}
DEFAULT_VARIANT = "latest"

_DIRECTORY = os.path.join(os.path.dirname(__file__), "recipes")
_FINISH = "finish.sh"
#: INVARIANT: these characters mean themselves to a shell, but for the asterisk, which is meant.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-@")


class Recipe(Record):
    """A variant, with everything that it extends in place."""

    variant: str
    description: str
    packages: tuple[str, ...]  # sorted, each once
    links: tuple[tuple[str, str], ...]  # (what it leads to, where it is)
    removed: tuple[str, ...]  # patterns of paths
    finish: str  # the shell script that ends every build

    @property
    def names(self) -> tuple[str, ...]:
        """The image's names, the one of the variant first."""
        others = (alias for alias, variant in ALIASES.items() if variant == self.variant)
        return tuple(f"{REPOSITORY}:{tag}" for tag in (self.variant, *others))

    def render(self) -> str:
        """The recipe as a text of its own: what is kept in the image, and what the digest is made of."""
        return "\n".join(
            [
                f"# {self.variant}: {self.description}",
                *(f"package {name}" for name in self.packages),
                *(f"link {target} {path}" for target, path in self.links),
                *(f"remove {pattern}" for pattern in self.removed),
                "",
            ]
        )

    def digest(self) -> str:
        """What changes whenever another image would be built from the same packages."""
        import hashlib

        text = f"{self.render()}\n{self.finish}"
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    def script(self) -> str:
        """The shell script for mmdebstrap, which runs it with the root file system as its argument."""
        lines = [*(f"rm -rf {pattern[1:]}" for pattern in self.removed)]
        for target, path in self.links:
            lines += [f"mkdir -p {os.path.dirname(path)[1:]}", f"ln -sfn {target} {path[1:]}"]
        kept = ["mkdir -p usr/share/corral", "cat >usr/share/corral/recipe <<'END'", self.render() + "END"]
        return "\n".join(["set -eu", 'cd "$1"', *lines, *kept, self.finish])


def canonical_variant(name: str) -> str:
    """The variant that a name means. Raises PolicyError, with the nearest name, for an unknown one."""
    variant = ALIASES.get(name, name)
    if variant in VARIANTS:
        return variant
    import difflib

    known = (*VARIANTS, *ALIASES)
    near = difflib.get_close_matches(name, known, n=1)
    raise PolicyError(
        "image-unknown-variant",
        f"there is no image variant {name!r}",
        why=f"the variants are {', '.join(known)}",
        fix=f"did you mean `{near[0]}`?"
        if near
        else "choose one of them; `corral image list` describes them",
    )


def load_recipe(name: str) -> Recipe:
    """The recipe of a variant or of its other name. Raises PolicyError for an unknown one."""
    variant = canonical_variant(name)
    packages: set[str] = set()
    links: dict[str, str] = {}
    removed: dict[str, None] = {}
    for word, operands in _lines(variant):
        if word == "package" and len(operands) == 1:
            packages.add(operands[0])
        elif word == "link" and len(operands) == 2:
            links[operands[1]] = operands[0]
        elif word == "remove" and len(operands) == 1:
            removed[operands[0]] = None
        else:
            raise BugError(f"the recipe of {variant} has a line that means nothing", why=f"{word} {operands}")
    description = _read(f"{variant}.recipe").partition("\n")[0].partition(":")[2].strip()
    pairs = tuple((target, path) for path, target in sorted(links.items()))
    finish = _read(_FINISH)
    return Recipe(variant, description, tuple(sorted(packages)), pairs, tuple(removed), finish)


def _lines(name: str) -> Iterator[tuple[str, list[str]]]:
    for line in _read(f"{name}.recipe").splitlines():
        word, *operands = line.split() or ["#"]
        if word.startswith("#"):
            continue
        if any(set(operand) - _PLAIN - {"*"} for operand in operands):
            raise BugError(f"the recipe {name} has a character that a shell would read", why=line)
        if word == "extend":
            yield from _lines(operands[0])
        else:
            yield word, operands


def _read(name: str) -> str:
    with open(os.path.join(_DIRECTORY, name), encoding="utf-8") as file:
        return file.read()
