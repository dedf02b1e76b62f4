"""Every connection of a command without a network of its own is asked about, and corral makes it or nobody.

Judged by sockets of the host: what listens at another address than the proxy's must never see anybody.
"""

from __future__ import annotations

import errno
import os
import resource
import socket

import pytest

from corral.host.real import RealHost
from corral.network.fronts import notify
from corral.network.fronts.notify import Notified
from support.descriptors import count_descriptors
from support.notified import Command, Listening, as_user, run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORDINARY = 54321
LEAST_ABI = 4

pytestmark = pytest.mark.skipif(
    RealHost().landlock_abi() < LEAST_ABI, reason="this kernel has no Landlock that knows of ports"
)


@pytest.fixture
def proxy() -> Iterator[Listening]:
    listening = Listening("127.0.0.1")
    yield listening
    listening.close()


@pytest.fixture
def elsewhere(proxy: Listening) -> Iterator[Listening]:
    """The same port at another address: Landlock cannot tell them apart."""
    listening = Listening("127.0.0.2", proxy.port)
    yield listening
    listening.close()


@pytest.fixture(params=[os.geteuid(), ORDINARY], ids=["own", "ordinary"])
def user(request: pytest.FixtureRequest) -> int:
    if request.param != os.geteuid() and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    return int(request.param)


def test_the_proxy_is_reached_in_every_usual_way(proxy: Listening, user: int) -> None:
    script = """
tell(connect("127.0.0.1"))
tell(connect("::ffff:127.0.0.1", family=socket.AF_INET6))
def in_thread():
    tell(connect("127.0.0.1"))
thread = threading.Thread(target=in_thread)
thread.start()
thread.join()
sock = socket.socket()
sock.setblocking(False)
tell([sock.connect_ex(("127.0.0.1", PORT)) in {0, errno.EINPROGRESS}, sock.getblocking()])
sock.settimeout(5)
tell(sock.recv(100).decode())
if os.fork() == 0:
    tell(connect("127.0.0.1"))
    os._exit(0)
os.wait()
"""

    told = as_user(user, lambda: run(script, proxy)[0])

    assert told == [*["127.0.0.1"] * 3, [True, False], *["127.0.0.1"] * 2]


@pytest.mark.parametrize("walls", ["both", "filter"])
def test_another_address_on_the_port_of_the_proxy_sees_nobody(
    proxy: Listening, elsewhere: Listening, walls: str
) -> None:
    """Also where Landlock is not the one that refuses."""
    script = (
        'tell([attempt(connect, address) for address in ("127.0.0.2", "127.0.0.1", "0.0.0.0", "127.1.2.3")])'
    )

    free, _ = run(script, proxy, elsewhere, walls="none", notifies=False)
    assert (elsewhere.met, proxy.met) == (1, 2), free  # the control: it would be reached
    (told,), command = run(script, proxy, elsewhere, walls=walls)

    assert told == ["EACCES", "127.0.0.1", "EACCES", "EACCES"]
    assert (elsewhere.met, proxy.met) == (1, 3)
    assert command.refused == [(address, proxy.port) for address in ("127.0.0.2", "0.0.0.0", "127.1.2.3")]


def test_landlock_alone_refuses_even_the_proxy(proxy: Listening, elsewhere: Listening) -> None:
    """So a call that nobody was asked about leads nowhere."""
    script = 'tell([attempt(connect, address) for address in ("127.0.0.2", "127.0.0.1")])'

    (told,), _ = run(script, proxy, elsewhere, notifies=False)

    assert told == ["EACCES", "EACCES"]
    assert (elsewhere.met, proxy.met) == (0, 0)


