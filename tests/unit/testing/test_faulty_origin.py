"""The lying proxy, in front of the OSS test server read without signature."""

import http.client
import urllib.parse

import pytest

from headrace.testing.faulty_origin import Fault, FaultyOrigin, Lie
from headrace.testing.oss_server import OssBucket, OssServer

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def origin():
    with OssServer(public_read=True) as server, FaultyOrigin(server.endpoint) as proxy:
        server.buckets["data"] = bucket = OssBucket()
        for number in range(5):
            bucket.put(f"file-{number}", CONTENT)
        yield proxy


def fetch(proxy, path, *, method="GET", headers=None):
    host = urllib.parse.urlsplit(proxy.endpoint).netloc
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def listing(proxy, query="list-type=2&max-keys=2"):
    return fetch(proxy, f"/data/?{query}")[2].decode()


def test_without_a_fault_everything_passes_and_is_counted(origin):
    status, headers, body = fetch(origin, "/data/file-1", headers={"Range": "bytes=5-9"})
    assert (status, body) == (206, CONTENT[5:10])
    assert headers["Content-Range"] == f"bytes 5-9/{len(CONTENT)}"
    assert origin.body_bytes == 5
    assert origin.requests == {"GET": 1}


def test_head_tells_the_length_of_the_object(origin):
    assert fetch(origin, "/data/file-1", method="HEAD")[1]["Content-Length"] == str(len(CONTENT))


def test_a_short_body_ends_before_the_promised_length(origin):
    origin.add(Fault(Lie.SHORT_BODY, "file-1"))
    with pytest.raises(http.client.IncompleteRead):
        fetch(origin, "/data/file-1")
    assert fetch(origin, "/data/file-2")[2] == CONTENT


def test_a_wrong_length_hides_half_of_the_object(origin):
    origin.add(Fault(Lie.WRONG_LENGTH))
    assert fetch(origin, "/data/file-1")[2] == CONTENT[: len(CONTENT) // 2]


def test_a_storm_ends_after_its_times(origin):
    fault = origin.add(Fault(Lie.SERVICE_UNAVAILABLE, times=2))
    assert [fetch(origin, "/data/file-1")[0] for _ in range(3)] == [503, 503, 200]
    assert fault.done == 2


def test_a_fault_may_start_after_some_requests(origin):
    origin.add(Fault(Lie.CHANGED_ETAG, after=1))
    before, after = (fetch(origin, "/data/file-1")[1]["ETag"] for _ in range(2))
    assert before != after


@pytest.mark.parametrize("lie", [Lie.CONNECTION_RESET, Lie.RESET_IN_BODY])
def test_a_reset_breaks_the_connection(origin, lie):
    origin.add(Fault(lie))
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        fetch(origin, "/data/file-1")


def test_silence_ends_without_an_answer(origin):
    origin.add(Fault(Lie.SILENCE, delay_s=0.05))
    with pytest.raises((ConnectionResetError, http.client.RemoteDisconnected)):
        fetch(origin, "/data/file-1")


def test_a_slow_drip_brings_the_whole_body(origin):
    origin.add(Fault(Lie.SLOW_DRIP, delay_s=0.001))
    assert fetch(origin, "/data/file-1")[2] == CONTENT


def test_one_byte_is_flipped(origin):
    origin.add(Fault(Lie.FLIPPED_BYTE))
    body = fetch(origin, "/data/file-1")[2]
    assert sum(one != other for one, other in zip(body, CONTENT, strict=True)) == 1


def test_listings_are_cut_lose_their_token_or_repeat_it(origin):
    for lie in (Lie.TRUNCATED_LISTING, Lie.LOST_CONTINUATION, Lie.GARBAGE):
        origin.clear()
        origin.add(Fault(lie, "list-type"))
        text = fetch(origin, "/data/?list-type=2&max-keys=2")[2]
        assert b"</NextContinuationToken>" not in text or lie is Lie.TRUNCATED_LISTING
        assert (b"</ListBucketResult>" in text) == (lie is Lie.LOST_CONTINUATION)


def test_a_repeated_token_asks_for_the_same_page_again(origin):
    origin.add(Fault(Lie.REPEATED_CONTINUATION, "list-type"))
    first = listing(origin)
    token = first.partition("<NextContinuationToken>")[2].partition("<")[0]
    second = listing(origin, f"list-type=2&max-keys=2&continuation-token={urllib.parse.quote(token)}")
    assert f"<NextContinuationToken>{token}</NextContinuationToken>" in second


def test_a_range_looks_like_the_whole_object(origin):
    origin.add(Fault(Lie.RANGE_AS_WHOLE))
    status, headers, body = fetch(origin, "/data/file-1", headers={"Range": "bytes=0-9"})
    assert (status, len(body)) == (200, 10)
    assert "Content-Range" not in headers
