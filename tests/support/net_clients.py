"""Clients of every kind against the tests' own servers, one after the other, and what became of each.

    PYTHONPATH=tests python -m support.net_table          # writes the table of docs/network.md anew

Each does what it does by itself, without being told of corral. What is not in an image is lent by the host.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

from support.engines import ENGINES
from support.net_runs import ALLOWED, GRANTS, SITE_PACKAGES, copy_node
from support.net_tools import AIOHTTP, CURL, GIT, NODE, NPM, PIP, WGET, Tool, capabilities_of
from support.network_stage import free_port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from corral.model.result import Result
    from support.net_runs import Place

_HELLO = f"this is {ALLOWED} at /hello\n"
_SSH_PORT = 2222
_SECONDS = 60
_GO = """package main
import ("fmt"; "io"; "net/http"; "os")
func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil { fmt.Fprintln(os.Stderr, err); os.Exit(1) }
	text, _ := io.ReadAll(answer.Body)
	fmt.Print(string(text))
}
"""
#: It offers HTTP/2 with each request on a plain connection.
_JAVA = """
import java.net.URI;
import java.net.http.*;
public class Post {
    public static void main(String[] words) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        for (int number = 0; number < 3; number++) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(words[0]))
                .POST(HttpRequest.BodyPublishers.ofString("number " + number)).build();
            System.out.print(client.send(request, HttpResponse.BodyHandlers.ofString()).body());
        }
    }
}
"""
_HTTP2 = """
import httpx, sys
with httpx.Client(http2=True, timeout=20) as client:
    answer = client.get(sys.argv[1])
    assert answer.http_version == "HTTP/2", answer.http_version
    sys.stdout.write(answer.text)
"""
_SOCKET = """
import aiohttp, asyncio, sys
async def main():
    async with aiohttp.ClientSession(trust_env=True) as session, session.ws_connect(sys.argv[1]) as socket:
        await socket.send_str("hello")
        print(await socket.receive_str(timeout=20))
asyncio.run(main())
"""


class Client(NamedTuple):
    """`command` may be None: then it cannot be had here, and nobody knows."""

    name: str
    command: Callable[[Place], tuple[str, ...] | None]
    worked: Callable[[Place, Result], bool]
    capabilities: Callable[[Place], tuple[str, ...]] = lambda _: ()
    #: A server of its own, for as long as it runs.
    beside: Callable[[Place], AbstractContextManager[object]] | None = None

    def __repr__(self) -> str:
        return self.name


def _of_tool(name: str, tool: Tool, where: str = f"https://{ALLOWED}") -> Client:
    def lent(place: Place) -> Path | None:
        return _node() if tool.needs_node and place.backend in ENGINES else None

    def command(place: Place) -> tuple[str, ...] | None:
        if tool is NPM and place.backend in ENGINES:
            return None  # it is many files, all of them the host's
        words = tool.command(where, f"{lent(place)}/node" if lent(place) else "node")
        return words if lent(place) or shutil.which(words[0]) else None

    return Client(
        name,
        command,
        lambda place, result: tool.fetched(place, result, ALLOWED),
        lambda place: capabilities_of(tool, lent(place)),
    )


def _script(name: str, text: str, target: str, says: str) -> Client:
    from support.confinement import PYTHON

    packages = (f"filesystem:read:{os.path.realpath(SITE_PACKAGES)}", f"env:set:PYTHONPATH={SITE_PACKAGES}")
    return Client(
        name,
        lambda _: (PYTHON, "-c", text, target),
        lambda _, result: result.ok and result.stdout == says,
        lambda _: packages,
    )


def _go(place: Place) -> tuple[str, ...] | None:
    built = _built_go()
    if built is None:
        return None
    shutil.copy(built, place.work / "get")
    return (str(place.work / "get"), f"https://{ALLOWED}/hello")


def _java(place: Place) -> tuple[str, ...] | None:
    home = _java_folder()
    if home is None:
        return None
    (place.work / "Post.java").write_text(_JAVA)
    done = subprocess.run(("javac", "Post.java"), cwd=place.work, capture_output=True, check=False)
    if done.returncode != 0:
        return None
    quiet = ("-XX:+UseSerialGC", "-Xmx256m", "-XX:-UsePerfData")
    return (f"{home}/bin/java", *quiet, "-cp", str(place.work), "Post", f"http://{ALLOWED}/hello")


def _java_capabilities(place: Place) -> tuple[str, ...]:
    return (f"filesystem:read:{_java_folder()}", *_lent(place, _node()))


def _lent(place: Place, folder: Path | None) -> tuple[str, ...]:
    """Libraries of the host's, for an image that has none of them."""
    if place.backend not in ENGINES or folder is None:
        return ()
    return (f"filesystem:read:{folder}", f"env:set:LD_LIBRARY_PATH={folder}")


