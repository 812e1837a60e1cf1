"""Keeps the certificate: reads and writes its Secret, announces its authorities, and serves it.

`rotation` decides what to do. Every replica does this; the Secret's resourceVersion makes them agree.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from headrace.errors import HeadraceError, MissingFileError
from headrace.kube.faults import ConflictError
from headrace.webhook.admission_paths import AdmissionPaths, path_of
from headrace.webhook.certificate_rotation import (
    Kept,
    Rest,
    Rules,
    Seen,
    Step,
    data_of,
    next_step,
    read_kept,
    taken,
)
from headrace.webhook.certificates import Pair, make_pair
from headrace.webhook.serving_certificate import ServingContext

_log = logging.getLogger("headrace.webhook")

SECRET = "headrace-webhook-certificate"  # noqa: S105 - a name
_CONFIGURATION = "MutatingWebhookConfiguration"
_OF_DECLARED = "ValidatingWebhookConfiguration"
_OUR_HOLDS = (("Python", "Update"), ("headrace-webhook", "Update"))
"""Managers of fields by which an API server notes what we write: the first one by the name of our HTTP client."""
_RECONCILE_EVERY_S = 20.0
_AGAIN_S = 1.0

Content = dict[str, Any]


class Objects(Protocol):
    """The calls of a `KubeClient` that keeping needs."""

    async def get(self, kind: str, namespace: str | None, name: str) -> Content | None:
        """The object, or `None`."""

    async def replace(self, content: Content) -> Content:
        """Writes over what was read; `ConflictError` when it changed."""


@dataclass(frozen=True, slots=True)
class Place:
    """The Service that the webhook is reached by, and the name of the configurations that tell API servers of it."""

    service: str
    namespace: str
    configuration: str

    @property
    def names(self) -> tuple[str, ...]:
        """The DNS names of the certificate; API servers use the first."""
        short = f"{self.service}.{self.namespace}"
        return (f"{short}.svc", short, f"{short}.svc.cluster.local")


class CertificateKeeper:
    """Looks after the certificate of one replica. `now` goes into certificates, `monotonic` counts waits."""

    def __init__(
        self,
        objects: Objects,
        place: Place,
        serving: ServingContext,
        *,
        rules: Rules | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objects = objects
        self._place = place
        self._serving = serving
        self._rules = rules or Rules()
        # Every replica must look several times within the grace, or it serves what nobody believes any more.
        self._reconcile_every_s = min(_RECONCILE_EVERY_S, self._rules.grace_s / 4)
        self._now = now
        self._monotonic = monotonic
        self._announced: tuple[str, float] | None = None
        self._current: tuple[str, float] | None = None
        self._complaint = ""
        self._complaint_of_declared = ""
        self.paths = AdmissionPaths()
        """Where API servers may ask this replica."""

        self.is_announced = False
        """True once the API servers were told of an authority that we serve with."""

    async def reconcile(self) -> float:
        """Does what is to be done now; in how many seconds to do so again. Raises nothing of Headrace's errors."""
        try:
            seconds = await self._reconcile()
            self._complaint = ""
        except ConflictError:
            return _AGAIN_S  # another replica was faster
        except HeadraceError as error:
            if str(error) != self._complaint:
                _log.warning("certificate: %s", error)
            self._complaint = str(error)
            return _AGAIN_S if self._current is None else self._reconcile_every_s
        return seconds

    async def _reconcile(self) -> float:
        secret = await self._objects.get("Secret", self._place.namespace, SECRET)
        kept = read_kept(secret)
        # The path of the next pair is known long before any replica announces it.
        self.paths.learn((kept.current, kept.next))
        step = self._step(kept)
        # Else there is nothing that could be used, or it is about to be replaced.
        if kept.current is not None and step not in {Step.MAKE, Step.PROMOTE}:
            await self._use(kept.current, kept.bundle)
            step = self._step(kept)
        if isinstance(step, Rest):
            return min(max(step.seconds, _AGAIN_S), self._reconcile_every_s)
        await self._take(step, kept, secret)
        return 0.0

    def _step(self, kept: Kept) -> Step | Rest:
        now_s = self._monotonic()
        # What was seen of another bundle, or of another pair, says nothing of these.
        certificate = kept.current.certificate if kept.current else ""
        seen = Seen(
            announced_s=_age_s(self._announced, kept.bundle, now_s),
            current_s=_age_s(self._current, certificate, now_s) or 0.0,
        )
        return next_step(kept, frozenset(self._place.names), self._now(), seen, self._rules)

    async def _use(self, pair: Pair, bundle: str) -> None:
        """Announces the authorities first, then serves; a configuration that is not there keeps nobody from serving."""
        try:
            await self._announce(bundle, path_of(pair))
        finally:
            if self._current is None or self._current[0] != pair.certificate:
                self._current = (pair.certificate, self._monotonic())
            if self._serving.serve(pair):
                _log.info("certificate: new connections are served with another one")

    async def _announce(self, bundle: str, path: str) -> None:
        if self._announced and self._announced[0] != bundle:
            self._announced = None
        try:
            configuration = await self._objects.get(_CONFIGURATION, None, self._place.configuration)
            wanted = announced(configuration, self._place, bundle, path) if configuration else None
            if wanted is not None:
                configuration = await self._objects.replace(wanted)
                _log.info("%s %s: authorities announced", _CONFIGURATION, self._place.configuration)
            await self._disown(configuration)
        except HeadraceError:
            self._announced = None
            raise
        if configuration is None:
            self._announced = None
        elif self._announced is None or wanted is not None:
            self._announced = (bundle, self._monotonic())
            self.is_announced = True
        await self._announce_for_declared(bundle, path)

    async def _announce_for_declared(self, bundle: str, path: str) -> None:
        """The same where declared objects are asked about; pods come first, and wait for none of it."""
        try:
            configuration = await self._objects.get(_OF_DECLARED, None, self._place.configuration)
            wanted = announced(configuration, self._place, bundle, path) if configuration else None
            await self._disown(await self._objects.replace(wanted) if wanted is not None else configuration)
        except ConflictError:
            raise
        except HeadraceError as error:
            if str(error) != self._complaint_of_declared:
                _log.warning("certificate: declared objects are judged by the operator alone: %s", error)
            self._complaint_of_declared = str(error)

    async def _disown(self, configuration: Content | None) -> None:
        if configuration is not None and (left := disowned(configuration)) is not None:
            await self._objects.replace(left)

    async def _take(self, step: Step, kept: Kept, secret: Content | None) -> None:
        fresh = make_pair(self._place.names, self._now(), self._rules.life)
        data = data_of(taken(step, kept, fresh))
        if secret is None:
            # Who may make Secrets can make one that holds another account's token, so the webhook may not.
            raise MissingFileError.of(
                f"the Secret {self._place.namespace}/{SECRET} is not there; helm upgrade brings it back"
            )
        await self._objects.replace({**secret, "data": data})
        _log.info("certificate: %s", step.value)


