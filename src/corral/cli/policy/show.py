"""`corral policy`: list, show, validate, diff, trust. What each prints, for a person or as JSON."""

from __future__ import annotations

import json
import os
import sys

from corral.cli.options import defaults
from corral.cli.policy.effective import effective_json, render_effective
from corral.cli.progress_line import ProgressLine
from corral.cli.request import load_request
from corral.cli.run import report_error
from corral.config.document import DocumentProblems
from corral.config.find import (
    PYPROJECT,
    Found,
    find_project_files,
    find_user_file,
    has_variables,
    named_by_environment,
    read_named,
    working_directory,
)
from corral.config.keys import BY_NAME
from corral.config.load import check_agent, counts, cuts_of, read_file
from corral.config.narrow import show
from corral.config.setting import Origin, Setting, Source, shorten
from corral.config.to_policy import Compiled, compile_settings
from corral.config.trust import distrust, is_trusted, trust, was_trusted
from corral.config.variables import read_variables
from corral.host.real import CONFIG_NAMES, config_directory
from corral.model.errors import ConfigurationError, CorralError, PolicyError
from corral.model.printable import printable
from corral.model.problem import Problem
from corral.model.rules.capability import capabilities_of
from corral.policy.preset import DEFAULT_PRESET, PRESETS, check_preset, describe_preset, preset_backend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from corral.config.setting import FileSettings

    Answer = tuple[int, Iterable[str], dict[str, Any]]  # exit status, lines for a person, JSON


def answer(make: Callable[[], Answer], *, as_json: bool, doing: str = "") -> int:
    """Print what a command found out; its errors too. Returns the exit status.

    `doing` is said on a terminal when it takes long; whoever asks questions says nothing there.
    """
    try:
        with ProgressLine(doing):
            status, lines, value = make()
            lines = list(lines)  # ORDER: the line about progress is gone before the first of these
        if as_json:
            sys.stdout.write(json.dumps({"v": 1, **value}, indent=2) + "\n")
        else:
            sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))
    except CorralError as error:
        return report_error(error, as_json=as_json, about_command=False)
    return status


def list_presets() -> Answer:
    """Every preset with the sentence that says when to use it."""
    width = max(map(len, PRESETS))
    sentences = {name: describe_preset(name) for name in PRESETS}
    sentences[DEFAULT_PRESET] += " (the default)"
    lines = [f"{name:<{width}}  {sentence}" for name, sentence in sentences.items()]
    value = [
        {"name": name, "description": describe_preset(name), "default": name == DEFAULT_PRESET}
        for name in PRESETS
    ]
    return 0, lines, {"presets": value}


def list_bundles() -> Answer:
    """Every bundle with its hosts here, and where that is said."""
    from corral.cli.request import bundle_place
    from corral.config.bundles import find_bundles

    found = find_bundles(bundle_place(None))
    lines = []
    for bundle in found:
        lines.append(f"@{bundle.name:<6} {' '.join(bundle.hosts) or '(nothing here)'}")
        if bundle.hosts:
            lines.append(f"        {', '.join(map(shorten, bundle.origins)) or 'the default'}")
    value = [{"name": one.name, "hosts": list(one.hosts), "origins": list(one.origins)} for one in found]
    return 0, lines, {"bundles": value}


def show_policy(name: str, agent: str = "") -> Answer:
    """A preset, or what a file makes of the default one, as capabilities."""
    policy = named(name, agent).policy
    texts = [str(capability) for capability in capabilities_of(policy)]
    head = []
    if name in PRESETS:
        backend = preset_backend(name)
        head = [f"# {name}: {describe_preset(name)}", *([f"# backend {backend}"] if backend else [])]
    return 0, [*head, *texts], {"name": name, "capabilities": texts, "policy_hash": policy.digest()}


def show_effective(options: Mapping[str, Any], *, verbose: bool) -> Answer:
    """What holds for a run here."""
    configuration = load_request(options)
    return 0, render_effective(configuration, verbose=verbose), effective_json(configuration)


