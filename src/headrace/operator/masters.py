"""The masters of datasets, for work that is ordered from them."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from pydantic import SecretStr

from headrace.control.client import ControlClient
from headrace.errors import MissingFileError
from headrace.kube.client import KubeClient
from headrace.operator.desired_state import DesiredState
from headrace.operator.mirror import Mirror
from headrace.operator.observer import MOST_ANSWER_BYTES, master_url
from headrace.operator.rendering.naming import Names, names_of
from headrace.operator.rendering.role_tokens import WHOLE_KEY
from headrace.operator.token_digests import digest_of, own_token, token_digest


@dataclass(frozen=True, slots=True)
class Masters:
    """The addresses of masters, and the tokens that they know."""

    client_of_api: KubeClient
    mirror: Mirror

    async def client(self, title: str) -> ControlClient:
        """Asks the master of the dataset `namespace/name`. Raises `MissingFileError` when it has none."""
        names = names_of(title)
        master = master_url(self.mirror, names)
        token = await self.token(names)
        if not master or token is None:
            raise MissingFileError.of(f"dataset {title} has no master")
        # Who may write pods and Secrets of that namespace may answer in its place.
        return ControlClient(master, token, most_bytes=MOST_ANSWER_BYTES)

    async def known_token(self, desired: DesiredState) -> SecretStr | None:
        """The same token; without a request where it follows from the dataset, as it mostly does."""
        own = own_token(desired)
        if token_digest(self.mirror, desired.names) == digest_of(own):
            return SecretStr(own)
        return await self.token(desired.names)

    async def token(self, names: Names) -> SecretStr | None:
        """The token of a dataset's cluster. It is asked for anew each time, and kept nowhere."""
        return await self.secret_value(names, WHOLE_KEY)

    async def secret_value(self, names: Names, key: str) -> SecretStr | None:
        """The text under a key of the Secret that holds a dataset's token; `None` for a value that is no text."""
        secret = await self.client_of_api.get("Secret", names.namespace, names.token)
        text = ((secret or {}).get("data") or {}).get(key)
        try:
            return SecretStr(base64.b64decode(text).decode()) if text else None
        except ValueError:
            return None