def _age_s(noted: tuple[str, float] | None, what: str, now_s: float) -> float | None:
    return now_s - noted[1] if noted and noted[0] == what else None


def announced(configuration: Content, place: Place, bundle: str, path: str) -> Content | None:
    """The configuration with this bundle and path wherever it names our service; `None` when it is so already."""
    encoded = base64.b64encode(bundle.encode()).decode()
    before = configuration.get("webhooks") or []
    webhooks = [_believing(each, place, encoded, path) for each in before]
    return None if webhooks == before else {**configuration, "webhooks": webhooks}


def disowned(configuration: Content) -> Content | None:
    """The configuration, as nobody's own where we have written; `None` when that is so already.

    Helm applies on the server, and an older chart names the path: it would meet our hold on it, and fail to go back.
    """
    metadata = configuration["metadata"]
    entries = metadata.get("managedFields") or []
    others = [each for each in entries if (each.get("manager"), each.get("operation")) not in _OUR_HOLDS]
    if others == entries or not others:
        return None
    return {**configuration, "metadata": {**metadata, "managedFields": others}}


def _believing(webhook: Content, place: Place, encoded: str, path: str) -> Content:
    client = webhook.get("clientConfig") or {}
    service = client.get("service") or {}
    if (service.get("name"), service.get("namespace")) != (place.service, place.namespace):
        return webhook
    return {**webhook, "clientConfig": {**client, "caBundle": encoded, "service": {**service, "path": path}}}
