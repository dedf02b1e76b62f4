"""Watch: a run under way in the background, and what it costs while it lasts."""

from __future__ import annotations

import queue
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from corral.model.result import Result, UsageSample
    from corral.pipeline.planned_run import PlannedRun
    from corral.runtime.monitor import Monitor


class Watch:
    """Iterate over it for live samples, until the run ends. `result` waits, and raises what `run` would.

    with sandbox.watch("make test", every=1.0) as watch:
        for sample in watch:
            print(sample.memory_bytes, sample.cpu_seconds, sample.pids)
    print(watch.result().describe())

    Leaving the `with` block ends a run that is still under way.
    """

    def __init__(self, start: Callable[[Monitor], PlannedRun], every: float) -> None:
        from corral.runtime.monitor import Monitor

        self._samples: queue.SimpleQueue[UsageSample | None] = queue.SimpleQueue()
        self._attempt = start(Monitor(self._samples.put, every))  # put returns nothing: nothing is shown
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="corral-watch", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self.kill()
            self._thread.join()

    def __iter__(self) -> Iterator[UsageSample]:
        while (sample := self._samples.get()) is not None:
            yield sample
        self._samples.put(None)  # whoever iterates once more comes to the end as well

    def result(self) -> Result:
        """Wait for the end and say what happened."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def kill(self) -> None:
        """Take the whole tree down."""
        self._attempt.kill()

    def _run(self) -> None:
        try:
            self._result = self._attempt.run()
        except BaseException as error:  # it belongs to whoever asks for the result
            self._error = error
        finally:
            self._samples.put(None)
