"""Note every file that could configure a run, for a plan that must know when that changes."""

from __future__ import annotations

import os

from corral.config.find import PYPROJECT, TRUST_FILE, find_project_files, named_by_environment
from corral.host.real import CONFIG_NAMES, config_directory, state_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.compiled_plans.traced_host import Trace


def note_configuration(trace: Trace, workspace: str, named: str | None) -> None:
    """Note the user's file and the project's, those that are not there included.

    A project's file only ever narrows, so one that appears later must count: then the plan is out of date.
    """
    named = named if named is not None else named_by_environment()
    directory = config_directory()
    if named is not None:
        files = [os.path.abspath(named)] if named else []
    else:
        files = [os.path.join(directory, name) for name in CONFIG_NAMES if directory]
    state = state_directory()
    files += [os.path.join(state, TRUST_FILE)] if state else []
    for place in _upwards(workspace):
        files += [os.path.join(place, name) for name in CONFIG_NAMES]
    for path in files:
        trace.note_content(path)
    _note_projects(trace, workspace)


def _note_projects(trace: Trace, workspace: str) -> None:
    """A pyproject.toml is for others, as a rule, and changes often; it matters if it configures corral."""
    speaking = {file.path for file in find_project_files(workspace)}
    for place in _upwards(workspace):
        path = os.path.join(place, PYPROJECT)
        if path in speaking:
            trace.note_content(path)
        else:
            trace.note_silence(path)


def _upwards(directory: str) -> list[str]:
    places = [directory]
    while places[-1] != "/":
        places.append(os.path.dirname(places[-1]))
    return places
