"""Programs that ask for names by themselves, as Java and Go do: by packet and by stream, at 127.0.0.1:53."""

from __future__ import annotations

import json
import shutil

import pytest

from support.confinement import PYTHON
from support.net_dns import AAAA, NO_ERROR, NO_SUCH_NAME, TXT, A, build_question, read_answer
from support.net_runs import ALLOWED, EVERY, FORBIDDEN, ROUTED, TRANSPARENT, network_violations
from support.net_web import WebServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.net_runs import Place

#: Asks by UDP and by TCP, and then connects to what it was told, as a program that resolves names by itself.
_ASK = """
import json, socket, sys
def read(stream, size):
    data = b""
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            raise SystemExit("the name server hung up")
        data += more
    return data
def ask(question):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(10)
        client.sendto(question, ("127.0.0.1", 53))
        by_packet = client.recv(65535)
    with socket.create_connection(("127.0.0.1", 53), 10) as client:
        client.sendall(len(question).to_bytes(2, "big") + question)
        by_stream = read(client, int.from_bytes(read(client, 2), "big"))
    return [by_packet.hex(), by_stream.hex()]
print(json.dumps([ask(bytes.fromhex(question)) for question in sys.argv[1:]]))
"""
_CONNECT = """
import socket, sys
with socket.create_connection((sys.argv[1], 80), 10) as client:
    request = "GET /by-hand HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n" % sys.argv[2]
    client.sendall(request.encode())
    while data := client.recv(65536):
        sys.stdout.write(data.decode())
"""
_JAVA = """
import java.net.InetAddress;
import java.net.URI;
import java.util.Hashtable;
import javax.naming.directory.InitialDirContext;
public class Ask {
    public static void main(String[] names) throws Exception {
        Hashtable<String, String> environment = new Hashtable<>();
        environment.put("java.naming.factory.initial", "com.sun.jndi.dns.DnsContextFactory");
        environment.put("java.naming.provider.url", "dns://127.0.0.1");
        InitialDirContext context = new InitialDirContext(environment);
        try (var answer = URI.create("http://" + names[0] + "/java").toURL().openStream()) {
            System.out.print(new String(answer.readAllBytes()));
        }
        System.out.println(context.getAttributes(names[0], new String[] {"A"}).get("A"));
        try {
            System.out.println(context.getAttributes(names[1], new String[] {"A"}));
        } catch (javax.naming.NameNotFoundException refused) {
            System.out.println("no such name");
        }
    }
}
"""


def _ask(place: Place, *questions: bytes) -> tuple[list[list[tuple[int, list[str]]]], set[str]]:
    """What was answered to each question by packet and by stream, and the hints of the report."""
    result = place.run((PYTHON, "-I", "-S", "-c", _ASK, *(question.hex() for question in questions)))
    assert result.ok, result.stderr
    answers = [[read_answer(bytes.fromhex(text)) for text in pair] for pair in json.loads(result.stdout)]
    return answers, {found.hint for found in result.violations}


@pytest.mark.parametrize("place", TRANSPARENT, indirect=True)
def test_a_permitted_name_has_an_address_and_no_other_has(place: Place) -> None:
    answers, hints = _ask(place, build_question(ALLOWED), build_question(FORBIDDEN))

    for status, addresses in answers[0]:
        assert status == NO_ERROR
        assert len(addresses) == 1
        assert addresses != ["127.0.0.1"]  # where it leads to is not the sandbox's to know
    assert answers[1] == [(NO_SUCH_NAME, []), (NO_SUCH_NAME, [])]
    assert hints == {f"network:https:{FORBIDDEN}"}
    assert FORBIDDEN not in place.site.names.asked


@pytest.mark.parametrize("place", TRANSPARENT, indirect=True)
def test_other_kinds_of_records_say_nothing_about_names(place: Place) -> None:
    kinds = (AAAA, TXT, 15, 33, 65, 255)  # mail, services, https, any

    answers, _ = _ask(place, *(build_question(FORBIDDEN, kind) for kind in kinds))
    permitted, _ = _ask(place, build_question(ALLOWED, TXT), build_question(ALLOWED, 65))

    assert answers == [[(NO_SUCH_NAME, [])] * 2] * len(kinds)
    assert permitted == [[(NO_ERROR, [])] * 2] * 2
    assert FORBIDDEN not in place.site.names.asked


@pytest.mark.parametrize("place", TRANSPARENT, indirect=True)
def test_the_address_of_an_answer_leads_to_the_server(place: Place) -> None:
    """Also upper case and a final dot are the same name; the question comes back as it was asked."""
    with place.sandbox().session() as session:
        question = build_question(f"{ALLOWED.upper()}.", A)
        asked = session.run((PYTHON, "-I", "-S", "-c", _ASK, question.hex()))
        answer = bytes.fromhex(json.loads(asked.check().stdout)[0][0])
        _, (address,) = read_answer(answer)
        fetched = session.run((PYTHON, "-I", "-S", "-c", _CONNECT, address, ALLOWED))

    assert question[12:] in answer
    assert fetched.ok, fetched.stderr
    assert [(request.host, request.target) for request in place.site.http.requests] == [(ALLOWED, "/by-hand")]


@pytest.mark.parametrize("place", EVERY, indirect=True)
def test_a_program_that_asks_for_its_own_machine_breaks_no_rule(place: Place) -> None:
    """As git does, and mail programs: nobody has to permit what never leaves."""
    asks = "import socket; socket.getfqdn(); print(socket.getaddrinfo(socket.gethostname(), 80)[0][4][0])"

    result = place.run((PYTHON, "-I", "-S", "-c", asks))

    assert network_violations(result) == []
    assert place.site.names.asked == []
    assert result.ok, result.stderr


@pytest.mark.parametrize("place", ROUTED, indirect=True)
def test_java_finds_the_same_names_by_libc_and_by_itself(place: Place) -> None:
    if shutil.which("javac") is None:
        pytest.skip("there is no Java that compiles on this machine")
    (place.work / "Ask.java").write_text(_JAVA)

    result = place.run(("java", "-XX:+UseSerialGC", "-Xmx256m", "Ask.java", ALLOWED, FORBIDDEN))

    assert result.ok, result.stderr
    greeted, found, refused = result.stdout.splitlines()
    assert greeted == f"this is {ALLOWED} at /java"
    assert found.startswith("A: ")
    assert refused == "no such name"
    assert place.site.hosts() == {ALLOWED}
    assert FORBIDDEN not in place.site.names.asked


@pytest.mark.parametrize("place", TRANSPARENT, indirect=True)
def test_a_name_that_is_there_by_ipv6_alone_is_reached_by_either(place: Place) -> None:
    name = "six.example.test"
    grants = (f"network:http:{name}", "network:http:[::1]")
    with WebServer(address="::1") as web:
        place.site.names.lead(name, 80, web.where)
        result = place.run(
            f"for how in -6 -4; do curl -sSf $how http://{name}/$how || exit; done", grants=grants
        )
        web.settle()
        asked = [(request.host, request.target) for request in web.requests]

    assert result.ok, result.stderr
    assert asked == [(name, "/-6"), (name, "/-4")]
    assert network_violations(result) == []


@pytest.mark.parametrize("place", TRANSPARENT, indirect=True)
def test_a_name_without_ipv6_is_not_given_any(place: Place) -> None:
    result = place.run(f"curl -6 -sS http://{ALLOWED}/")

    assert not result.ok
    assert place.site.hosts() == set()
