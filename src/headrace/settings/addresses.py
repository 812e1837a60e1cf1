"""Addresses as people write them: `HOST:PORT`, and the URL of a master."""

from __future__ import annotations

from urllib.parse import urlsplit

from headrace.errors import ConfigError


def parse_address(text: str) -> tuple[str, int]:
    """`127.0.0.1:9100`, `[::1]:9100` or `:9100` (all addresses). Raises `ConfigError`."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError.of(f"'{text}' is not HOST:PORT", hint="write for example 127.0.0.1:9100")
    return host.removeprefix("[").removesuffix("]"), int(port)


def format_address(host: str, port: int) -> str:
    """`127.0.0.1:9100`, `[::1]:9100`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_master_url(text: str) -> str:
    """`http://HOST:PORT` without a slash at its end; `HOST:PORT` is understood, too. Raises `ConfigError`."""
    wrong = ConfigError.of(
        "the address of the master is not http://HOST:PORT", hint="write for example http://10.0.0.1:8700"
    )
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise wrong
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise wrong
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{port}' if port is not None else ''}"
