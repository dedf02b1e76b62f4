"""Settings from the environment: CORRAL_NETWORK=none, CORRAL_READONLY_PATHS=/a:/b."""

from __future__ import annotations

from corral.config.contradiction import contradictions
from corral.config.document import DocumentProblems
from corral.config.find import OTHER_VARIABLES, PREFIX
from corral.config.keys import BY_NAME, KEYS
from corral.config.setting import Origin, Setting, Source
from corral.config.values import WrongValue, nearest, read_assignment
from corral.model.problem import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from corral.config.keys import Key


def read_variables(environment: Mapping[str, str]) -> tuple[Setting, ...]:
    """Every setting of the environment, in the order of the keys. Raises DocumentProblems."""
    known = {key.variable: key for key in KEYS}
    known |= {f"{PREFIX}{alias.upper()}": key for alias, key in BY_NAME.items() if "." not in alias}
    problems: list[Problem] = []
    found: list[Setting] = []
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES:
            continue
        key = known.get(name)
        if key is None:
            problems.append(Problem(name, 0, 0, "there is no such variable", nearest(name, known)))
            continue
        try:
            said = list(settings_from_text(key, environment[name], Origin(Source.ENVIRONMENT, name)))
            # TRUST: a variable may be the work of the very program that is to be confined.
            if key.only_user and key.only_user in {setting.value for setting in said}:
                raise WrongValue(f"only your own file can say {key.only_user!r}", "say it there")
            found += said
        except WrongValue as problem:
            problems.append(Problem(name, 0, 0, problem.what, problem.fix))
    places = {key.name: number for number, key in enumerate(KEYS)}
    settings = tuple(sorted(found, key=lambda setting: places[setting.key.name]))
    problems += contradictions(settings)
    if problems:
        raise DocumentProblems(tuple(problems))
    return settings


def settings_from_text(key: Key, text: str, origin: Origin) -> Iterator[Setting]:
    """What a variable or a flag says about a key. Raises WrongValue."""
    value = key.kind.read(key.kind.from_text(text))
    if key.kind.element is None:
        yield Setting(key, value, origin)
    elif key.kind.is_table:
        for name, text_of_it in value.items():
            yield Setting(key, read_assignment(name, text_of_it), origin)
    else:
        for element in value:
            yield Setting(key, key.kind.element.read(element), origin)
