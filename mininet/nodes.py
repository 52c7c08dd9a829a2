"""Settings and types of all nodes and links of the network, independent of their programs."""

from __future__ import annotations

import os
import subprocess

from mininet.link import TCIntf
from mininet.node import Controller, Host, Node

from daemon import start_at
from problem import Problem

# IPv6 would send router solicitations and neighbour discoveries. Without forwarding, no node routes between the data and
# the management network.
SYSCTLS = {
    "/proc/sys/net/ipv6/conf/default/disable_ipv6": 1,
    "/proc/sys/net/ipv6/conf/all/disable_ipv6": 1,
    "/proc/sys/net/ipv4/ip_forward": 0,
}
# TCIntf switches off gro, tx and rx. With the following offloads, too, a switch, which reads raw frames, would get frames
# longer than the MTU.
MORE_OFFLOADS = ["sg", "tso", "gso"]


def run_script(node: Node, script: str) -> None:
    """Runs a shell script at a node; raises a `Problem` if it fails."""
    process = start_at(node, ["sh", "-ec", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _, errors = process.communicate()
    if process.returncode != 0:
        raise Problem(f"cannot set up {node.name}: {errors.strip()}")


def prepare(node: Node) -> None:
    """Applies the settings of every node, before it has any interface."""
    lines = [f"test ! -e {path} || echo {value} > {path}" for path, value in SYSCTLS.items()]
    run_script(node, "\n".join([*lines, "ip link set dev lo up"]))


def namespace(node: Node) -> int:
    """Returns the inode of the node's network namespace, which identifies it."""
    return os.stat(f"/proc/{node.pid}/ns/net").st_ino


class DataInterface(TCIntf):
    """An interface of the data network, with a rate, and without offloads that merge frames."""

    def config(self, **params: object) -> object:
        """Called by Mininet when the interface is made."""
        result = super().config(gro=False, txo=False, rxo=False, **params)
        run_script(self.node, f"ethtool -K {self} " + " ".join(f"{offload} off" for offload in MORE_OFFLOADS))
        return result


class WorkerHost(Host):
    """A host whose shell has the variables of `tributary allreduce`, which then needs no options."""

    def set_variables(self, environment: dict[str, str]) -> None:
        """Sets variables of the host's shell."""
        for name, value in environment.items():
            self.cmd(f"export {name}={value}")


class ControllerNode(Controller):
    """The node of Tributary's controller, in a namespace of its own."""

    def checkListening(self) -> None:
        """Does nothing: Mininet would search an OpenFlow controller, which this namespace does not have."""

    def start(self) -> None:
        """Does nothing: the fabric starts the daemon after its switches."""
