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
    """Every node, the controller's and the switches' too, is in a network namespace of its own: nothing is added to
    the machine's own network, and several of these do not meet."""

    def __init__(self) -> None:
        # Without a topology, Mininet builds nothing on its own.
        self.mininet = Mininet(topo=None, controller=None, build=False)
        self.management: Management  # Made by `build`.
        self._namespaces: set[int] = set()

    def build(
        self, topology: Topology, kind: type[ProgrammableSwitch], rate: float | None, binary: Path, folder: Path
    ) -> None:
        """Makes the network. `rate`, in Mbit/s, replaces the rate of every link."""
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
        """Removes everything, however much of it was made.

        This does not use `Mininet.stop`, which asks the nodes' shells to delete the links one by one, and cannot when a
        shell waits for a command that was interrupted. Links go with their namespaces.
        """
        net = self.mininet
        for terminal in net.terms:
            terminal.kill()
        for node in [*net.controllers, *net.switches, *net.hosts]:
            node.terminate()
        end_processes(self._namespaces)


def _shaping(mbit: float) -> dict:
    """TCLink's options for a link of this many Mbit/s, if Mininet can shape that rate.

    It uses a token bucket: Mininet's alternative, HTB, makes `tc` warn about every link, and its queue counts packets
    of any size.
    """
    if mbit > DataInterface.bwParamMax:
        warn(f"(no limit: {mbit:.0f} Mbit/s is more than Mininet can shape) ")
        return {}
    bits = 8 * QUEUE_FRAMES * FRAME_BYTES
    return {"bw": mbit, "use_tbf": True, "latency_ms": 1000 * bits / (mbit * BITS_PER_MBIT)}
