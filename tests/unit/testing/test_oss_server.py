"""The OSS test server: it refuses what OSS refuses. Requests are signed here, by hand, as OSS documents it."""

import base64
import email.utils
import hashlib
import hmac
import http.client
import re
import time

import pytest

from headrace.testing.oss_objects import OssBucket
from headrace.testing.oss_server import OssServer
from headrace.testing.oss_signature import OssKeys


@pytest.fixture
def server():
    with OssServer() as running:
        running.buckets["photos"] = bucket = OssBucket()
        for number in range(5):
            bucket.put(f"a/{number}", b"0123456789")
        bucket.put("b ä&+", b"other")
        yield running


def signed(keys, method, resource, *, date=None, oss_headers=""):
    date = date or email.utils.formatdate(usegmt=True)
    text = f"{method}\n\n\n{date}\n{oss_headers}{resource}"
    digest = hmac.new(keys.access_key_secret.encode(), text.encode(), hashlib.sha1).digest()
    signature = base64.b64encode(digest).decode()
    return {"Date": date, "Authorization": f"OSS {keys.access_key_id}:{signature}"}


def fetch(server, path, headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())
    finally:
        connection.close()


def code_of(answer):
    return re.search("<Code>(.*)</Code>", answer[1])[1]


def test_a_signed_request_reads_and_the_path_is_signed_decoded(server):
    headers = signed(server.keys, "GET", "/photos/b ä&+")
    assert fetch(server, "/photos/b%20%C3%A4%26%2B", headers)[:2] == (200, "other")


def test_the_bucket_may_stand_in_the_host_name(server):
    headers = {**signed(server.keys, "GET", "/photos/a/1"), "Host": "photos.localhost"}
    assert fetch(server, "/a/1", headers)[1] == "0123456789"


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        (OssKeys("headrace-oss-key", "wrong"), "SignatureDoesNotMatch"),
        (OssKeys("nobody", "headrace-oss-secret-0123456789"), "InvalidAccessKeyId"),
    ],
)
def test_wrong_keys_are_refused(server, keys, code):
    answer = fetch(server, "/photos/a/1", signed(keys, "GET", "/photos/a/1"))
    assert (answer[0], code_of(answer)) == (403, code)


def test_a_signature_for_another_object_is_refused(server):
    answer = fetch(server, "/photos/a/2", signed(server.keys, "GET", "/photos/a/1"))
    assert code_of(answer) == "SignatureDoesNotMatch"


def test_an_old_date_and_a_missing_signature_are_refused(server):
    old = email.utils.formatdate(time.time() - 3600, usegmt=True)
    assert (
        code_of(fetch(server, "/photos/a/1", signed(server.keys, "GET", "/photos/a/1", date=old)))
        == "RequestTimeTooSkewed"
    )
    assert code_of(fetch(server, "/photos/a/1", {})) == "AccessDenied"


def test_temporary_credentials_need_their_token():
    keys = OssKeys("key", "secret", "token")
    with OssServer(keys=keys) as server:
        server.buckets["photos"] = OssBucket()
        server.buckets["photos"].put("a", b"x")
        with_token = signed(keys, "GET", "/photos/a", oss_headers="x-oss-security-token:token\n")
        assert fetch(server, "/photos/a", {**with_token, "x-oss-security-token": "token"})[0] == 200
        assert code_of(fetch(server, "/photos/a", signed(keys, "GET", "/photos/a"))) == "InvalidSecurityToken"


def test_what_is_not_there_is_named(server):
    assert code_of(fetch(server, "/photos/none", signed(server.keys, "GET", "/photos/none"))) == "NoSuchKey"
    assert code_of(fetch(server, "/nowhere/a", signed(server.keys, "GET", "/nowhere/a"))) == "NoSuchBucket"


def test_conditions_and_ranges(server):
    headers = signed(server.keys, "GET", "/photos/a/1")
    etag = fetch(server, "/photos/a/1", headers)[2]["ETag"]
    assert fetch(server, "/photos/a/1", {**headers, "If-Match": etag})[0] == 200
    assert code_of(fetch(server, "/photos/a/1", {**headers, "If-Match": '"old"'})) == "PreconditionFailed"
    assert fetch(server, "/photos/a/1", {**headers, "Range": "bytes=2-4"})[:2] == (206, "234")
    # OSS, unlike S3, ignores a range that cannot be.
    assert fetch(server, "/photos/a/1", {**headers, "Range": "bytes=50-60"})[:2] == (200, "0123456789")


def test_pages_follow_one_another_without_loss(server):
    keys, token = [], None
    while True:
        sub_resource = f"?continuation-token={token}" if token else ""
        query = "list-type=2&max-keys=2" + (f"&continuation-token={token}" if token else "")
        text = fetch(server, f"/photos/?{query}", signed(server.keys, "GET", f"/photos/{sub_resource}"))[1]
        keys += re.findall("<Key>(.*?)</Key>", text)
        found = re.search("<NextContinuationToken>(.*)</NextContinuationToken>", text)
        if not found:
            break
        token = found[1]
    assert keys == ["a/0", "a/1", "a/2", "a/3", "a/4", "b ä&amp;+"]


def test_a_delimiter_folds_folders(server):
    text = fetch(server, "/photos/?delimiter=/", signed(server.keys, "GET", "/photos/"))[1]
    assert "<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>" in text
    assert re.findall("<Key>(.*?)</Key>", text) == ["b ä&amp;+"]
