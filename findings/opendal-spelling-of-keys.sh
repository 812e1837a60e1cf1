#!/usr/bin/env bash
# OpenDAL 0.47.12 (Python): a key with `! ' ( ) *` is sent with these characters as they are, and signed as if they were sent as
# `%21` and so on, which is how AWS writes them. Servers that compare the signature with the request line as it came (S3Proxy) refuse
# such a request as a forgery: 403, and advice to look at the keys. The server here only looks: the signature fits
# the encoded spelling, and not the one that was sent.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'opendal==0.47.12'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import hashlib
import hmac
import http.server
import threading
import urllib.parse

import opendal

KEY, SECRET = "it's (a) new*file!.txt", "secret-of-test"
requests: list[tuple[str, dict[str, str]]] = []


class Storage(http.server.BaseHTTPRequestHandler):
    """Has every key that is asked for."""

    def do_GET(self) -> None:
        requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"bytes")

    def log_message(self, *_: object) -> None:
        pass


def is_signed_as(path: str, headers: dict[str, str]) -> bool:
    """Whether the signature of a GET is that of this path (AWS's signature version 4)."""
    fields = dict(part.strip().split("=", 1) for part in headers["authorization"].split(" ", 1)[1].split(","))
    _, day, region, service, last = fields["Credential"].split("/")
    names = fields["SignedHeaders"].split(";")
    lines = ["GET", path, "", *(f"{name}:{headers[name]}" for name in names), "", ";".join(names)]
    asked = hashlib.sha256("\n".join([*lines, headers["x-amz-content-sha256"]]).encode()).hexdigest()
    scope = f"{day}/{region}/{service}/{last}"
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, asked])
    key = f"AWS4{SECRET}".encode()
    for word in (day, region, service, last, text):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return key.hex() == fields["Signature"]


server = http.server.HTTPServer(("127.0.0.1", 0), Storage)
threading.Thread(target=server.serve_forever, daemon=True).start()
operator = opendal.Operator(
    "s3",
    bucket="data",
    endpoint=f"http://127.0.0.1:{server.server_address[1]}",
    region="us-east-1",
    access_key_id="key",
    secret_access_key=SECRET,
    disable_config_load="true",
)
assert operator.read(KEY) == b"bytes"
((sent, headers),) = requests
encoded = "/data/" + urllib.parse.quote(KEY, safe="-_.~")
fits = {path: is_signed_as(path, headers) for path in (sent, encoded)}
print(f"sent: {sent}; signed as: {fits}")
assert sent != encoded
assert fits == {sent: False, encoded: True}
PYTHON
