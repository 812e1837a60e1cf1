"""The name server of the test cluster answers for services and their pods, and says so when there are none."""

import socket
import struct
from ipaddress import IPv4Address

import pytest

from headrace.testing.kubernetes.names import Names, answer

SERVICES = "/api/v1/namespaces/ai/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/ai/endpointslices?labelSelector=kubernetes.io/service-name%3D"
OBJECTS = {
    f"{SERVICES}/web": {"spec": {"clusterIP": "198.19.1.20"}},
    f"{SERVICES}/train": {"spec": {"clusterIP": "None"}},
    f"{SERVICES}/empty": {"spec": {"clusterIP": "None"}},
    f"{SLICES}empty": {"items": []},
    f"{SLICES}train": {
        "items": [
            {
                "endpoints": [
                    {"addresses": ["198.19.8.2"], "hostname": "train-0", "conditions": {"ready": True}},
                    {"addresses": ["198.19.9.2"], "hostname": "train-1", "conditions": {"ready": True}},
                    {"addresses": ["198.19.9.3"], "hostname": "train-2", "conditions": {"ready": False}},
                ]
            }
        ]
    },
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web.ai.svc.cluster.local", ["198.19.1.20"]),
        ("WEB.ai.svc.cluster.local.", ["198.19.1.20"]),
        ("train.ai.svc.cluster.local", ["198.19.8.2", "198.19.9.2"]),
        ("train-1.train.ai.svc.cluster.local", ["198.19.9.2"]),
        ("train-2.train.ai.svc.cluster.local", None),
        ("train-0.web.ai.svc.cluster.local", None),
        ("empty.ai.svc.cluster.local", None),
        ("nothing.ai.svc.cluster.local", None),
        ("ai.svc.cluster.local", None),
        ("web.ai", None),
    ],
)
def test_names_of_services_and_of_ready_pods_have_addresses(name, expected):
    found = Names(OBJECTS.get).addresses(name)
    assert (found and [str(each) for each in found]) == expected


def _query(name: str, kind: int) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", 77, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, 1)


def test_an_answer_carries_the_question_and_its_addresses():
    reply = answer(_query("train.ai.svc.cluster.local", 1), Names(OBJECTS.get))
    number, flags, questions, answers, _, _ = struct.unpack_from("!6H", reply)
    assert (number, flags & 0x8000, flags & 0xF, questions, answers) == (77, 0x8000, 0, 1, 2)
    assert [socket.inet_ntoa(reply[-20:-16]), socket.inet_ntoa(reply[-4:])] == ["198.19.8.2", "198.19.9.2"]


def test_a_known_name_has_no_address_of_version_6_and_an_unknown_name_is_none():
    known = answer(_query("web.ai.svc.cluster.local", 28), Names(OBJECTS.get))
    unknown = answer(_query("nobody.ai.svc.cluster.local", 1), Names(OBJECTS.get))
    assert struct.unpack_from("!2H", known, 2)[0] & 0xF == 0
    assert struct.unpack_from("!H", known, 6)[0] == 0
    assert struct.unpack_from("!H", unknown, 2)[0] & 0xF == 3


def test_while_the_api_is_away_the_answer_is_a_failure_that_is_asked_again():
    def away(path: str) -> None:
        raise ConnectionRefusedError(path)

    reply = answer(_query("web.ai.svc.cluster.local", 1), Names(away))
    assert struct.unpack_from("!H", reply, 2)[0] & 0xF == 2


def test_addresses_of_a_cluster_never_overlap():
    from ipaddress import IPv4Network

    from headrace.testing.kubernetes.layout import MOST_NODES, Addresses

    addresses = Addresses(IPv4Network("198.18.16.0/20"))
    parts = [addresses.machines, addresses.services, *map(addresses.pods_of, range(1, MOST_NODES + 1))]
    assert all(part.subnet_of(addresses.subnet) for part in parts)
    assert not any(one.overlaps(other) for one in parts for other in parts if one is not other)
    machines = [addresses.host, addresses.control, *map(addresses.node, range(1, MOST_NODES + 1))]
    assert len(set(machines)) == len(machines)
    assert all(machine in addresses.machines for machine in machines)
    assert addresses.name_service in addresses.services
    assert IPv4Address("198.18.24.0") == addresses.pods_of(1).network_address
