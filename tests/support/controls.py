"""Whether an attack of the self-test works without a sandbox: the same for all backends, so found once."""

from __future__ import annotations

import pytest

from corral.selftest.battery import find_control
from support.once import made_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.selftest.probe import EscapeProbe


@pytest.fixture(scope="session")
def control(tmp_path_factory: pytest.TempPathFactory) -> Callable[[EscapeProbe], str]:
    """Stands in for the first leg of a probe: some attacks take seconds."""

    def find(probe: EscapeProbe) -> str:
        file = f"control-{probe.name}"
        return made_once(
            tmp_path_factory, file, lambda path: path.write_text(find_control(probe))
        ).read_text()

    return find