def test_another_port_is_refused_and_told(proxy: Listening) -> None:
    other = Listening("127.0.0.1")
    six = Listening("::1", proxy.port, socket.AF_INET6)
    script = f"""
tell(attempt(connect, "127.0.0.1", {other.port}))
tell(attempt(connect, "::1", family=socket.AF_INET6))
tell(attempt(connect, "::ffff:127.0.0.2", family=socket.AF_INET6))
tell(attempt(connect, "203.0.113.7", 443))
"""

    told, command = run(script, proxy, other, six)

    assert told == ["EACCES"] * 4
    assert (proxy.met, other.met, six.met) == (0, 0, 0)
    assert command.refused == [
        ("127.0.0.1", other.port),
        ("::1", proxy.port),
        ("127.0.0.2", proxy.port),
        ("203.0.113.7", 443),
    ]
    other.close()
    six.close()


def test_an_address_that_is_granted_is_reached_by_corral_and_not_by_the_command(
    proxy: Listening, elsewhere: Listening
) -> None:
    script = """
tell([attempt(connect, "203.0.113.7", 5432), attempt(connect, "127.0.0.2"), attempt(connect, "127.0.0.3")])
tell([attempt(connect, "fd00::7", 5432, family=socket.AF_INET6) for _ in range(20)])
sock = socket.socket()
sock.setblocking(False)
tell(sock.connect_ex(("203.0.113.7", 5432)) in {0, errno.EINPROGRESS})
sock.settimeout(5)
tell(sock.recv(100).decode())
"""
    granted = (("203.0.113.7", 5432), ("127.0.0.2", proxy.port), ("fd00::7", 5432))

    told, command = run(script, proxy, elsewhere, granted=granted)

    assert told == [["relayed", "relayed", "EACCES"], ["relayed"] * 20, True, "relayed"]
    assert command.refused == [("127.0.0.3", proxy.port)]
    assert set(command.relayed) == set(granted)
    assert (proxy.met, elsewhere.met) == (0, 0)


def test_an_address_that_changes_during_the_call_leads_nowhere_else(
    proxy: Listening, elsewhere: Listening
) -> None:
    script = """
good = struct.pack("=HH4s8x", 2, socket.htons(PORT), socket.inet_aton("127.0.0.1"))
bad = struct.pack("=HH4s8x", 2, socket.htons(PORT), socket.inet_aton("127.0.0.2"))
place = ctypes.create_string_buffer(good, 16)
is_over = False
def flip():
    while not is_over:
        ctypes.memmove(place, bad, 16)
        ctypes.memmove(place, good, 16)
threads = [threading.Thread(target=flip) for _ in range(2)]
sys.setswitchinterval(1e-6)
for thread in threads: thread.start()
found = {}
for _ in range(600):
    sock = socket.socket()
    answer = libc.connect(sock.fileno(), place, 16)
    peer = sock.getpeername()[0] if answer == 0 else errno.errorcode[ctypes.get_errno()]
    found[peer] = found.get(peer, 0) + 1
    sock.close()
is_over = True
tell(found)
"""

    (found,), _ = run(script, proxy, elsewhere, walls="filter")

    assert elsewhere.met == 0
    assert set(found) == {"127.0.0.1", "EACCES"}, found  # both were seen: the threads did their work
    assert proxy.met == found["127.0.0.1"]


def test_a_descriptor_that_changes_during_the_call_is_connected_to_the_proxy_or_not_at_all(
    proxy: Listening, elsewhere: Listening
) -> None:
    script = """
spare = [socket.socket(), socket.socket(socket.AF_INET6), open("/dev/null")]
numbers = [each.fileno() for each in spare]
held = os.dup(numbers[0])
is_over = False
def swap():
    while not is_over:
        for number in numbers:
            os.dup2(number, held)
thread = threading.Thread(target=swap)
sys.setswitchinterval(1e-6)
thread.start()
place = struct.pack("=HH4s8x", 2, socket.htons(PORT), socket.inet_aton("127.0.0.1"))
found = set()
for _ in range(300):
    answer = libc.connect(held, place, 16)
    found.add(0 if answer == 0 else errno.errorcode[ctypes.get_errno()])
is_over = True
thread.join()
for sock in spare[:2]:
    try:
        tell(sock.getpeername()[0])
    except OSError as error:
        tell(name(error))
"""

    told, _ = run(script, proxy, elsewhere, walls="filter")

    assert set(told) <= {"127.0.0.1", "ENOTCONN"}
    assert elsewhere.met == 0


