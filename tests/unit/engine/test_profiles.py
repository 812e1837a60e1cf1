"""Keys that an AWS profile does not hold, but says how to get."""

from __future__ import annotations

import http.server
import json
import os
import socket
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engine.profiles import Profiles
from headrace.errors import ConfigError, HeadraceError, OriginUnreachableError, RefusedError, UnsupportedError
from headrace.settings.environment import Environment

ARN = "arn:aws:iam::123456789012:role/reader"
ANSWER = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s&amp;cret</SecretAccessKey><SessionToken>token</SessionToken>
<Expiration>{ends}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
KEYS = "aws_access_key_id = AKID\naws_secret_access_key = planted-secret\n"


class Sts(http.server.ThreadingHTTPServer):
    """Notes what it is asked, and answers as it is told."""

    status, answer = 200, ANSWER.format(ends="2999-01-01T00:00:00Z")

    def __init__(self) -> None:
        self.asked: list[tuple[dict[str, str], dict[str, str]]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Sts

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((dict(urllib.parse.parse_qsl(body)), dict(self.headers)))
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer.encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def sts() -> Iterator[Sts]:
    with Sts() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()


def environment(home: Path, config: str, **variables: str) -> Environment:
    (home / ".aws").mkdir()
    (home / ".aws" / "config").write_text(config)
    return Environment({"HOME": str(home), "NO_PROXY": "*", **variables})


def test_a_role_is_assumed_by_the_keys_of_its_source_profile(tmp_path: Path, sts: Sts) -> None:
    config = f"""[profile work]
role_arn = {ARN}
source_profile = base
external_id = theirs
role_session_name = me
region = eu-west-3
[profile base]
{KEYS}"""
    chosen = environment(tmp_path, config, AWS_PROFILE="work", AWS_ENDPOINT_URL_STS=sts.url)
    profiles = Profiles()
    found = profiles.keys(chosen)
    assert found == {"access_key_id": "ASIA", "secret_access_key": "s&cret", "session_token": "token"}
    assert profiles.expires_at_s is not None
    (asked, headers) = sts.asked[0]
    assert asked["Action"] == "AssumeRole"
    assert (asked["RoleArn"], asked["ExternalId"], asked["RoleSessionName"]) == (ARN, "theirs", "me")
    assert "Credential=AKID/" in headers["Authorization"]
    assert "/eu-west-3/sts/aws4_request" in headers["Authorization"]
    # Whoever reads the profile again does not ask again.
    assert profiles.keys(chosen) == found
    assert len(sts.asked) == 1


def test_roles_are_assumed_one_by_another_and_by_the_keys_of_the_environment(
    tmp_path: Path, sts: Sts
) -> None:
    config = f"""[profile outer]
role_arn = {ARN}
source_profile = inner
[profile inner]
role_arn = {ARN}-inner
credential_source = Environment
"""
    keys = {"AWS_ACCESS_KEY_ID": "ENVKEY", "AWS_SECRET_ACCESS_KEY": "planted-secret"}
    chosen = environment(tmp_path, config, AWS_PROFILE="outer", AWS_ENDPOINT_URL_STS=sts.url, **keys)
    assert Profiles().keys(chosen)["access_key_id"] == "ASIA"
    assert [asked["RoleArn"] for asked, _ in sts.asked] == [f"{ARN}-inner", ARN]
    assert "Credential=ENVKEY/" in sts.asked[0][1]["Authorization"]
    assert sts.asked[1][1]["X-Amz-Security-Token"] == "token"


def test_a_role_is_assumed_by_a_web_identity(tmp_path: Path, sts: Sts) -> None:
    (tmp_path / "token").write_text("identity\n")
    config = f"[default]\nrole_arn = {ARN}\nweb_identity_token_file = {tmp_path}/token\n"
    assert (
        Profiles().keys(environment(tmp_path, config, AWS_ENDPOINT_URL_STS=sts.url))["session_token"]
        == "token"
    )
    asked, headers = sts.asked[0]
    assert (asked["Action"], asked["WebIdentityToken"]) == ("AssumeRoleWithWebIdentity", "identity")
    assert "Authorization" not in headers


@pytest.mark.parametrize(
    ("config", "kind", "says"),
    [
        (f"role_arn = {ARN}\n", ConfigError, "names nobody who may assume it"),
        (f"role_arn = {ARN}\nsource_profile = absent\n", ConfigError, "'absent' is in neither"),
        (f"role_arn = {ARN}\ncredential_source = Environment\n", ConfigError, "AWS_ACCESS_KEY_ID is not set"),
        (f"role_arn = {ARN}\ncredential_source = EcsContainer\n", UnsupportedError, "'EcsContainer'"),
        (f"role_arn = {ARN}\nmfa_serial = x\nsource_profile = default\n", UnsupportedError, "mfa_serial"),
        (
            f"role_arn = {ARN}\nsource_profile = b\n[profile b]\nrole_arn = {ARN}\nsource_profile = default\n",
            ConfigError,
            "name each other",
        ),
        ("sso_session = ours\n", UnsupportedError, "sso_session"),
        ("credential_process = /no/such/program\n", ConfigError, "cannot be run"),
        ("credential_process = false\n", RefusedError, "failed with code 1"),
        ("credential_process = echo planted-secret\n", ConfigError, "does not print keys"),
        ("credential_process = echo '{\"Version\": 2}'\n", ConfigError, "does not print keys"),
        ("credential_process = head -c 100000 /dev/zero\n", ConfigError, "prints more than"),
        ('credential_process = "\n', ConfigError, "is not a command"),
    ],
)
def test_what_gives_no_keys_is_named(
    tmp_path: Path, config: str, kind: type[HeadraceError], says: str
) -> None:
    with pytest.raises(kind) as refused:
        Profiles().keys(environment(tmp_path, f"[default]\n{config}"))
    assert says in refused.value.message
    assert "planted-secret" not in str(refused.value)


def test_sts_that_does_not_answer_is_another_thing_than_one_that_refuses(tmp_path: Path, sts: Sts) -> None:
    config = f"[default]\nrole_arn = {ARN}\nsource_profile = default\n{KEYS}"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}"
        chosen = environment(tmp_path, config, AWS_ENDPOINT_URL_STS=closed)
        with pytest.raises(OriginUnreachableError, match=r"\(STS\) did not answer: Connection refused"):
            Profiles().keys(chosen)
    sts.status, sts.answer = 403, "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>"
    there = Environment({**chosen.variables, "AWS_ENDPOINT_URL_STS": sts.url})
    with pytest.raises(RefusedError, match=r"refuses it \(403 AccessDenied\)"):
        Profiles().keys(there)
    sts.status, sts.answer = 200, "<html>"
    with pytest.raises(OriginUnreachableError, match="not that of STS"):
        Profiles().keys(there)


