"""Objects of Kubernetes as plain values: read, applied, patched, deleted, watched."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self

from aiohttp import ClientError, ClientResponse
from kubernetes_asyncio.client import ApiClient
from kubernetes_asyncio.client.configuration import Configuration

from headrace.errors import MissingFileError, OriginUnreachableError
from headrace.kube.faults import ExpiredError, fault_of
from headrace.kube.resources import RESOURCES, Resource

FIELD_MANAGER = "headrace-operator"
JSON_TYPE = "application/json"
MERGE_TYPE = "application/merge-patch+json"
APPLY_TYPE = "application/apply-patch+yaml"

_ANSWER_S = 30.0
_WATCH_S = 300
_PAGE = 500
_SHORT_S = 1.0
_LARGEST_FAULT_BYTES = 1 << 20

Content = dict[str, Any]
Labels = Mapping[str, str | None]
"""What objects are selected by; `None` for a label of any value."""


class KubeClient:
    """A client of one API server. Every call raises an error of Headrace that names the object."""

    def __init__(self, settings: Configuration, field_manager: str = FIELD_MANAGER) -> None:
        self._api = ApiClient(settings)
        self._manager = field_manager
        self._resources = dict(RESOURCES)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._api.close()

    def serve(self, resource: Resource) -> None:
        """Asks for a kind at this place from now on: the cluster serves another version of it."""
        self._resources[resource.kind] = resource

    async def get(self, kind: str, namespace: str | None, name: str) -> Content | None:
        """The object, or `None`."""
        try:
            return await self._ask("GET", kind, namespace, name)
        except MissingFileError:
            return None

    async def list(
        self,
        kind: str,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: str = "",
    ) -> list[Content]:
        """All objects of a kind; of all namespaces without one."""
        query = _selection(labels, fields) | {"limit": str(_PAGE)}
        found: list[Content] = []
        while True:
            page = await self._ask("GET", kind, namespace, None, query=query)
            resource = self._resources[kind]
            head = {"apiVersion": resource.api_version, "kind": kind}
            found += [head | item for item in page.get("items") or ()]
            token = page.get("metadata", {}).get("continue")
            if not token:
                return found
            query["continue"] = token

    async def create(self, content: Content, *, trial: bool = False) -> Content:
        """Makes a new object. `ConflictError` when there is one. A trial checks all of it, and makes nothing."""
        kind, namespace, _ = _names(content)
        query = {"dryRun": "All", "fieldValidation": "Strict"} if trial else None
        return await self._ask("POST", kind, namespace, None, query=query, body=content, about=content)

    async def replace(self, content: Content, subresource: str = "") -> Content:
        """Writes over the object that was read. `ConflictError` when it is another one by now."""
        kind, namespace, name = _names(content)
        return await self._ask("PUT", kind, namespace, name, subresource, body=content)

    async def apply(self, content: Content) -> Content:
        """Server-side apply: sets the given fields and keeps those of other managers."""
        kind, namespace, name = _names(content)
        query = {"fieldManager": self._manager, "force": "true"}
        return await self._ask(
            "PATCH", kind, namespace, name, query=query, body=content, content_type=APPLY_TYPE
        )

    async def patch(
        self, kind: str, namespace: str | None, name: str, body: Content, subresource: str = ""
    ) -> Content:
        """Merges into the object: `None` takes a field away."""
        return await self._ask(
            "PATCH", kind, namespace, name, subresource, body=body, content_type=MERGE_TYPE
        )

    async def delete(
        self, kind: str, namespace: str | None, name: str, *, uid: str = "", grace_s: int | None = None
    ) -> None:
        """Deletes the object, if it is there; with a `uid` only that very one."""
        body: Content = {"propagationPolicy": "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            await self._ask("DELETE", kind, namespace, name, body=body)
        except MissingFileError:
            return

    async def watch(
        self,
        kind: str,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: str = "",
    ) -> AsyncIterator[tuple[str, Content]]:
        """Every object as `("SYNC", …)`, then `("SYNCED", {})`, then each change, for ever.

        After a break it begins anew with SYNC, so whoever follows replaces what it knows at SYNCED.
        """
        while True:
            page = await self._ask("GET", kind, namespace, None, query=_selection(labels, fields))
            for item in page.get("items") or ():
                yield "SYNC", item
            yield "SYNCED", {}
            version = page["metadata"]["resourceVersion"]
            try:
                async for change in self._changes(kind, namespace, _selection(labels, fields), version):
                    yield change
            except (ExpiredError, OriginUnreachableError):
                await asyncio.sleep(1.0)

    async def read(self, path: str, what: str) -> Content:
        """The answer at a path that is no object's. `what` names the request in errors."""
        answer = await self._send("GET", path, what)
        return await _content(answer, what)

    async def may(self, verb: str, group: str, plural: str, namespace: str | None = None) -> bool:
        """True if the caller may do this with objects of a kind."""
        attributes = {"verb": verb, "group": group, "resource": plural, "namespace": namespace or ""}
        what = f"ask who may {verb} {plural}"
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = await _content(await self._send("POST", path, what, body=review), what)
        return bool((answer.get("status") or {}).get("allowed"))

    async def stream(
        self, path: str, what: str, query: Mapping[str, str], *, timeout_s: float = _ANSWER_S
    ) -> AsyncIterator[bytes]:
        """The pieces of an answer that is no JSON, as they come; `timeout_s` is for all of it, 0 for no end."""
        answer = await self._send("GET", path, what, query, timeout_s=timeout_s)
        try:
            async for piece in answer.content.iter_any():
                yield piece
        except (ClientError, TimeoutError) as error:
            raise OriginUnreachableError.of(f"{what}: the answer broke off") from error
        finally:
            answer.close()

    async def _changes(
        self, kind: str, namespace: str | None, query: dict[str, str], version: str
    ) -> AsyncIterator[tuple[str, Content]]:
        while True:
            asked = query | {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
            asked["timeoutSeconds"] = str(_WATCH_S)
            what = f"watch {kind}"
            begun_s = time.monotonic()
            answer = await self._send(
                "GET", self._resources[kind].path(namespace), what, asked, timeout_s=_WATCH_S + 30
            )
            try:
                async for line in _lines(answer):
                    change = json.loads(line)
                    if change["type"] == "ERROR":
                        raise fault_of(
                            change["object"].get("code", 500), json.dumps(change["object"]).encode(), what
                        )
                    version = change["object"]["metadata"]["resourceVersion"]
                    if change["type"] != "BOOKMARK":
                        yield change["type"], change["object"]
            except (ClientError, TimeoutError) as error:
                raise OriginUnreachableError.of(f"{what}: the connection broke off") from error
            except (json.JSONDecodeError, UnicodeDecodeError):
                raise _stranger(what) from None
            finally:
                answer.close()
            if time.monotonic() - begun_s < _SHORT_S:
                # A server that ends watches at once is not to be asked all the time.
                await asyncio.sleep(_SHORT_S)

    async def _ask(
        self,
        method: str,
        kind: str,
        namespace: str | None,
        name: str | None,
        subresource: str = "",
        *,
        query: Mapping[str, str] | None = None,
        body: Content | None = None,
        content_type: str = JSON_TYPE,
        about: Content | None = None,
    ) -> Content:
        path = self._resources[kind].path(namespace, name, subresource)
        named = name or (about or {}).get("metadata", {}).get("name", "")
        title = "/".join(each for each in (namespace, named) if each)
        what = " ".join(each for each in (_VERBS[method], kind, title, subresource) if each)
        answer = await self._send(method, path, what, query, body=body, content_type=content_type)
        return await _content(answer, what)

    async def _send(
        self,
        method: str,
        path: str,
        what: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Content | None = None,
        content_type: str = JSON_TYPE,
        timeout_s: float = _ANSWER_S,
    ) -> ClientResponse:
        try:
            headers = {"Accept": JSON_TYPE, "Content-Type": content_type}
            await self._api.update_params_for_auth(headers, [], ["BearerToken"])
            answer: ClientResponse = await self._api.rest_client.request(
                method,
                self._api.configuration.host + path,
                query_params=list((query or {}).items()),
                headers=headers,
                body=body,
                _preload_content=False,
                _request_timeout=timeout_s,
            )
        except (ClientError, TimeoutError, OSError) as error:
            # The text of such an error names the server and never a header.
            raise OriginUnreachableError.of(f"{what}: the API server does not answer: {error}") from error
        if answer.history:
            # The API server leads nowhere else; a pod behind its proxy may.
            answer.close()
            raise _stranger(what)
        if answer.status >= 400:
            raise fault_of(answer.status, await _fault_text(answer), what)
        return answer


_VERBS = {"GET": "read", "POST": "create", "PUT": "replace", "PATCH": "change", "DELETE": "delete"}


async def _fault_text(answer: ClientResponse) -> bytes:
    """The beginning of a refusal: behind the proxy of pods anybody may say what it likes, for as long as it likes."""
    said = bytearray()
    try:
        async for piece in answer.content.iter_any():
            said += piece
            if len(said) >= _LARGEST_FAULT_BYTES:
                break
    except (ClientError, TimeoutError):
        return b""
    finally:
        answer.close()
    return bytes(said[:_LARGEST_FAULT_BYTES])


async def _content(answer: ClientResponse, what: str) -> Content:
    try:
        return json.loads(await answer.read())  # type: ignore[no-any-return]
    except (ClientError, TimeoutError) as error:
        raise OriginUnreachableError.of(f"{what}: the answer broke off") from error
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise _stranger(what) from None


def _stranger(what: str) -> OriginUnreachableError:
    return OriginUnreachableError.of(
        f"{what}: the response is not from a Kubernetes API server", hint="check for a proxy in between"
    )


async def _lines(answer: ClientResponse) -> AsyncIterator[bytes]:
    """The lines of an answer, however long: an object may have a megabyte."""
    rest = b""
    async for piece in answer.content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line:
                yield line


def _selection(labels: Labels | None, fields: str) -> dict[str, str]:
    words = (key if value is None else f"{key}={value}" for key, value in (labels or {}).items())
    query = {"labelSelector": ",".join(words)} if labels else {}
    return query | ({"fieldSelector": fields} if fields else {})


def _names(content: Content) -> tuple[str, str | None, str]:
    metadata = content["metadata"]
    return content["kind"], metadata.get("namespace"), metadata["name"]
