"""A command of a session, with its record."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.audit.recorder import Recorder
    from corral.model.result import Result
    from corral.runtime.launcher.job import Job


def run_recorded(job: Job, recorder: Recorder | None, session: str) -> Result:
    """Run it, with what goes before and after it in the audit log. Raises SetupError if that has to be."""
    if recorder is None:
        return job.run()
    told = recorder.in_session(session)
    plan, backend = job.kept.plan.replace(run_id=job.run_id), job.kept.launch.backend
    told.note_planned(plan.replace(command=plan.command.replace(argv=job.argv)), backend)
    try:
        result = job.run()
    except BaseException as problem:
        told.note_failed(job.run_id, problem)
        raise
    return told.note_ended(result)
