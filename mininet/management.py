"""The management network: how the controller reaches switches and hosts, apart from the data network.

It is a bridge at the controller, and an interface `mgmt0` at every node. Mininet does not know about it, so that `net`,
`links` and `pingall` show only the topology's network.
"""

from __future__ import annotations

import ipaddress

from mininet.node import Node

from nodes import must

# Outside of the 10.0.0.0/16 that the hosts share.
SUBNET = ipaddress.ip_network("10.255.0.0/16")
INTERFACE = "mgmt0"


class Management:
    """The network and its addresses: the controller has the first one, and nodes the following ones."""

    def __init__(self, controller: Node) -> None:
        self._hub = controller
        self._free = SUBNET.hosts()
        self._addresses: dict[str, str] = {}
        address = self._take(controller)
        must(
            controller,
            # A bridge without an address of its own takes that of a port, and changes it when ports change.
            f"ip link add name {INTERFACE} address {mac(address)} type bridge stp_state 0 mcast_snooping 0\n"
            f"ip addr add {address}/{SUBNET.prefixlen} dev {INTERFACE}\n"
            f"ip link set dev {INTERFACE} up",
        )

    def attach(self, node: Node) -> None:
        """Connects a node."""
        address = self._take(node)
        port = f"m{len(self._addresses) - 1}"
        must(
            self._hub,
            f"ip link add name {port} type veth"
            f" peer name {INTERFACE} address {mac(address)} netns {node.pid}\n"
            f"ip link set dev {port} master {INTERFACE} up",
        )
        must(
            node,
            f"ip addr add {address}/{SUBNET.prefixlen} dev {INTERFACE}\nip link set dev {INTERFACE} up",
        )

    def address(self, node: Node) -> str:
        """A node's address on this network."""
        return self._addresses[node.name]

    def _take(self, node: Node) -> str:
        return self._addresses.setdefault(node.name, str(next(self._free)))


def mac(address: str) -> str:
    """A locally administered MAC address that no host derives from its own IP address."""
    return "02:ff:" + ":".join(f"{byte:02x}" for byte in ipaddress.ip_address(address).packed)