def test_a_process_that_lets_nobody_look_gets_no_connection(proxy: Listening) -> None:
    """Unless corral may look at every process. Nobody but itself is harmed."""
    script = """
tell(attempt(connect, "127.0.0.1"))
tell(libc.prctl(4, 0, 0, 0, 0))
tell(attempt(connect, "127.0.0.1"))
"""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")

    def work() -> object:
        told, command = run(script, proxy)
        return told, command.details

    told, details = as_user(ORDINARY, work)

    assert told == ["127.0.0.1", 0, "EACCES"]
    assert len(details) == 1 and "cannot be read" in details[0]


def test_there_is_no_way_around_connect(proxy: Listening, elsewhere: Listening) -> None:
    heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    heard.bind(("127.0.0.1", 0))
    heard.setblocking(False)
    script = f"""
def datagram():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", {heard.getsockname()[1]}))
def fast_open():
    return socket.socket().sendto(b"x", 0x20000000, ("127.0.0.2", PORT))
def fast_open_later():
    sock = socket.socket()
    sock.setsockopt(socket.IPPROTO_TCP, 30, 1)
    sock.connect(("127.0.0.2", PORT))
    sock.send(b"x")
def multipath():
    connect("127.0.0.2", protocol=262)
def source_route():
    hops = b"\\x83\\x07\\x04" + socket.inet_aton("127.0.0.2") + b"\\0"
    socket.socket().setsockopt(socket.IPPROTO_IP, 4, hops)
def device():
    socket.socket().setsockopt(socket.SOL_SOCKET, 25, b"lo")
def listen():
    socket.socket().listen()
def bind():
    socket.socket().bind(("127.0.0.1", 0))
def unix():
    socket.socket(socket.AF_UNIX)
def ring():
    if libc.syscall(425, 8, ctypes.create_string_buffer(120)) < 0:
        raise OSError(ctypes.get_errno(), "")
for way in (datagram, fast_open, fast_open_later, multipath, source_route, device, listen, bind, unix, ring):
    tell([way.__name__, attempt(way)])
"""

    told, _ = run(script, proxy, elsewhere)

    assert dict(told) == {
        "datagram": "EACCES",
        "fast_open": "ENOTSUP",
        "fast_open_later": "EACCES",
        "multipath": "EPROTONOSUPPORT",
        "source_route": "EPERM",
        "device": "EPERM",
        "listen": "EACCES",
        "bind": "EACCES",
        "unix": "EACCES",
        "ring": "ENOSYS",
    }
    assert (elsewhere.met, proxy.met) == (0, 0)
    with pytest.raises(BlockingIOError):
        heard.recv(10)
    heard.close()


def test_a_socket_cannot_be_led_elsewhere_later(proxy: Listening, elsewhere: Listening) -> None:
    script = """
sock = socket.socket()
sock.connect(("127.0.0.1", PORT))
tell(sock.recv(100).decode())
tell(attempt(sock.connect, ("127.0.0.2", PORT)))
unspecified = ctypes.create_string_buffer(16)
tell([libc.connect(sock.fileno(), unspecified, 16), errno.errorcode[ctypes.get_errno()]])
tell([libc.connect(sock.fileno(), ctypes.c_void_p(8), 16), errno.errorcode[ctypes.get_errno()]])
tell([libc.connect(sock.fileno(), unspecified, 1), errno.errorcode[ctypes.get_errno()]])
tell([libc.connect(sock.fileno(), unspecified, 4096), errno.errorcode[ctypes.get_errno()]])
tell([libc.connect(999, struct.pack("=HH4s8x", 2, socket.htons(PORT), bytes((127, 0, 0, 1))), 16),
      errno.errorcode[ctypes.get_errno()]])
"""

    told, _ = run(script, proxy, elsewhere)

    assert told == [
        "127.0.0.1",
        "EACCES",
        [-1, "EACCES"],
        [-1, "EFAULT"],
        [-1, "EINVAL"],
        [-1, "EINVAL"],
        [-1, "EBADF"],
    ]
    assert elsewhere.met == 0


