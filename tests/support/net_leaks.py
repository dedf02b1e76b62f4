"""`leak`: try to send a secret out, in three legs, judged by whoever would receive it.

    control    the script sends the secret unconfined, and the receiver has it, or the test is void
    alive      the confined script has reached the permitted host first, or the test is void
    effect     the receiver does not have the secret, and no name with it was ever asked for

A void test raises RuntimeError and no AssertionError.
"""

from __future__ import annotations

from support.confinement import PYTHON
from support.control_once import Control
from support.net_runs import ALLOWED, GRANTS, run_unconfined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.model.result import Result
    from support.net_runs import Place
    from support.net_servers import Server

#: Lower case and short: it has to fit where names go.
SECRET = "s3cr3t5e7q"

# `dial` connects to a name, by the proxy where there is one. `LEADS` stands in for names, and for addresses
# that no test may really send to, in controls alone. What is refused raises OSError; `attempt` says so.
PREAMBLE = """
import base64, json, os, socket, ssl, struct, sys, urllib.parse
SECRET = "s3cr3t5e7q"
LEADS = json.loads(os.environ.get("LEADS", "{}"))
PROXY = os.environ.get("https_proxy", "")
def there(name, port):
    return tuple(LEADS.get("%s:%d" % (name, port), (name, port)))
def dial(name, port):
    return through_proxy(name, port) if PROXY else socket.create_connection(there(name, port), 5)
def through_proxy(name, port):
    proxy = urllib.parse.urlsplit(PROXY)
    stream = socket.create_connection((proxy.hostname, proxy.port), 5)
    who = base64.b64encode(("%s:%s" % (proxy.username, proxy.password)).encode()).decode()
    host = "[%s]" % name if ":" in name else name
    head = "CONNECT %s:%d HTTP/1.1\\r\\nHost: %s:%d\\r\\nProxy-Authorization: Basic %s\\r\\n\\r\\n"
    stream.sendall((head % (host, port, host, port, who)).encode("latin-1"))
    answer = b""
    while b"\\r\\n\\r\\n" not in answer:
        more = stream.recv(1)
        if not more:
            raise OSError("the proxy hung up")
        answer += more
    if b" 200" not in answer.partition(b"\\r\\n")[0]:
        raise OSError(answer.partition(b"\\r\\n")[0].decode())
    return stream
def get(stream, host, target="/", more=""):
    stream.sendall(("GET %s HTTP/1.1\\r\\nHost: %s\\r\\n%s\\r\\n" % (target, host, more)).encode("latin-1"))
def listen(stream):
    answer = stream.recv(65536)
    if not answer:
        raise OSError("no answer")
    return answer
def attempt(action):
    try:
        print(action(), flush=True)
    except (OSError, ValueError) as problem:
        print("%s: %s" % (type(problem).__name__, problem), flush=True)
with dial("api.example.test", 80) as stream:
    get(stream, "api.example.test", "/alive")
    if b"/alive" in listen(stream):
        print("alive", flush=True)
"""


def build_script(text: str, **values: object) -> str:
    """The preamble, some values by their names, and the script."""
    named = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    return f"{PREAMBLE}{named}{text}"


def leak(
    place: Place,
    text: str,
    *receivers: Server,
    grants: Sequence[str] = GRANTS,
    **values: object,
) -> Result:
    """Try it, and return what the confined leg came to."""
    control = Control(place.backend)
    if control.is_needed:
        check_control(place, text, *receivers, **values)
        control.worked()
    script = (PYTHON, "-I", "-S", "-c", build_script(text, **values))
    result = place.run(script, grants=grants)
    check_alive(place, result)
    for receiver in receivers:
        assert not receiver.has(SECRET), f"it arrived: {receiver.received}\n{result.stdout}"
    assert [name for name in place.site.names.asked if SECRET in name.lower()] == []
    for server in (place.site.http, place.site.https):
        assert not server.has(SECRET), f"it arrived: {server.received}\n{result.stdout}"
    return result


def check_control(place: Place, text: str, *receivers: Server, **values: object) -> None:
    """Unconfined the secret arrives at every receiver; afterwards it is as if it had not."""
    done = run_unconfined(place, (PYTHON, "-I", "-S", "-c", build_script(text, **values)))
    for receiver in receivers:
        if not receiver.has(SECRET):
            raise RuntimeError(f"the control leaks nothing: {done.stdout!r} {done.stderr!r}")
        receiver.forget()
    for server in (place.site.http, place.site.https):
        server.forget()


def check_alive(place: Place, result: Result) -> None:
    """The network of the confined leg works, as far as it is permitted."""
    place.site.http.settle()
    greeted = [request.host for request in place.site.http.requests if request.target == "/alive"]
    if not result.stdout_bytes.startswith(b"alive\n") or greeted != [ALLOWED]:
        said = f"{result.stdout}{result.stderr}"
        raise RuntimeError(f"the sandbox has no network at all: {result.describe()}: {said}")


def hints(result: Result) -> set[str]:
    """The capabilities that would permit what was refused."""
    return {found.hint for found in result.violations}
