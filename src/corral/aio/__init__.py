"""The same for asyncio: `from corral import aio`.

    async with aio.Sandbox("moderate").session() as session:
        first, second = await asyncio.gather(session.run("make lint"), session.run("make test"))

Every call does what its namesake in `corral` does, in a thread. A task that is cancelled ends its command and
everything that this has started, and waits until it is gone; so `asyncio.timeout` works as for anything else.
Commands run in threads of their own, up to `MOST_THREADS` at a time; further ones wait, in order.
"""

from __future__ import annotations

from corral.aio.call import MOST_THREADS
from corral.aio.pool import Pool
from corral.aio.sandbox import Sandbox, run
from corral.aio.session import Background, Session

__all__ = ["MOST_THREADS", "Background", "Pool", "Sandbox", "Session", "run"]
