"""The management network, by which the controller reaches switches and hosts.

It is separate from the data network: a bridge at the controller, and an interface `mgmt0` at every node. It is not in
Mininet's model, so `net`, `links` and `pingall` show only the data network.
"""

from __future__ import annotations

import ipaddress

from mininet.node import Node

from nodes import run_script

# This range is outside the hosts' 10.0.0.0/16.
SUBNET = ipaddress.ip_network("10.255.0.0/16")
INTERFACE = "mgmt0"


class Management:
    """The network and its addresses. The controller has the first address, and nodes the following ones."""

    def __init__(self, controller: Node) -> None:
        self._hub = controller
        self._free = SUBNET.hosts()
        self._addresses: dict[str, str] = {}
        address = self._take(controller)
        run_script(
            controller,
            # A bridge without a fixed MAC address takes the address of a port, and changes it when ports change.
            f"ip link add name {INTERFACE} address {mac(address)} type bridge stp_state 0 mcast_snooping 0\n"
            f"ip addr add {address}/{SUBNET.prefixlen} dev {INTERFACE}\n"
            f"ip link set dev {INTERFACE} up",
        )

    def attach(self, node: Node) -> None:
        """Connects a node."""
        address = self._take(node)
        port = f"m{len(self._addresses) - 1}"
        run_script(
            self._hub,
            f"ip link add name {port} type veth"
            f" peer name {INTERFACE} address {mac(address)} netns {node.pid}\n"
            f"ip link set dev {port} master {INTERFACE} up",
        )
        run_script(
            node,
            f"ip addr add {address}/{SUBNET.prefixlen} dev {INTERFACE}\nip link set dev {INTERFACE} up",
        )

    def address(self, node: Node) -> str:
        """Returns a node's address on this network."""
        return self._addresses[node.name]

    def _take(self, node: Node) -> str:
        return self._addresses.setdefault(node.name, str(next(self._free)))


def mac(address: str) -> str:
    """Returns a locally administered MAC address that no host derives from its own IP address."""
    return "02:ff:" + ":".join(f"{byte:02x}" for byte in ipaddress.ip_address(address).packed)
