"""Cuts and repairs links of the data network, in the same way as `tributary lab cut`."""

from __future__ import annotations

from network import Network
from nodes import run_script
from problem import Problem
from topology import End, Link, Topology

# The destination of frames over a cut link: a bridge without ports at the sender. If nftables dropped the frames, the
# sender would get errors.
LOST = "lost0"
VOID = f"""
ip link show dev {LOST} >/dev/null 2>&1 || ip link add name {LOST} type bridge stp_state 0 mcast_snooping 0
ip link set dev {LOST} up
"""


class Links:
    """The links of a network, by their names."""

    def __init__(self, topology: Topology, network: Network) -> None:
        self._topology = topology
        self._network = network
        self._cut: list[Link] = []

    def cut(self, name: str) -> Link:
        """Cuts a link: frames of both directions are lost, and neither end gets an error."""
        link = self._find(name)
        if link in self._cut:
            raise Problem(f"link {name} is already cut: `repair` it first")
        self._cut.append(link)
        for end in link.ends:
            self._run(end, VOID, f'add rule netdev cut port{end.port} counter fwd to "{LOST}"')
        return link

    def repair(self, name: str) -> Link:
        """Repairs a link that was cut."""
        link = self._find(name)
        if link not in self._cut:
            raise Problem(f"link {name} is not cut: there is nothing to repair")
        for end in link.ends:
            self._run(end, "", f"delete chain netdev cut port{end.port}")
        self._cut.remove(link)
        return link

    def _run(self, end: End, before: str, then: str) -> None:
        hook = f'{{ type filter hook egress device "{end.interface}" priority -1; }}'
        rules = [
            "add table netdev cut",
            f"add chain netdev cut port{end.port} {hook}",
            f"flush chain netdev cut port{end.port}",
            then,
        ]
        script = "\n".join(rules)
        run_script(self._network.mininet.get(end.node), f"{before}nft -f - <<'END'\n{script}\nEND\n")

    def _find(self, name: str) -> Link:
        """Finds a link by its two nodes, such as leaf0-w3 or w3:leaf0, or by an interface at one end."""
        found = [link for link in self._topology.links if name in _names(link)]
        if len(found) == 1:
            return found[0]
        if found:
            known = ", ".join(link.ends[0].interface for link in found)
            raise Problem(f"{name} is the name of several links: give an interface at one end, such as {known}")
        known = ", ".join("-".join(end.node for end in link.ends) for link in self._topology.links)
        raise Problem(f"there is no link {name!r}: give one of {known}")


def _names(link: Link) -> list[str]:
    first, second = link.ends
    pairs = [(first.node, second.node), (second.node, first.node)]
    joined = [f"{one}{between}{other}" for one, other in pairs for between in "-:"]
    return [*joined, first.interface, second.interface]
