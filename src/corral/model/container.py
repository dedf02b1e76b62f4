"""Container: what a container engine is told besides the policy. Other backends have no use for it."""

from __future__ import annotations

from corral.model.record import Record

DEFAULT_IMAGE = "corral/sandbox:latest"
#: Where the workspace appears inside, unless it keeps its own path.
WORKSPACE = "/workspace"


class Container(Record):
    image: str = DEFAULT_IMAGE
    workspace: str = WORKSPACE  # empty: its own path
    ports: tuple[str, ...] = ()  # "[address:]host:container[/udp]", with `network:full` only
    volumes: tuple[str, ...] = ()  # "name:/path[:ro]", or "/granted/path:/path[:ro]"
    entrypoint: tuple[str, ...] = ()  # put before every command