def validate(paths: tuple[str, ...]) -> Answer:
    """Every mistake of the files; without any, of those that count here and of the CORRAL_* variables."""
    lines: list[str] = []
    report = []
    for name, problems in _judged(paths):
        lines += [line for problem in problems for line in problem.render().split("\n")]
        lines += [] if problems else [f"{shorten(name)}: good"]
        report.append({"file": name, "problems": [problem.to_json() for problem in problems]})
    wrong = any(entry["problems"] for entry in report)
    notes = _notes_here() if report and not wrong and not paths else ()
    lines += [f"note: {note}" for note in notes]
    if not report:
        lines = [f"no configuration was found; `corral policy init` writes a {CONFIG_NAMES[0]}"]
    return (2 if wrong else 0), lines, {"files": report, "valid": not wrong, "notes": list(notes)}


def _notes_here() -> tuple[str, ...]:
    """What holds here, and is worth a word: a denial that hides nothing, or why nothing would run."""
    try:
        return load_request(defaults()).sandbox(for_run=False).notes()
    except CorralError as refused:
        return (f"here nothing would run: {refused.what}, because {refused.why}",)


def _judged(paths: tuple[str, ...]) -> Iterator[tuple[str, list[Problem]]]:
    for path in paths:
        try:
            file = read_named(path, is_project=_is_of_project(path))
        except PolicyError as problem:
            yield path, [Problem(path, 0, 0, problem.why, problem.fix)]
        else:
            yield file.path, _problems(file)
    if paths:
        return
    for file in _files_here():
        yield file.path, _problems(file)
    if has_variables():
        try:
            read_variables(os.environ)
        except DocumentProblems as wrong:
            yield "the environment", list(wrong.problems)
        else:
            yield "the environment", []


def compare(first: str, second: str) -> Answer:
    """What one policy says and the other does not, and whether one allows all that the other does."""
    left, right = named(first), named(second)
    of_left, of_right = _said(left), _said(right)
    gone = [text for text in of_left if text not in of_right]
    new = [text for text in of_right if text not in of_left]
    relation = _relation(left, right)
    sentence = {
        "equal": f"{first} and {second} permit the same",
        "narrower": f"{first} permits nothing that {second} forbids",
        "wider": f"{second} permits nothing that {first} forbids",
        "different": f"each of {first} and {second} permits something that the other forbids",
    }[relation]
    lines = [f"--- {first}", f"+++ {second}", *(f"-{text}" for text in gone), *(f"+{text}" for text in new)]
    return 0, [*lines, sentence], {"relation": relation, "only_in_first": gone, "only_in_second": new}


def _said(compiled: Compiled) -> list[str]:
    """The capabilities, then what is no policy and differs from what corral does by itself."""
    policy = [str(capability) for capability in capabilities_of(compiled.policy)]
    other = [
        f"{setting.key.name} = {show(setting)}"
        for setting in compiled.settings
        if setting.key.default is not None or setting.key.name in {"waive", "bypass_tools"}
    ]
    return [*policy, *dict.fromkeys(other)]


def accept(path: str | None, *, yes: bool, can_ask: bool) -> Answer:
    """Trust the project's file as it is now, having said what it would allow, if somebody says yes."""
    file, settings = _project_file(path)
    cuts = cuts_of(settings)
    wishes = [f"  {cut.setting.origin}: {cut.setting.key.name} = {show(cut.setting)}" for cut in cuts]
    head = f"{shorten(file.path)} would allow what your own configuration does not:"
    lines = (
        [head, *wishes] if cuts else [f"{shorten(file.path)} asks for nothing that you do not allow already"]
    )
    if not yes:
        sys.stderr.write("".join(f"{printable(line)}\n" for line in lines))
        if not can_ask:
            raise PolicyError(
                "trust-unasked",
                f"{shorten(file.path)} is not trusted",
                why="it cannot ask: there is no terminal, or --json was given",
                fix="read what it would allow, then confirm with `corral policy trust --yes`",
            )
        import click

        click.confirm("Trust it, as it is now?", abort=True, err=True)
        lines = []
    digest = trust(file)
    lines.append(f"trusted: {shorten(file.path)} (sha256 {digest[:16]}...); any change revokes that")
    value = {"file": file.path, "sha256": digest, "allows": [cut.to_json() for cut in cuts]}
    return 0, lines, {"trusted": value}


