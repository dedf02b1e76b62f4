"""Load the configuration of a run: user file, project files, environment, flags, in that order."""

from __future__ import annotations

import os

from corral.config.configuration import Configuration, FileState
from corral.config.contradiction import contradictions
from corral.config.document import DocumentProblems
from corral.config.find import (
    PYPROJECT,
    find_project_files,
    find_user_file,
    named_by_environment,
    working_directory,
)
from corral.config.narrow import SettingCut, narrow
from corral.config.read import read_settings
from corral.config.remembered import read_remembered
from corral.config.setting import Source
from corral.config.to_policy import (
    Compiled,
    add_settings,
    capabilities_of_setting,
    compile_settings,
    is_lasting,
)
from corral.config.trust import check_trust, forget_missing
from corral.config.values import nearest
from corral.config.variables import read_variables
from corral.host.directory import no_directory
from corral.model.errors import ConfigurationError, PolicyError
from corral.model.rules.capability import is_narrowing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.config.find import Found
    from corral.config.setting import FileSettings, Setting
    from corral.model.problem import Problem
    from corral.model.rules.capability import Capability

_IN_PYPROJECT = ("tool", "corral")
_ONLY_USER = "only your own configuration can say it"


def load_configuration(
    directory: str | os.PathLike[str] | None = None,
    *,
    agent: str | None = None,
    user_file: str | None = None,
    flags: Sequence[Setting] = (),
    ignore_files: bool = False,
) -> Configuration:
    """What a run in this directory may do, from all configuration files and variables.

    `agent` chooses an agent's own settings, `user_file` another user file; with `ignore_files` neither
    files nor CORRAL_* variables are read. Raises ConfigurationError with every mistake of every file.
    """
    workspace = os.path.realpath(directory if directory is not None else working_directory())
    if not os.path.isdir(workspace):
        raise no_directory(workspace, "there is no such directory")
    if ignore_files:
        return Configuration((), "", compile_settings(flags), (), workspace)
    named = user_file if user_file is not None else named_by_environment()
    chosen = agent if agent is not None else os.environ.get("CORRAL_AGENT")
    problems: list[Problem] = []
    files = [_read(found, problems) for found in _found(named, workspace)]
    try:
        variables = read_variables(os.environ)
    except DocumentProblems as wrong:
        problems += wrong.problems
    if problems:
        raise ConfigurationError(tuple(problems))
    read = [file for file in files if file is not None and counts(*file)]
    forget_missing(workspace, [found.path for found, _ in read])
    check_agent(chosen, [settings for _, settings in read])
    return _merge(read, chosen or "", (*variables, *flags), workspace)


def read_file(found: Found) -> FileSettings:
    """The settings of one file. Raises DocumentProblems."""
    below = _IN_PYPROJECT if os.path.basename(found.path) == PYPROJECT else ()
    source = Source.PROJECT if found.is_project else Source.USER
    settings = read_settings(found.text, found.path, source, below=below)
    problems = [each for section in settings.sections for each in contradictions(section.settings)]
    if problems:
        raise DocumentProblems(tuple(problems))
    return settings


def counts(found: Found, settings: FileSettings) -> bool:
    """Whether a file is one of corral's: a pyproject.toml is if it has something to say."""
    return os.path.basename(found.path) != PYPROJECT or not settings.is_empty


def _found(named: str | None, workspace: str) -> list[Found]:
    user = find_user_file(named)
    project = [file for file in find_project_files(workspace) if user is None or file.path != user.path]
    return [*([user] if user is not None else []), *project]


def _read(found: Found, problems: list[Problem]) -> tuple[Found, FileSettings] | None:
    try:
        return found, read_remembered(found, read_file)
    except DocumentProblems as wrong:
        problems += wrong.problems
        return None


