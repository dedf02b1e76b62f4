"""Programs that fetch things, as people use them: how each is told what to fetch, and what it leaves."""

from __future__ import annotations

import os
from typing import NamedTuple

from support.confinement import PYTHON
from support.net_packages import SAYS, WHEEL
from support.net_runs import SITE_PACKAGES
from support.net_web import greeting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from corral.model.result import Result
    from support.net_runs import Place

    #: Where a host's things are (`https://name`), and where node is -> the command.
    Command = Callable[[str, str], tuple[str, ...]]

_SECONDS = "20"
_TARGET = "/hello"
_URLLIB = (
    "import sys, urllib.request as r; sys.stdout.write(r.urlopen(sys.argv[1], timeout=20).read().decode())"
)
_HTTPX = "import sys, httpx; sys.stdout.write(httpx.get(sys.argv[1], timeout=20).raise_for_status().text)"
_AIOHTTP = """
import aiohttp, asyncio, os, sys
async def main():
    through = "https_proxy" in os.environ  # it looks for a proxy only when it is told to
    async with aiohttp.ClientSession(trust_env=through) as session, session.get(sys.argv[1]) as answer:
        sys.stdout.write(await answer.text())
asyncio.run(main())
"""
_FETCH = "fetch(process.argv[1]).then(a => a.text()).then(t => process.stdout.write(t))"


class Tool(NamedTuple):
    """`fetched` is asked when the command is over."""

    name: str
    command: Command
    fetched: Callable[[Place, Result, str], bool]
    needs_packages: bool = False  # those of the tests' own environment
    needs_node: bool = False

    def __repr__(self) -> str:
        return self.name


def _greets(_: Place, result: Result, host: str) -> bool:
    return result.ok and result.stdout_bytes == greeting(host, _TARGET)


def _leaves(name: str) -> Callable[[Place, Result, str], bool]:
    def leaves(place: Place, result: Result, _: str) -> bool:
        found = place.work / name
        return result.ok and found.is_file() and SAYS in found.read_text()

    return leaves


def _script(text: str) -> Command:
    return lambda where, _: (PYTHON, "-c", text, where + _TARGET)


def _install(where: str, _: str) -> tuple[str, ...]:
    index = ("--index-url", f"{where}/simple/", "--retries", "0", "--timeout", _SECONDS)
    return (PYTHON, "-m", "pip", "install", "-q", *index, "--no-cache-dir", "--target", "got", "tiny-thing")


def _npm(where: str, _: str) -> tuple[str, ...]:
    quiet = ("--no-audit", "--no-fund", "--no-update-notifier", "--fetch-retries", "0")
    return ("npm", "install", *quiet, "--prefix", "got", "--registry", f"{where}/registry/", "tiny-thing")


CURL = Tool("curl", lambda where, _: ("curl", "-sSf", "--max-time", _SECONDS, where + _TARGET), _greets)
WGET = Tool("wget", lambda where, _: ("wget", "-q", "-O-", "-t1", "-T", _SECONDS, where + _TARGET), _greets)
GIT = Tool("git", lambda where, _: ("git", "clone", "-q", f"{where}/tiny.git", "got"), _leaves("got/read.me"))
PIP = Tool("pip", _install, _leaves(f"got/{WHEEL}.py"), needs_packages=True)
URLLIB = Tool("urllib", _script(_URLLIB), _greets)
HTTPX = Tool("httpx", _script(_HTTPX), _greets, needs_packages=True)
AIOHTTP = Tool("aiohttp", _script(_AIOHTTP), _greets, needs_packages=True)
NODE = Tool("node", lambda where, node: (node, "-e", _FETCH, where + _TARGET), _greets, needs_node=True)
NPM = Tool("npm", _npm, _leaves("got/node_modules/tiny-thing/index.js"), needs_node=True)
EVERY_TOOL = (CURL, WGET, GIT, PIP, URLLIB, HTTPX, AIOHTTP, NODE)


def capabilities_of(tool: Tool, node_folder: Path | None) -> tuple[str, ...]:
    """What a tool needs besides the network; `node_folder` is where an image has none."""
    granted: list[str] = []
    if tool.needs_packages:
        granted += [
            f"filesystem:read:{os.path.realpath(SITE_PACKAGES)}",
            f"env:set:PYTHONPATH={SITE_PACKAGES}",
        ]
    if tool.needs_node and node_folder is not None:
        granted += [f"filesystem:read:{node_folder}", f"env:set:LD_LIBRARY_PATH={node_folder}"]
    return tuple(granted)
