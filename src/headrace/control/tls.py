"""TLS between a master and whoever asks it: whom a client believes, and what a server shows.

The signatures of requests and answers (`headrace.control.signing`) hold with and without it: they say who may do what,
and that nobody changed a word; TLS keeps names of files secret from who listens.
"""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path

from headrace.control.renewed_files import Renewed
from headrace.errors import ConfigError


def client_context(authority: Path | None) -> ssl.SSLContext:
    """Believes the authorities of this machine (or those of `SSL_CERT_FILE`), and that of a PEM file.

    Raises `ConfigError` for a file that holds none.
    """
    context = ssl.create_default_context()
    if authority is not None:
        try:
            context.load_verify_locations(authority)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError.of(f"tls: the authority {authority} cannot be read: {_reason(error)}") from None
    return context


def renewed_client_context(authority: Path | None) -> Renewed[ssl.SSLContext]:
    """The same, which believes a new authority as soon as it is in the file."""
    files = [authority] if authority else []
    return Renewed("the authority of the master", files, lambda: client_context(authority))


def renewed_server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """The same as `server_context`; who connects is shown the certificate that is in the files then."""
    make = partial(server_context, certificate, key)
    renewed = Renewed("the certificate of this master", (certificate, key), make)
    context = make()

    def choose(connection: ssl.SSLObject, _name: str | None, _of: ssl.SSLContext) -> None:
        connection.context = renewed.newest()

    context.sni_callback = choose
    return context


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Shows a certificate, TLS 1.2 or newer. Raises `ConfigError` that names the file."""
    for path in (certificate, key):
        try:
            path.open("rb").close()
        except OSError as error:
            raise ConfigError.of(f"https: {path} cannot be read: {error.strerror}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        raise ConfigError.of(
            f"https: {certificate} and {key} are no certificate with its key: {_reason(error)}",
            hint="both are PEM files, and the key has no password",
        ) from None
    return context


def _no_password() -> str:
    # Without this OpenSSL would ask at the terminal.
    return ""


def _reason(error: OSError) -> str:
    return error.reason if isinstance(error, ssl.SSLError) and error.reason else error.strerror or str(error)
