"""Temporary keys of a role, from STS: by keys of another profile, or by a web identity token."""

from __future__ import annotations

import hashlib
import hmac
import html
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

from headrace.engine.temporary_keys import TemporaryKeys, seconds_of
from headrace.engine.uris import normal_endpoint
from headrace.errors import ConfigError, HeadraceError, OriginUnreachableError, RefusedError
from headrace.settings.environment import Environment

_LONGEST_S = 5.0
_MOST_BYTES = 1 << 20
_USUAL_REGION = "us-east-1"
_FIELDS = {
    "AccessKeyId": "access_key_id",
    "SecretAccessKey": "secret_access_key",
    "SessionToken": "session_token",
}


@dataclass(frozen=True)
class Role:
    """A role of a profile, and where it is to be assumed."""

    profile: str
    arn: str
    endpoint: str
    region: str
    session: str
    external_id: str | None
    duration_s: str | None

    @classmethod
    def of(cls, profile: str, values: Mapping[str, str], environment: Environment) -> Role:
        """The role of this profile, whose `values` name it."""
        region = values.get("region") or environment.first(("AWS_REGION", "AWS_DEFAULT_REGION"))
        named = environment.first(("AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL")) or values.get("endpoint_url")
        return cls(
            profile=profile,
            arn=values["role_arn"],
            endpoint=normal_endpoint(named) if named else _usual_endpoint(region),
            region=region or _USUAL_REGION,
            session=values.get("role_session_name") or f"headrace-{int(time.time())}",
            external_id=values.get("external_id"),
            duration_s=values.get("duration_seconds"),
        )

    def by_keys(self, keys: Mapping[str, str]) -> TemporaryKeys:
        """Assumes it by the fields `keys` of an S3 origin."""
        body = self._body("AssumeRole", ExternalId=self.external_id)
        return self._ask(body, _signed_headers(self, keys, body))

    def by_web_identity(self, token_file: Path) -> TemporaryKeys:
        """Assumes it by the token in a file."""
        try:
            token = token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            raise ConfigError.of(
                f"cannot read {token_file}, the web_identity_token_file of AWS profile '{self.profile}'"
            ) from None
        return self._ask(self._body("AssumeRoleWithWebIdentity", WebIdentityToken=token), {})

    def _body(self, action: str, **parameters: str | None) -> bytes:
        common = {"RoleArn": self.arn, "RoleSessionName": self.session, "DurationSeconds": self.duration_s}
        given = {"Action": action, "Version": "2011-06-15", **common, **parameters}
        return urlencode({name: value for name, value in given.items() if value}).encode()

    def _ask(self, body: bytes, headers: Mapping[str, str]) -> TemporaryKeys:
        # Here, since few mounts assume a role.
        from urllib.error import HTTPError  # noqa: PLC0415
        from urllib.request import HTTPRedirectHandler, Request, build_opener  # noqa: PLC0415

        class Stay(HTTPRedirectHandler):
            """What is signed goes nowhere else."""

            def redirect_request(self, *_: object) -> None:
                return None

        sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        request = Request(f"{self.endpoint}/", data=body, headers=sent, method="POST")  # noqa: S310 - http or https
        try:
            with build_opener(Stay).open(request, timeout=_LONGEST_S) as answer:
                text = answer.read(_MOST_BYTES).decode("utf-8", "replace")
        except HTTPError as error:
            raise self._refused(error.code, error.read(_MOST_BYTES).decode("utf-8", "replace")) from None
        except (OSError, ValueError) as error:
            raise self._unreachable(error) from None
        return self._keys(text)

    def _keys(self, text: str) -> TemporaryKeys:
        fields = {name: value for tag, name in _FIELDS.items() if (value := _text(text, tag))}
        try:
            expires_at_s = seconds_of(_text(text, "Expiration"))
        except ValueError:
            fields = {}
        if len(fields) < len(_FIELDS):
            raise OriginUnreachableError.of(
                f"{self._what()}: the response of {self.endpoint} is not that of STS",
                hint="check AWS_ENDPOINT_URL_STS",
            )
        return TemporaryKeys(fields, expires_at_s)

    def _what(self) -> str:
        return f"cannot assume the role {self.arn} of AWS profile '{self.profile}'"

    def _refused(self, status: int, body: str) -> HeadraceError:
        code = _text(body, "Code")[:64] or "without a reason"
        if status == 407:
            return OriginUnreachableError.of(
                f"{self._what()}: the proxy to {self.endpoint} wants a user and a password (407)",
                hint="check HTTPS_PROXY and NO_PROXY in the environment",
            )
        if status >= 500:
            return OriginUnreachableError.of(f"{self._what()}: {self.endpoint} answers {status} {code}")
        return RefusedError.of(
            f"{self._what()}: {self.endpoint} refuses it ({status} {code})",
            hint="check the role's trust policy, and the keys of its source",
        )

    def _unreachable(self, error: Exception) -> OriginUnreachableError:
        reason = getattr(error, "reason", error)
        why = "no answer in time" if isinstance(reason, TimeoutError) else getattr(reason, "strerror", None)
        return OriginUnreachableError.of(
            f"{self._what()}: {self.endpoint} (STS) did not answer: {why or 'no connection'}",
            hint="check the network and its proxies; AWS_ENDPOINT_URL_STS names another address of STS",
        )


def _usual_endpoint(region: str | None) -> str:
    if not region:
        return "https://sts.amazonaws.com"
    return f"https://sts.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")


def _text(document: str, tag: str) -> str:
    found = re.search(rf"<{tag}>([^<]*)</{tag}>", document)
    return html.unescape(found[1]).strip() if found else ""


def _signed_headers(role: Role, keys: Mapping[str, str], body: bytes) -> dict[str, str]:
    """Signature version 4 of a POST to `/`."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "host": urlsplit(role.endpoint).netloc,
        "x-amz-date": now,
    }
    if token := keys.get("session_token"):
        headers["x-amz-security-token"] = token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{now[:8]}/{role.region}/sts/aws4_request"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{keys['secret_access_key']}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashed}".encode(), hashlib.sha256)
    who = quote(keys["access_key_id"], safe="")
    return headers | {
        "Authorization": f"AWS4-HMAC-SHA256 Credential={who}/{scope}, SignedHeaders={names}, "
        f"Signature={signature.hexdigest()}"
    }
