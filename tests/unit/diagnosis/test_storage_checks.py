from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import SecretStr

from headrace.diagnosis import credential_checks, storage_checks, storage_facts
from headrace.diagnosis.credential_checks import CredentialFacts
from headrace.diagnosis.findings import Finding, Level
from headrace.diagnosis.storage_facts import ListFacts, NetworkFacts
from headrace.diagnosis.storage_places import Place, place_of
from headrace.settings.origins import HttpOrigin, LocalOrigin, NfsOrigin, Origin, OssOrigin, S3Origin

NOW = 1_000_000.0
DAY = 24 * 3600.0
PLACE = Place("https", "s3.example.com", 443)
HERE = NetworkFacts(
    PLACE, ("192.0.2.1",), refused={}, tls="TLSv1.3", certificate_ends_s=NOW + 90 * DAY, clock_ahead_s=0
)


@pytest.mark.parametrize(
    ("origin", "proxies", "wanted"),
    [
        (S3Origin(bucket="b", region="eu-west-1"), {}, Place("https", "b.s3.eu-west-1.amazonaws.com", 443)),
        (S3Origin(bucket="b"), {}, Place("https", "b.s3.amazonaws.com", 443)),
        (
            S3Origin(bucket="b", endpoint="http://127.0.0.1:9000", path_style=True),
            {},
            Place("http", "127.0.0.1", 9000),
        ),
        (
            OssOrigin(bucket="b", endpoint="https://oss-cn-x.aliyuncs.com"),
            {},
            Place("https", "b.oss-cn-x.aliyuncs.com", 443),
        ),
        (NfsOrigin(server="filer", directory="/x"), {}, Place("nfs", "filer", 2049)),
        (HttpOrigin(endpoint="http://web", directory="/"), {}, Place("http", "web", 80)),
        (
            HttpOrigin(endpoint="http://web", directory="/"),
            {"http_proxy": "http://name:hidden@proxy:3128"},
            Place("http", "web", 80, "proxy:3128"),
        ),
        (
            HttpOrigin(endpoint="http://web", directory="/"),
            {"https_proxy": "http://proxy:1"},
            Place("http", "web", 80),
        ),
        (
            HttpOrigin(endpoint="http://a.corp.example", directory="/"),
            {"http_proxy": "proxy:1", "no_proxy": "localhost, .corp.example"},
            Place("http", "a.corp.example", 80),
        ),
        (
            HttpOrigin(endpoint="http://10.1.2.3", directory="/"),
            {"all_proxy": "proxy:1", "no_proxy": "10.0.0.0/8"},
            Place("http", "10.1.2.3", 80),
        ),
        (LocalOrigin(directory="/x"), {}, None),
    ],
)
def test_the_place_of_an_origin(origin: Origin, proxies: dict[str, str], wanted: Place | None) -> None:
    assert place_of(origin, proxies) == wanted


def changed(**others: object) -> NetworkFacts:
    return NetworkFacts(**{**{name: getattr(HERE, name) for name in NetworkFacts.__slots__}, **others})


@pytest.mark.parametrize(
    ("facts", "check", "level", "words"),
    [
        (HERE, "clock beside x", Level.GOOD, "agrees"),
        (HERE, "TLS of x", Level.GOOD, "90 days"),
        (NetworkFacts(PLACE, name_fault="Name or service not known"), "name of x", Level.FAULT, "no address"),
        (changed(refused={"192.0.2.1": "Connection refused"}), "connection to x", Level.FAULT, "refused"),
        (
            changed(
                addresses=("192.0.2.1", "2001:db8::1"), refused={"2001:db8::1": "Network is unreachable"}
            ),
            "connection to x",
            Level.NOTE,
            "some addresses",
        ),
        (changed(tls="", tls_fault="certificate has expired"), "TLS of x", Level.FAULT, "has expired"),
        (changed(certificate_ends_s=NOW + 3 * DAY), "TLS of x", Level.NOTE, "ends in 3 days"),
        (changed(clock_ahead_s=-1200.0), "clock beside x", Level.FAULT, "1200 s behind"),
        (changed(clock_ahead_s=300.0), "clock beside x", Level.NOTE, "300 s ahead"),
    ],
)
def test_what_stands_in_the_way_is_named(facts: NetworkFacts, check: str, level: Level, words: str) -> None:
    (found,) = [each for each in storage_checks.check_network("x", facts, NOW) if each.check == check]
    assert (found.level, words in found.text) == (level, True), found
    assert found.remedy or level is not Level.FAULT


