from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess

import pytest
from pydantic import SecretStr

from headrace.control.page import PAGE_HEADERS, page_bytes
from headrace.control.rights import Rights, derive
from headrace.control.signing import SigningKey, body_digest


def test_the_policy_lets_the_page_run_nothing_but_its_own_script() -> None:
    policy = dict(rule.split(" ", 1) for rule in PAGE_HEADERS["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", policy["script-src"])
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", policy["style-src"])
    assert policy["require-trusted-types-for"] == "'script'"


def test_the_page_is_whole_in_itself() -> None:
    text = page_bytes().decode()
    addresses = set(re.findall(r"https?://[^\s'\"]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name of XML, asked by nobody
    assert not re.findall(r"\b(?:innerHTML|outerHTML|insertAdjacentHTML|document\.write)\b", text)
    assert " style=" not in text


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_page_signs_as_the_protocol_says() -> None:
    """Its own SHA-256 for every length around a block's end, and a signature that the master's code takes."""
    reader = derive(SecretStr("planted-token-0123456789abcdef"), Rights.READER).get_secret_value()
    (part,) = re.findall(r"\nconst PRIMES.*?(?=\n// --- asking)", page_bytes().decode(), re.DOTALL)
    program = f"""{part}
    const digests = Array.from({{ length: 200 }}, (_, length) => hex(sha256(new Uint8Array(length).fill(length))));
    console.log(JSON.stringify([digests, signed(keyOf("{reader}"), "/v1/status", "1700000000000", "n1")]));
    """
    done = subprocess.run(["node", "--eval", program], capture_output=True, text=True, timeout=60, check=True)
    digests, headers = json.loads(done.stdout)
    assert digests == [hashlib.sha256(bytes([length]) * length).hexdigest() for length in range(200)]
    key = SigningKey.of(SecretStr(reader))
    assert key.request_is_ours("GET", "/v1/status", body_digest(b""), headers)
    assert not key.request_is_ours("GET", "/v1/view", body_digest(b""), headers)
