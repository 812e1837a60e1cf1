"""A new network is where nothing else is, also not behind something else."""

from __future__ import annotations

import subprocess
import sys

import pytest

_IN_A_NETWORK_OF_ITS_OWN = ("unshare", "--net", "sh", "-euc")
_PROGRAM = """
from headrace.netns.subnets import free_subnet
print(free_subnet(24, start=7), free_subnet(20, start=0), free_subnet(24, start=9))
"""


@pytest.mark.root
def test_what_this_machine_has_a_device_in_or_a_way_to_is_taken() -> None:
    script = f"""
        ip link add plug type veth peer name socket
        ip address add 198.18.7.254/24 dev plug
        ip link set socket up; ip link set plug up
        ip route add 198.18.8.0/24 via 198.18.7.1
        ip route add 198.18.10.5 via 198.18.7.1
        {sys.executable} -c '{_PROGRAM}'
    """
    done = subprocess.run([*_IN_A_NETWORK_OF_ITS_OWN, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["198.18.9.0/24", "198.18.16.0/20", "198.18.9.0/24"]