@pytest.mark.parametrize("kind", ["PermissionDenied", "NotFound", "Unreachable", "Timeout", "Unexpected"])
def test_a_list_that_is_refused_has_a_remedy(kind: str) -> None:
    assert storage_checks.check_list("x", ListFacts("no", kind)).remedy
    assert storage_checks.check_list("x", ListFacts("no", kind, "do this")).remedy == "do this"


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (CredentialFacts("x", "keys", "options"), Level.GOOD, "keys, from options"),
        (CredentialFacts("x", "temporary keys", "AWS_SESSION_TOKEN"), Level.NOTE, "nobody renews"),
        (
            CredentialFacts("x", "temporary keys", "p", NOW - 120, is_renewed=True),
            Level.FAULT,
            "2 minutes ago",
        ),
        (CredentialFacts("x", "temporary keys", "p", NOW + 120), Level.NOTE, "end in 2 minutes"),
        (CredentialFacts("x", "temporary keys", "p", NOW + 120, is_renewed=True), Level.GOOD, "are renewed"),
        (CredentialFacts("x", "none", ""), Level.GOOD, "none"),
    ],
)
def test_credentials_are_told_by_kind_and_end(facts: CredentialFacts, level: Level, words: str) -> None:
    found: Finding = credential_checks.check(facts, NOW)
    assert (found.level, words in found.text) == (level, True), found


@pytest.mark.parametrize(
    ("origin", "kind"),
    [
        (S3Origin(bucket="b"), "none"),
        (S3Origin(bucket="b", anonymous=True), "none asked for"),
        (S3Origin(bucket="b", access_key_id=SecretStr("i"), secret_access_key=SecretStr("s")), "keys"),
        (S3Origin(bucket="b", access_key_id=SecretStr("i"), session_token=SecretStr("t")), "temporary keys"),
        (HttpOrigin(endpoint="http://w", directory="/", token=SecretStr("t")), "token"),
        (HttpOrigin(endpoint="http://w", directory="/", username="u", password=SecretStr("p")), "password"),
    ],
)
def test_the_kind_of_credentials(origin: Origin, kind: str) -> None:
    assert credential_checks.kind_of(origin) == kind


@contextmanager
def server(date: Callable[[], str]) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response_only(403)
            self.send_header("Date", date())
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made.server_port
        made.shutdown()
        thread.join()


def test_the_clock_of_a_server_is_read_from_its_answer() -> None:
    with server(lambda: formatdate(0, usegmt=True)) as port:
        facts = storage_facts.network(HttpOrigin(endpoint=f"http://127.0.0.1:{port}", directory="/"), {})
    assert facts is not None and facts.addresses == ("127.0.0.1",) and facts.refused == {}
    assert facts.clock_ahead_s is not None and facts.clock_ahead_s > 50 * 365 * DAY


def test_a_server_that_speaks_no_tls_is_told_of() -> None:
    with server(lambda: "yesterday") as port:
        facts = storage_facts.network(HttpOrigin(endpoint=f"https://127.0.0.1:{port}", directory="/"), {})
    assert facts is not None and facts.tls_fault


def test_a_port_that_nobody_listens_at_is_refused() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        facts = storage_facts.network(HttpOrigin(endpoint=f"http://127.0.0.1:{port}", directory="/"), {})
    assert facts is not None and facts.refused == {"127.0.0.1": "Connection refused"}


def test_a_name_without_an_address_is_told_of() -> None:
    facts = storage_facts.network(NfsOrigin(server="no-such-host.invalid", directory="/x"), {})
    assert facts is not None and facts.name_fault and not facts.addresses
