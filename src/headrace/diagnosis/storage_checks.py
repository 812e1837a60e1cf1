"""The check that a storage can be used from here. Pure: it decides by facts alone."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.diagnosis.findings import Finding, fault, good, note
from headrace.diagnosis.storage_facts import ListFacts, NetworkFacts

_REFUSED_AHEAD_S = 900.0
"""S3 refuses requests whose time differs by more than 15 minutes."""
_WRONG_AHEAD_S = 60.0
_DAY_S = 24 * 3600.0
_SOON_DAYS = 14.0
_TIME = "have the clock set: timedatectl set-ntp true, or chrony"


def check_network(label: str, facts: NetworkFacts, now_s: float) -> Iterator[Finding]:
    """Name, connection, TLS and clock of one origin."""
    yield _name(label, facts)
    if facts.addresses:
        yield _connection(label, facts)
    if facts.tls_fault or facts.tls:
        yield _tls(label, facts, now_s)
    if facts.clock_ahead_s is not None:
        yield _clock(label, facts.clock_ahead_s)


def check_list(label: str, facts: ListFacts) -> Finding:
    """The check that it lists."""
    if not facts.fault:
        return good(f"list of {label}", "can be read")
    remedy = facts.hint or _LIST_REMEDIES.get(facts.kind, "see docs/troubleshooting.md")
    return fault(f"list of {label}", facts.fault, remedy)


_LIST_REMEDIES = {
    "PermissionDenied": "give these credentials the right to list the bucket (s3:ListBucket) and to read objects",
    "NotFound": "check the names of bucket and folder",
    "Unreachable": "check endpoint, proxies and firewalls",
    "Timeout": "check endpoint, proxies and firewalls",
    "Throttled": "the storage asks for time: ask again later, or raise its limits",
}


def _name(label: str, facts: NetworkFacts) -> Finding:
    place = facts.place
    host = place.proxy.rpartition(":")[0] if place.proxy else place.host
    role = f"the proxy of {place.host}, {host}," if place.proxy else host
    if facts.name_fault:
        remedy = "check the endpoint, and /etc/resolv.conf"
        if not place.proxy and place.scheme != "nfs":
            remedy += "; a server that knows no names of buckets wants --option path-style=true"
        return fault(f"name of {label}", f"{role} has no address: {facts.name_fault}", remedy)
    return good(f"name of {label}", f"{role} is {', '.join(facts.addresses)}")


def _connection(label: str, facts: NetworkFacts) -> Finding:
    check, refused = f"connection to {label}", facts.refused or {}
    said = ", ".join(f"{address} {word}" for address, word in refused.items())
    port = facts.place.proxy.rpartition(":")[2] if facts.place.proxy else facts.place.port
    if len(refused) == len(facts.addresses):
        remedy = "check that the server runs, its port, firewalls and security groups, and NO_PROXY"
        return fault(check, f"port {port}: {said}", remedy)
    if refused:
        text = f"port {port}: some addresses take none: {said}"
        return note(check, text, "requests that meet them wait; have the name lead only to what works")
    return good(check, f"port {port} is open")


def _tls(label: str, facts: NetworkFacts, now_s: float) -> Finding:
    check = f"TLS of {label}"
    if facts.tls_fault:
        remedy = "put the authority into the machine's (update-ca-certificates), or name it in SSL_CERT_FILE"
        return fault(check, f"{facts.place.host}: {facts.tls_fault}", remedy)
    if facts.certificate_ends_s is None:
        return good(check, facts.tls)
    days = (facts.certificate_ends_s - now_s) / _DAY_S
    if days < _SOON_DAYS:
        return note(
            check, f"{facts.tls}; the certificate ends in {days:.0f} days", "have the server get another one"
        )
    return good(check, f"{facts.tls}, certificate for {days:.0f} days")


def _clock(label: str, ahead_s: float) -> Finding:
    check = f"clock beside {label}"
    way = f"{abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} that of the storage"
    if abs(ahead_s) > _REFUSED_AHEAD_S:
        return fault(check, f"this machine's is {way}: signed requests are refused", _TIME)
    if abs(ahead_s) > _WRONG_AHEAD_S:
        return note(check, f"this machine's is {way}", _TIME)
    return good(check, "agrees with that of the storage")