def test_signals_during_a_call_change_nothing(proxy: Listening) -> None:
    """Programs in Go are interrupted all the time."""
    script = """
import signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
place = struct.pack("=HH4s8x", 2, socket.htons(PORT), bytes((127, 0, 0, 1)))
found = {}
for _ in range(500):
    sock = socket.socket()
    answer = libc.connect(sock.fileno(), place, 16)
    word = "connected" if answer == 0 else errno.errorcode[ctypes.get_errno()]
    found[word] = found.get(word, 0) + 1
    sock.close()
tell(found)
"""

    (found,), _ = run(script, proxy)

    assert found == {"connected": 500}


def test_without_corral_there_is_no_connection(proxy: Listening, elsewhere: Listening) -> None:
    script = """
tell(connect("127.0.0.1"))
sys.stdin.read()
while attempt(connect, "127.0.0.1") == "127.0.0.1":
    time.sleep(0.01)
tell([attempt(connect, address) for address in ("127.0.0.1", "127.0.0.2")])
"""
    command = Command(script, proxy.port, walls="filter")
    try:
        command.begin()
        command.handshake(proxy, until=lambda: b"\n" in command.output)
        assert command.notified is not None
        command.notified.close()
        command.notified.close()  # once more is no harm
        told = command.handshake(proxy, elsewhere)
    finally:
        command.end()

    assert told == ["127.0.0.1", ["ENOSYS", "ENOSYS"]]
    assert elsewhere.met == 0


def test_where_corral_has_no_descriptors_left_nothing_is_connected(
    proxy: Listening, elsewhere: Listening, tmp_path: Path
) -> None:
    flag = tmp_path / "none-left"
    script = f"""
while not os.path.exists({str(flag)!r}):
    time.sleep(0.01)
tell([attempt(connect, address) for address in ("127.0.0.1", "127.0.0.2")])
"""

    def work() -> object:
        command = Command(script, proxy.port, walls="filter")
        try:
            command.begin()
            free = os.dup(0)
            os.close(free)  # ORDER: nothing is opened from here on
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            flag.mkdir()
            command.handshake(until=lambda: b"\n" in command.output)
        finally:
            command.end()
        return [command.output.decode(), command.details]

    output, details = as_user(os.geteuid(), work)

    assert output == '["EACCES", "EACCES"]\n'
    assert all("Too many open files" in detail for detail in details) and len(details) == 2
    proxy.serve()
    elsewhere.serve()
    assert (proxy.met, elsewhere.met) == (0, 0)


@pytest.mark.parametrize("lacking", ["pipe", "thread"])
def test_where_nobody_can_answer_the_kernel_is_told_so(monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    """A descriptor that is kept and not served would let commands wait for ever."""
    asked, asking = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    questions = asked.detach()
    before = count_descriptors()

    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "none left")

    if lacking == "pipe":
        monkeypatch.setattr(notify.os, "pipe", fail)
    else:
        monkeypatch.setattr(notify.threading.Thread, "start", fail)

    with pytest.raises(OSError, match="none left"):
        Notified(questions, 1, None)  # type: ignore[arg-type]

    assert count_descriptors() == before - 1
    asking.close()


def test_a_connection_that_waits_keeps_nobody_from_ending(proxy: Listening) -> None:
    """The queue of the proxy is full, and nobody takes anything out of it."""
    proxy.socket.listen(0)
    script = """
tell("begins")
kept = []
while True:
    sock = socket.socket()
    kept.append(sock)
    sock.connect(("127.0.0.1", PORT))
    tell("connected")
"""
    command = Command(script, proxy.port)
    try:
        command.begin()
        command.handshake(until=lambda: command.output.count(b"\n") >= 2)
        assert command.notified is not None
        command.notified.close()

        assert not command.notified._thread.is_alive()
    finally:
        command.end()
