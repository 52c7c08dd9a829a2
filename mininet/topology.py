"""Reads a topology file with `tributary topology --json`.

So ids, ports, addresses and rates are the same as in all other parts of Tributary, and an error message about the file
has its line.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from problem import Problem

# The kernel's limit for the length of an interface name (IFNAMSIZ - 1).
MAX_INTERFACE_NAME = 15


@dataclass(frozen=True)
class Switch:
    """A switch. Its id is also the P4Runtime device id that the controller expects."""

    name: str
    id: int


@dataclass(frozen=True)
class Host:
    """A host. Its role is "worker", "server" or None, and its address includes the prefix length."""

    name: str
    role: str | None
    mac: str
    address: str


@dataclass(frozen=True)
class End:
    """One end of a link: a port of a node."""

    node: str
    port: int

    @property
    def interface(self) -> str:
        """The interface's name: `leaf0-eth3` is port 3 of `leaf0`. A long node name is truncated."""
        suffix = f"-eth{self.port}"
        return self.node[: MAX_INTERFACE_NAME - len(suffix)] + suffix


@dataclass(frozen=True)
class Link:
    """A full-duplex link; its rate is in bit/s."""

    ends: tuple[End, End]
    rate: int


@dataclass(frozen=True)
class Topology:
    """All nodes and links, in the file's order. A worker's rank is its index among the workers."""

    file: Path
    name: str
    switches: tuple[Switch, ...]
    hosts: tuple[Host, ...]
    links: tuple[Link, ...]

    @property
    def workers(self) -> list[str]:
        """The workers in the order of their ranks."""
        return [host.name for host in self.hosts if host.role == "worker"]

    @property
    def server(self) -> str:
        """The host of the aggregation server."""
        for host in self.hosts:
            if host.role == "server":
                return host.name
        raise Problem(f'{self.file}: no host has role = "server": the job needs one')


def load(binary: Path, file: Path) -> Topology:
    """Reads a topology file."""
    result = subprocess.run([binary, "topology", file, "--json"], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Problem(result.stderr.strip().removeprefix("error: "))
    network = json.loads(result.stdout)
    nodes = network["nodes"]
    return Topology(
        file=file,
        name=network["name"],
        switches=tuple(Switch(node["name"], node["id"]) for node in nodes if node["kind"] == "switch"),
        hosts=tuple(_host(node) for node in nodes if node["kind"] == "host"),
        links=tuple(_link(link) for link in network["links"]),
    )


def _host(node: dict) -> Host:
    return Host(node["name"], node["role"], node["mac"], f"{node['ip']}/{node['prefix_bits']}")


def _link(link: dict) -> Link:
    first, second = (End(end["node"], end["port"]) for end in link["ends"])
    return Link((first, second), link["rate"])
