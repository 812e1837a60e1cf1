"""How an API server is reached: from a pod of its cluster, or by a kubeconfig."""

from __future__ import annotations

from pathlib import Path

from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
)

from headrace.errors import ConfigError
from headrace.settings.environment import Environment

DEFAULT_NAMESPACE = "default"
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


async def configuration(kubeconfig: str | None = None, context: str | None = None) -> Configuration:
    """How the API server is reached: as a pod of the cluster, else by a kubeconfig (`KUBECONFIG`, `~/.kube/config`).

    `context` is one of the kubeconfig; without it the current one. Raises `ConfigError` when neither is there.
    """
    found = Configuration()
    if kubeconfig is None and context is None:
        try:
            load_incluster_config(client_configuration=found)
            return found
        except ConfigException:
            pass
    try:
        await load_kube_config(config_file=kubeconfig, context=context, client_configuration=found)
    except (ConfigException, OSError) as error:
        raise ConfigError.of(
            f"no Kubernetes is known: {error}", hint="run in a pod with a service account, or set KUBECONFIG"
        ) from error
    except Exception as error:  # its reader looks at nothing before it uses it
        raise _malformed(kubeconfig, error) from None
    return found


def default_namespace(kubeconfig: str | None = None, context: str | None = None) -> str:
    """The namespace of commands that name none: the context's, in a pod its own, else `default`."""
    try:
        contexts, current = list_kube_config_contexts(config_file=kubeconfig)
    except (ConfigException, OSError):
        return _POD_NAMESPACE.read_text().strip() if _POD_NAMESPACE.exists() else DEFAULT_NAMESPACE
    except Exception as error:
        raise _malformed(kubeconfig, error) from None
    wanted = next((each for each in contexts if each["name"] == context), current) if context else current
    named = ((wanted or {}).get("context") or {}).get("namespace")
    return str(named) if named else DEFAULT_NAMESPACE


def _malformed(kubeconfig: str | None, error: Exception) -> ConfigError:
    """Says where, but nothing of the content: it holds keys."""
    file = kubeconfig or Environment.current().get("KUBECONFIG") or "~/.kube/config"
    mark = getattr(error, "problem_mark", None)
    line = f", line {mark.line + 1}" if mark is not None else ""
    return ConfigError.of(
        f"{file}{line} is no kubeconfig", hint="`kubectl config view` with the same file shows what is wrong"
    )