class Ssh:
    """A server with one key, that says a word to whoever has it."""

    def __init__(self, place: Place) -> None:
        self._place, self._folder = place, place.work / "ssh"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> None:
        self._folder.mkdir()
        for name in ("host", "mine"):
            words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._folder / name))
            subprocess.run(words, check=True)
        key = (self._folder / "mine.pub").read_text()
        (self._folder / "keys").write_text(f'command="echo hello" {key}')
        port = free_port()
        options = (f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {self._folder}/host", "UsePAM no")
        more = ("StrictModes no", f"AuthorizedKeysFile {self._folder}/keys", "PidFile none", "LogLevel QUIET")
        (self._folder / "settings").write_text("\n".join((*options, *more, "")))
        # It wants a directory of its own in /run, which is not the test's to make there.
        line = 'mount -t tmpfs none /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -f "$1"'
        self._process = subprocess.Popen(
            ("unshare", "--mount", "sh", "-c", line, "sh", str(self._folder / "settings"))
        )
        self._place.site.names.lead(ALLOWED, _SSH_PORT, ("127.0.0.1", port))
        _await_port(port)

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()


def _await_port(port: int) -> None:
    import socket
    import time

    for _ in range(_SECONDS * 20):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("sshd did not start")


def _ssh(place: Place) -> tuple[str, ...] | None:
    if not os.path.exists("/usr/sbin/sshd") or os.geteuid() != 0:
        return None
    quiet = ("-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o")
    key = ("-i", str(place.work / "ssh" / "mine"), "-p", str(_SSH_PORT))
    program = str(_ssh_folder() / "ssh") if place.backend in ENGINES else "ssh"
    return (program, *quiet, "LogLevel=ERROR", *key, f"root@{ALLOWED}")


def _curl_offers(_: Place) -> tuple[str, ...]:
    where = (f"http://{ALLOWED}/hello",) * 2
    return ("curl", "-sSf", "--http2", "--max-time", "20", "-d", "x=1", *where)


def _says(text: str) -> Callable[[Place, Result], bool]:
    return lambda _, result: result.ok and result.stdout == text


CLIENTS = (
    _of_tool("curl, https", CURL),
    Client("curl --http2, plain http, two POSTs", _curl_offers, _says(_HELLO * 2)),
    _of_tool("wget", WGET),
    _of_tool("git clone, https", GIT),
    _of_tool("pip install", PIP),
    _of_tool("npm install", NPM),
    _of_tool("node's fetch", NODE),
    Client("Java's HttpClient, plain http, three POSTs", _java, _says(_HELLO * 3), _java_capabilities),
    Client("ssh", _ssh, _says("hello\n"), lambda place: _lent(place, _ssh_folder()), beside=Ssh),
    _of_tool("aiohttp", AIOHTTP),
    _script("httpx, HTTP/2", _HTTP2, f"https://{ALLOWED}/hello", _HELLO),
    _script("a WebSocket, ws:", _SOCKET, f"ws://{ALLOWED}/socket", "hello\n"),
    _script("a WebSocket, wss:", _SOCKET, f"wss://{ALLOWED}/socket", "hello\n"),
    Client("Go's net/http", _go, _says(_HELLO)),
)
_EXTRA = (f"network:tcp:{ALLOWED}:{_SSH_PORT}", f"network:tcp:127.0.0.1:{_SSH_PORT}")


def try_client(client: Client, place: Place) -> tuple[bool | None, str]:
    """Whether it got what it wanted, and what it said; None: it cannot be had there."""
    from contextlib import nullcontext

    command = client.command(place)
    if command is None:
        return None, ""
    with client.beside(place) if client.beside is not None else nullcontext():
        result = place.run(command, *client.capabilities(place), grants=(*GRANTS, *_EXTRA))
    return client.worked(place, result), f"{result.describe()}: {result.stdout}{result.stderr}"


@cache
def _node() -> Path | None:
    return copy_node(_scratch() / "node")


@cache
def _built_go() -> Path | None:
    if shutil.which("go") is None:
        return None
    folder = _scratch()
    (folder / "get.go").write_text(_GO)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOCACHE": str(folder / "cache"), "GOFLAGS": "-mod=mod"}
    done = subprocess.run(
        ("go", "build", "-o", "get", "get.go"), cwd=folder, env=environment, capture_output=True, check=False
    )
    return folder / "get" if done.returncode == 0 else None


@cache
def _java_folder() -> Path | None:
    """As much of it as the client needs, in one place."""
    folder = _scratch() / "java"
    if shutil.which("jlink") is None or shutil.which("javac") is None:
        return None
    words = ("jlink", "--add-modules", "java.net.http", "--output", str(folder))
    return folder if subprocess.run(words, capture_output=True, check=False).returncode == 0 else None


@cache
def _ssh_folder() -> Path:
    """The program, and what it is linked with but for libc."""
    folder = _scratch() / "ssh"
    folder.mkdir()
    program = shutil.which("ssh") or ""
    listed = subprocess.run(("ldd", program), capture_output=True, text=True, check=True).stdout
    libraries = [line.split()[2] for line in listed.splitlines() if "=> /" in line]
    for file in (program, *(one for one in libraries if "/libc.so" not in one)):
        shutil.copy(file, folder)
    return folder


@cache
def _scratch() -> Path:
    """Gone when the process ends."""
    import atexit
    import tempfile

    folder = tempfile.mkdtemp(prefix="corral-clients-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    return Path(folder)


def cells(backend: str, make_place: Callable[[str], Iterator[Place]]) -> dict[str, bool | None]:
    """A column of the table."""
    found: dict[str, bool | None] = {}
    for client in CLIENTS:
        for place in make_place(backend):
            found[client.name], said = try_client(client, place)
            if not found[client.name]:
                sys.stderr.write(f"{backend}, {client}: {found[client.name]} {said[-300:]}\n")
    return found
