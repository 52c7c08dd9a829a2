"""The topology as a Mininet network: nodes, links and the management network, without any daemons."""

from __future__ import annotations

from pathlib import Path

from mininet.link import TCLink
from mininet.log import info, warn
from mininet.net import Mininet
from mininet.node import Node

from leftovers import end_processes
from management import Management
from nodes import ControllerNode, DataInterface, WorkerHost, namespace, prepare
from switches import ProgrammableSwitch
from topology import Topology

CONTROLLER = "c0"
BITS_PER_MBIT = 1_000_000
# The number of full-size frames that can wait at the sending end of a link before more are dropped.
QUEUE_FRAMES = 512
FRAME_BYTES = 1514


class Network:
    """The network. Every node has its own network namespace, also the controller and the switches.

    It adds nothing to the machine's own network, so several of these networks do not interfere with each other.
    """

    def __init__(self) -> None:
        # Without a topology, Mininet builds nothing itself.
        self.mininet = Mininet(topo=None, controller=None, build=False)
        self.management: Management  # Made by `build`.
        self._namespaces: set[int] = set()

    def build(
        self, topology: Topology, kind: type[ProgrammableSwitch], rate: float | None, binary: Path, folder: Path
    ) -> None:
        """Makes the network. A `rate`, in Mbit/s, replaces the rate of every link."""
        net = self.mininet
        info("*** Nodes: ")
        controller = self._add(net.addController(CONTROLLER, ControllerNode, inNamespace=True))
        self.management = Management(controller)
        for switch in topology.switches:
            arguments = {"device_id": switch.id, "binary": binary, "folder": folder}
            node = self._add(net.addSwitch(switch.name, cls=kind, **arguments))
            self.management.attach(node)
            node.address = self.management.address(node)
        for host in topology.hosts:
            node = self._add(net.addHost(host.name, cls=WorkerHost, ip=host.address, mac=host.mac))
            self.management.attach(node)
        info("\n*** Links: ")
        self._connect(topology, rate)
        info("\n*** Addresses: ")
        net.build()

    def _add(self, node: Node) -> Node:
        info(f"{node.name} ")
        self._namespaces.add(namespace(node))
        prepare(node)
        return node

    def _connect(self, topology: Topology, rate: float | None) -> None:
        macs = {host.name: host.mac for host in topology.hosts}
        for link in topology.links:
            first, second = link.ends
            info(f"{first.interface}–{second.interface} ")
            options = {f"addr{place}": macs[end.node] for place, end in enumerate(link.ends, 1) if end.node in macs}
            self.mininet.addLink(
                first.node,
                second.node,
                port1=first.port,
                port2=second.port,
                cls=TCLink,
                cls1=DataInterface,
                cls2=DataInterface,
                intfName1=first.interface,
                intfName2=second.interface,
                **_shaping(link.rate / BITS_PER_MBIT if rate is None else rate),
                **options,
            )

    def remove(self) -> None:
        """Removes the network, also if only a part of it was made.

        This does not use `Mininet.stop`, which deletes the links one by one in the nodes' shells, and fails if a shell
        waits for an interrupted command. Links disappear with their namespaces.
        """
        net = self.mininet
        for terminal in net.terms:
            terminal.kill()
        for node in [*net.controllers, *net.switches, *net.hosts]:
            node.terminate()
        end_processes(self._namespaces)


def _shaping(mbit: float) -> dict:
    """Returns TCLink's options for a rate in Mbit/s, if Mininet can shape that rate.

    They select a token bucket. With Mininet's alternative, HTB, `tc` warns about every link, and the queue counts
    packets of any size.
    """
    if mbit > DataInterface.bwParamMax:
        warn(f"(no rate limit: Mininet cannot shape {mbit:.0f} Mbit/s) ")
        return {}
    bits = 8 * QUEUE_FRAMES * FRAME_BYTES
    return {"bw": mbit, "use_tbf": True, "latency_ms": 1000 * bits / (mbit * BITS_PER_MBIT)}
