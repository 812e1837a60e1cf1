"""Planted credentials of every kind: none may be left, and what is none stays."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from headrace.diagnosis.bundle.redaction import Redactor

PLANTED = "pLanted/Value+0123456789"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJwbGFudGVkIn0.c2lnbmF0dXJlLXBsYW50ZWQ"


@pytest.mark.parametrize(
    "text",
    [
        f"aws_secret_access_key = {PLANTED}",
        f"AWS_SECRET_ACCESS_KEY={PLANTED} headrace mount",
        f"fs.oss.accessKeySecret={PLANTED}",
        f"fs.oss.accessKeySecret: '{PLANTED}'",
        f'{{"secretKey": "{PLANTED}", "bucket": "b"}}',
        f'{{\\"password\\": \\"{PLANTED}\\"}}',
        f"--token {PLANTED}",
        f"--secret-key={PLANTED}",
        f"https://user:{quote(PLANTED, safe='')}@host/path",
        f"proxy=http://{quote(PLANTED, safe='')}@host:3128",
        f"Authorization: AWS4-HMAC-SHA256 Credential=AKIAXXXXXXXXXXXXXXXX/2026, Signature={PLANTED}",
        f"> proxy-authorization: Basic {PLANTED}",
        f"'Authorization': 'Bearer {PLANTED}'",
        f"Set-Cookie: session={PLANTED}; Path=/",
        f"x-amz-security-token: {PLANTED}",
        f"GET /b/k?X-Amz-Signature={quote(PLANTED, safe='')}&x=1",
        f"GET /b?OSSAccessKeyId=i&Signature={quote(PLANTED, safe='')}",
        f"GET /webhdfs/v1/?op=OPEN&delegation={quote(PLANTED, safe='')}",
        f"sent Bearer {PLANTED} to it",
        f"api_key: {PLANTED}",
        f"db_password={PLANTED}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{PLANTED}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{PLANTED}\n",
        f"{PLANTED}\n-----END EC PRIVATE KEY-----\n",
    ],
)
def test_what_looks_like_a_credential_is_starred(text: str) -> None:
    for whole in (text, f"2026-11-28 info: {text}\nnext line", text.upper() if "BEGIN" not in text else text):
        told = Redactor().text(whole)
        assert all(part not in told for part in _parts(PLANTED) | _parts(PLANTED.upper())), told


def test_the_path_of_api_servers_to_the_webhook_is_starred() -> None:
    secret = "0123456789abcdef" * 2
    service = {"clientConfig": {"service": {"name": "headrace-webhook", "path": f"/pods/{secret}"}}}
    assert secret not in json.dumps(Redactor().value(service))
    told = Redactor().text(
        f'Post "https://headrace-webhook.headrace-system.svc:443/pods/{secret}?timeout=2s": EOF'
    )
    assert secret not in told and "headrace-webhook.headrace-system.svc" in told
    folder = "/var/lib/kubelet/pods/01234567-89ab-cdef-0123-456789abcdef/volumes"
    assert Redactor().text(folder) == folder


@pytest.mark.parametrize(
    "word", [JWT, "AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE", "LTAI5tPlantedPlanted12"]
)
def test_what_has_the_form_of_a_credential_is_starred(word: str) -> None:
    assert word not in Redactor().text(f"the request of {word} was refused")


@pytest.mark.parametrize(
    "text",
    [
        "cannot list s3://bucket/train@127.0.0.1:9000: was refused",
        "secretName: my-secret",
        "secret_file=/etc/headrace/keys",
        "HEADRACE_TOKEN_FILE=/run/token",
        "headrace_tokens_total 3",
        "mounted s3://bucket at /mnt/data; 12 files",
        '"encryptOptions": [{"name": "k", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]',
        "master http://10.0.0.1:8700 lost worker-1",
    ],
)
def test_what_holds_none_stays(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize("form", [str, quote, lambda text: json.dumps(text)[1:-1], "base64"])
def test_a_known_credential_is_found_in_every_form(form) -> None:
    known = 'odd "value" + ü/with:all'
    stands = base64.b64encode(known.encode()).decode() if form == "base64" else form(known)
    assert stands not in Redactor({known}).text(f"somebody printed {stands} here")


def test_documents_are_starred_by_the_names_of_their_fields() -> None:
    document = {
        "spec": {
            "mounts": [
                {"options": {"fs.oss.accessKeySecret": PLANTED, "aws.secretKey": PLANTED, "region": "r"}}
            ],
            "containers": [
                {"env": [{"name": "DB_PASSWORD", "value": PLANTED}, {"name": "MODE", "value": "fast"}]}
            ],
            "args": ["--token", PLANTED, f"--password={PLANTED}", "--token-file", "/kept"],
            "secretName": "kept",
        },
        "items": [{"kind": "Secret", "metadata": {"name": "kept"}, "data": {"odd": PLANTED}}],
    }
    told = json.dumps(Redactor().value(document))
    assert PLANTED not in told
    assert told.count("kept") == 3 and '"fast"' in told and '"region": "r"' in told


def test_a_long_line_of_a_stranger_takes_no_time() -> None:
    """It would take hours with patterns that try every start up to every end."""
    for line in ("a" * 300_000, "://" * 100_000, "-----BEGIN PRIVATE KEY-----" * 10_000, 'token":"' * 40_000):
        Redactor().text(line)


def _parts(text: str) -> set[str]:
    """A credential is told by its half as well."""
    return {text[:8], text[-8:], quote(text, safe="")[:8]}