def reject(path: str | None) -> Answer:
    """Stop trusting a project's file."""
    paths = [_real(path)] if path else [_project_file(None)[0].path]
    done = [path for path in paths if distrust(path)]
    lines = [f"no longer trusted: {shorten(path)}" for path in done] or ["none of the files here was trusted"]
    return 0, lines, {"distrusted": done}


def trust_state() -> Answer:
    """Which of the project's files are trusted."""
    states = {file.path: _trust_word(file) for file in _project_files()}
    lines = [f"{shorten(path)}: {state}" for path, state in states.items()] or [
        "there is no project file here"
    ]
    return 0, lines, {"files": states}


def named(name: str, agent: str = "") -> Compiled:
    """A preset by its name, or what a configuration file by its path makes by itself, for an agent."""
    if name in PRESETS or not (os.sep in name or name.endswith((".toml", ".json"))):
        check_preset(name)
        return compile_settings([Setting(BY_NAME["profile"], name, Origin(Source.PRESET, f"{name}.caps"))])
    file = read_named(name)
    problems = _problems(file)
    if problems:
        raise ConfigurationError(tuple(problems))
    settings = read_file(file)
    check_agent(agent or None, [settings])
    return compile_settings(settings.for_agent(agent))


def _trust_word(file: Found) -> str:
    if is_trusted(file):
        return "trusted"
    return "not trusted any more: it was changed" if was_trusted(file) else "not trusted"


def _relation(left: Compiled, right: Compiled) -> str:
    if left.is_confined != right.is_confined:
        return "narrower" if left.is_confined else "wider"
    words = {(True, True): "equal", (True, False): "narrower", (False, True): "wider"}
    return words.get((left.policy <= right.policy, right.policy <= left.policy), "different")


def _problems(file: Found) -> list[Problem]:
    try:
        read_file(file)
    except DocumentProblems as wrong:
        return list(wrong.problems)
    return []


def _files_here() -> list[Found]:
    user = find_user_file(named_by_environment())
    project = [
        file for file in find_project_files(_here()) if _problems(file) or counts(file, read_file(file))
    ]
    return [*([user] if user is not None else []), *project]


def _project_files() -> list[Found]:
    """The project's files here that say something, if only mistakes."""
    found = find_project_files(_here())
    return [file for file in found if _problems(file) or counts(file, read_file(file))]


def _is_of_project(path: str) -> bool:
    """Whether a file that was named counts as a project's: a link in its place is then not followed."""
    is_own = os.path.dirname(_real(path)) == os.path.realpath(config_directory() or "/")
    return os.path.basename(path) in {*CONFIG_NAMES, PYPROJECT} and not is_own


def _real(path: str) -> str:
    """A path as trust knows it: the directory without links, the name as it is."""
    return os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))


def _project_file(path: str | None) -> tuple[Found, FileSettings]:
    """The file that was named, or the nearest one that says something. Raises for one with mistakes."""
    named = path is not None
    files = [read_named(path, is_project=True)] if path is not None else find_project_files(_here())
    for file in files:
        problems = _problems(file)
        if problems:
            raise ConfigurationError(tuple(problems))
        settings = read_file(file)
        if named or counts(file, settings):
            return file, settings
    raise PolicyError(
        "no-project-file",
        "there is no project file to trust",
        why=f"neither this directory nor one above it has {', '.join((*CONFIG_NAMES, PYPROJECT))} for corral",
        fix="name the file, or write one with `corral policy init`",
    )


def _here() -> str:
    return os.path.realpath(working_directory())
