"""The token of a cluster: made once by its master, given to every member by file or environment, never on any wire."""

from __future__ import annotations

import base64
import os
import secrets
import stat
from pathlib import Path

from pydantic import SecretStr

from headrace.errors import ConfigError, RefusedError

SHORTEST = 16
LONGEST = 1024
_RANDOM_BYTES = 32


def create_token(path: Path) -> SecretStr:
    """A new token in a new file that only its owner can read; the one that is there if there is one."""
    token = base64.b64encode(secrets.token_bytes(_RANDOM_BYTES)).decode()
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{token}\n")
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, does not replace what another process made meanwhile.
        os.link(draft, path)
    except FileExistsError:
        return read_token(path)
    except OSError as error:
        raise ConfigError.of(f"cannot write the token to {path}: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)
    return SecretStr(token)


def read_token(path: Path) -> SecretStr:
    """The token in a file. Raises `ConfigError`, or `RefusedError` when any user of the machine can read it."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        hint = "copy the file `token` of the master's state folder here, or set HEADRACE_TOKEN"
        raise ConfigError.of(f"the token file {path} is not there", hint=hint) from None
    except UnicodeDecodeError:
        raise ConfigError.of(f"the token file {path} is not text") from None
    except OSError as error:
        raise ConfigError.of(f"cannot read the token file {path}: {error.strerror}") from None
    if stat.S_IMODE(mode) & (stat.S_IROTH | stat.S_IWOTH):
        raise RefusedError.of(
            f"the token file {path} is open to every user of this machine", hint=f"chmod 600 {path}"
        )
    return check_token(SecretStr(text), str(path))


def check_token(token: SecretStr, source: str) -> SecretStr:
    """The same token; raises `ConfigError` when it is no token."""
    text = token.get_secret_value()
    if not SHORTEST <= len(text) <= LONGEST or not text.isascii() or not text.isprintable():
        raise ConfigError.of(
            f"{source} holds no token: {SHORTEST} to {LONGEST} printable ASCII characters on one line",
            hint="copy the file `token` of the master's state folder",
        )
    return token