def test_a_program_gives_keys_until_they_end(tmp_path: Path) -> None:
    told = {
        "Version": 1,
        "AccessKeyId": "A",
        "SecretAccessKey": "S",
        "Expiration": "2999-01-01T00:00:00+00:00",
    }
    (tmp_path / "keys").write_text(json.dumps(told))
    profiles = Profiles()
    chosen = environment(tmp_path, f"[default]\ncredential_process = cat '{tmp_path}/keys'\n")
    assert profiles.keys(chosen) == {"access_key_id": "A", "secret_access_key": "S"}
    (tmp_path / "keys").unlink()
    assert profiles.keys(chosen)["access_key_id"] == "A"


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of another user is made by root")
def test_no_program_is_run_for_another_user(tmp_path: Path) -> None:
    chosen = environment(tmp_path, f"[default]\ncredential_process = touch {tmp_path}/ran\n")
    config = tmp_path / ".aws" / "config"
    os.chown(config, 12345, 12345)
    with pytest.raises(RefusedError, match="belongs to another user"):
        Profiles().keys(chosen)
    os.chown(config, 0, 0)
    # The command may stand in either file.
    credentials = tmp_path / ".aws" / "credentials"
    credentials.write_text(config.read_text())
    os.chown(credentials, 12345, 12345)
    with pytest.raises(RefusedError, match="belongs to another user"):
        Profiles().keys(chosen)
    credentials.unlink()
    config.chmod(0o666)
    with pytest.raises(RefusedError, match="everybody may write"):
        Profiles().keys(chosen)
    assert not (tmp_path / "ran").exists()