def cuts_of(settings: FileSettings) -> list[SettingCut]:
    """What an untrusted project file asks for in vain, for everyone and for each agent it describes."""
    own = find_user_file(named_by_environment())
    said_by_user = read_file(own) if own is not None else None
    cuts: dict[str, SettingCut] = {}
    of_user = said_by_user.agents if said_by_user is not None else frozenset()
    for agent in ("", *sorted(settings.agents | of_user)):
        allowed = compile_settings(said_by_user.for_agent(agent) if said_by_user is not None else ())
        for cut in narrow(allowed, settings.for_agent(agent), allowed).cuts:
            if not _is_only_users(cut.setting):  # no trust would make it count
                cuts.setdefault(cut.render(), cut)
    return list(cuts.values())


def check_agent(agent: str | None, files: list[FileSettings]) -> None:
    """Raise PolicyError for an unknown one: an agent that nobody described must not get what everyone may."""
    known = sorted({name for file in files for name in file.agents})
    if agent is not None and agent not in known:
        raise _unknown_agent(agent, known)


def _unknown_agent(agent: str, known: list[str]) -> PolicyError:
    """An agent was named that no file describes."""
    if not known:
        why, fix = "no configuration describes an agent", f"write a table [agent.{agent}.sandbox]"
    else:
        why, fix = f"the agents are {', '.join(known)}", nearest(agent, known)
    return PolicyError("unknown-agent", f"there is no agent {agent!r}", why=why, fix=fix)


def _merge(
    files: list[tuple[Found, FileSettings]], agent: str, later: Sequence[Setting], workspace: str
) -> Configuration:
    own = [file for file in files if not file[0].is_project]
    # From the outermost to the nearest, so that the nearest has the last word among the trusted.
    project = [file for file in reversed(files) if file[0].is_project]
    trusted: list[Setting] = []
    said = list(later)
    narrowing: list[tuple[Setting, ...]] = []
    states = []
    refused: list[SettingCut] = []
    for found, settings in (*own, *project):
        believed = not found.is_project or check_trust(found)
        if believed:
            vain = [each for each in settings.for_agent(agent) if found.is_project and _is_only_users(each)]
            refused += (SettingCut(setting, "", _ONLY_USER) for setting in vain)
            trusted += (setting for setting in settings.for_agent(agent) if setting not in vain)
            said += (setting for section in settings.sections for setting in section.settings)
        else:
            narrowing.append(settings.for_agent(agent))
        states.append(FileState(found.path, Source.PROJECT if found.is_project else Source.USER, believed))
    compiled, cuts = _narrow_all(compile_settings(trusted), narrowing)
    anew = max((at for at, setting in enumerate(later, 1) if setting.key.name == "profile"), default=0)
    if anew:
        # A new beginning, chosen by the caller: of the project's files, their limits and denials stay.
        lasting = [tuple(setting for setting in asked if is_lasting(setting)) for asked in narrowing]
        compiled, cuts = _narrow_all(compile_settings((*trusted, *later[:anew])), lasting)
    compiled = add_settings(compiled, later[anew:])
    if later:
        cuts = _still_cut(cuts, compiled)
    return Configuration(tuple(states), agent, compiled, (*refused, *cuts), workspace, tuple(said))


def _is_only_users(setting: Setting) -> bool:
    """Whether it counts in the user's own file alone, however much another one is trusted."""
    return bool(setting.key.only_user) and setting.value == setting.key.only_user


def _still_cut(cuts: list[SettingCut], compiled: Compiled) -> list[SettingCut]:
    """Without what a project's file asked for in vain and a flag or a variable permits after all."""
    asked = [{each for each in capabilities_of_setting(cut.setting) if _asks(each)} for cut in cuts]
    refused = {cut.capability for cut in compiled.policy.grant(set().union(*asked)).cuts}
    pairs = zip(cuts, asked, strict=True)
    return [cut for cut, wanted in pairs if not compiled.is_confined or not wanted or refused & wanted]


def _asks(capability: Capability) -> bool:
    return not is_narrowing(capability) and (capability.kind, capability.verb) != ("env", "set")


def _narrow_all(allowed: Compiled, narrowing: list[tuple[Setting, ...]]) -> tuple[Compiled, list[SettingCut]]:
    compiled = allowed
    cuts: list[SettingCut] = []
    for said in narrowing:
        narrowed = narrow(compiled, said, allowed)
        compiled = narrowed.compiled
        cuts += narrowed.cuts
    return compiled, cuts
