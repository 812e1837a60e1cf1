"""Asks the supervisor: HTTP over its Unix socket, one connection a question. Beside the models of its messages it needs
the standard library alone: no store, no server, no event loop, so that a command is quick.
"""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, ValidationError

from headrace.errors import (
    EngineError,
    MissingFileError,
    OriginUnreachableError,
    RefusedError,
    UnsupportedError,
)
from headrace.local.layout import BackendLayout
from headrace.local.protocol import messages
from headrace.local.protocol.messages import Fault, Named
from headrace.trusted_folders import check_folder

_TIMEOUT_S = 60.0
_LARGEST_ANSWER_BYTES = 512 << 20
_M = TypeVar("_M", bound=BaseModel)


class LocalClient:
    """One backend. Every method raises `MissingFileError` when it is not up, and the supervisor's own errors."""

    def __init__(self, layout: BackendLayout) -> None:
        self._layout = layout

    def hello(self) -> messages.Hello:
        """The name and version of the supervisor. Raises `UnsupportedError` for another version of the protocol."""
        hello = self._ask("GET", "/v1/hello", messages.Hello)
        if (hello.magic, hello.version) != (messages.MAGIC, messages.VERSION):
            raise UnsupportedError.of(
                f"the supervisor speaks version {hello.version} of the protocol, and this program {messages.VERSION}",
                hint="headrace up, with the release that shall run",
            )
        return hello

    def status(self, *, timeout_s: float = _TIMEOUT_S) -> messages.BackendStatus:
        """How the backend does. Raises `OriginUnreachableError` when there is no answer for so long."""
        return self._ask("GET", "/v1/status", messages.BackendStatus, timeout_s=timeout_s)

    def declare(self, declaration: messages.Declaration) -> tuple[messages.Outcome, ...]:
        """Applies or creates objects."""
        return self._ask("POST", "/v1/declare", messages.Outcomes, declaration).outcomes

    def delete(
        self, objects: Iterable[Named], *, cascade: Literal["background", "orphan"] = "background"
    ) -> tuple[messages.Outcome, ...]:
        """Asks for deletions. An object whose outcome has a document is still there, until its finalizers are gone."""
        deletion = messages.Deletion(objects=tuple(objects), cascade=cascade)
        return self._ask("POST", "/v1/delete", messages.Outcomes, deletion).outcomes

    def scale(self, scaling: messages.Scaling) -> messages.Outcome:
        """Changes the replicas of a runtime."""
        return self._ask("POST", "/v1/scale", messages.Outcomes, scaling).outcomes[0]

    def patch(self, patch: messages.Patch) -> messages.Outcome:
        """Changes an object by a JSON merge patch."""
        return self._ask("POST", "/v1/patch", messages.Outcomes, patch).outcomes[0]

    def objects(
        self,
        kinds: Sequence[str],
        *,
        namespace: str | None = None,
        names: Sequence[str] = (),
        reveal_secrets: bool = False,
    ) -> messages.Listing:
        """Objects at one moment. Raises `MissingFileError` for a name that is not there."""
        query = _query(kinds, namespace, names) | ({"reveal": "1"} if reveal_secrets else {})
        return self._ask("GET", f"/v1/objects?{urlencode(query)}", messages.Listing)

    def watch(
        self,
        kinds: Sequence[str],
        *,
        since: int,
        namespace: str | None = None,
        names: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> Iterator[messages.Watched | None]:
        """Changes after a version, as they come; `None` when there are no more for now.

        Raises `TimeoutError` when for so long nothing was heard, `OriginUnreachableError` when the supervisor ends.
        """
        query = _query(kinds, namespace, names) | {"since": str(since)}
        for line in self._lines(f"/v1/watch?{urlencode(query)}", timeout_s):
            yield messages.Watched.model_validate_json(line) if line.strip() else None
        raise OriginUnreachableError.of("the supervisor has ended", hint="headrace up")

    def events(
        self, *, namespace: str | None = None, about: Named | None = None
    ) -> tuple[messages.EventLine, ...]:
        """The events; the latest last."""
        query = {"namespace": namespace or ""}
        if about is not None:
            query = {"kind": about.kind, "namespace": about.namespace, "name": about.name}
        return self._ask("GET", f"/v1/events?{urlencode(query)}", messages.EventLines).events

    def logs(self, role: str, *, tail: int | None, follow: bool) -> Iterator[bytes]:
        """The lines of a role's log."""
        query = {"role": role} | ({"tail": str(tail)} if tail is not None else {})
        return self._lines(f"/v1/logs?{urlencode(query | ({'follow': '1'} if follow else {}))}", None)

    def add_nodes(self, wish: messages.NodesWish) -> messages.BackendStatus:
        """More nodes, if there are fewer."""
        return self._ask("POST", "/v1/nodes", messages.BackendStatus, wish)

    def change_node(self, change: messages.NodeChange) -> messages.NodeLine:
        """Gives a node other labels, annotations or taints. Raises `MissingFileError` when it is not there."""
        return self._ask("POST", "/v1/node", messages.NodeLine, change)

    def begin_run(self, wish: messages.RunWish) -> messages.RunState:
        """Says that a program is about to use datasets."""
        return self._ask("POST", "/v1/runs", messages.RunState, wish)

    def run(self, run_id: str) -> messages.RunState:
        """How far it is."""
        return self._ask("GET", f"/v1/runs?{urlencode({'id': run_id})}", messages.RunState)

    def end_run(self, run_id: str) -> None:
        """Says that it will not begin."""
        self._ask("POST", "/v1/runs/end", messages.RunEnd, messages.RunEnd(id=run_id))

    def ask(
        self,
        method: str,
        path: str,
        answer: type[_M],
        message: BaseModel | None = None,
    ) -> _M:
        """Asks a question that has no method of its own here."""
        return self._ask(method, path, answer, message)

    def lines(self, path: str) -> Iterator[bytes]:
        """The lines of an answer, as they come."""
        return self._lines(path, None)

    def _ask(
        self,
        method: str,
        path: str,
        answer: type[_M],
        message: BaseModel | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> _M:
        connection = _Connection(self._layout, timeout_s)
        try:
            body = message.model_dump_json().encode() if message is not None else None
            response = self._response(connection, method, path, body)
            return answer.model_validate_json(response.read(_LARGEST_ANSWER_BYTES))
        except ValidationError:
            raise EngineError.of(
                "the supervisor's answer cannot be read", hint="is it of this release?"
            ) from None
        except TimeoutError:
            raise OriginUnreachableError.of(
                "the supervisor does not answer", hint=f"its log is {self._layout.log}"
            ) from None
        finally:
            connection.close()

    def _lines(self, path: str, timeout_s: float | None) -> Iterator[bytes]:
        connection = _Connection(self._layout, timeout_s)
        try:
            response = self._response(connection, "GET", path, None)
            while line := response.readline():
                yield line
        except (http.client.HTTPException, ConnectionError):
            return
        finally:
            connection.close()

    def _response(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> http.client.HTTPResponse:
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            response = connection.getresponse()
        except (FileNotFoundError, ConnectionError, http.client.HTTPException):
            raise _not_up() from None
        except RefusedError:
            raise
        except PermissionError:
            raise RefusedError.of(f"{self._layout.folder} is another user's") from None
        if response.status != http.client.OK:
            raise _fault_of(response.read(_LARGEST_ANSWER_BYTES)).as_error()
        return response


class _Connection(http.client.HTTPConnection):
    def __init__(self, layout: BackendLayout, timeout_s: float | None) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = str(layout.socket)

    def connect(self) -> None:
        """Connects to the socket. Raises `RefusedError` for one that another user could have put there."""
        check_folder(Path(self._path).parent)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _query(kinds: Sequence[str], namespace: str | None, names: Sequence[str]) -> dict[str, Any]:
    return {"kinds": ",".join(kinds), "namespace": namespace or "", "names": ",".join(names)}


def _fault_of(body: bytes) -> Fault:
    try:
        return Fault.model_validate_json(body)
    except ValidationError:
        return Fault(message="the supervisor refused the question", hint="is it of this release?")


def _not_up() -> MissingFileError:
    return MissingFileError.of("the local backend is not up", hint="headrace up --nodes 4")
