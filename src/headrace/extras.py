"""The packages that not everybody needs: which extra of Headrace installs what a program looked for in vain."""

from __future__ import annotations

_EXTRAS = {
    "cryptography": "kubernetes",
    "google": "kubernetes",  # protobuf
    "grpc": "kubernetes",
    "kubernetes_asyncio": "kubernetes",
    "opentelemetry": "otlp",
    "tensorflow": "tensorflow",
    "torch": "torch",
}
"""By the name of a package as Python imports it; other packages come with Headrace itself."""


def command_to_install(error: ImportError) -> str | None:
    """The command that installs what was not found; nothing where it is no package of an extra."""
    package = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(package) if isinstance(error, ModuleNotFoundError) else None
    return f"pip install 'headrace[{extra}]'" if extra else None


def explained(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The same error for callers of the SDK, with what to do; itself where there is nothing to say."""
    command = command_to_install(error)
    return ModuleNotFoundError(f"{error.msg}: {command}", name=error.name) if command else error
