"""Makes the measurements of `--run`, and formats their results."""

from __future__ import annotations

import json

from mininet.log import info

from fabric import JOB, Fabric
from traffic import ping_all, tcp

BITS_PER_MBIT = 1_000_000


def measure(fabric: Fabric, size: str, iterations: int) -> dict:
    """Runs pings, a TCP stream, and an all-reduce with every sum checked.

    Raises:
        Problem: one of them fails.
    """
    net = fabric.network.mininet
    ping = ping_all(net)
    info("*** TCP: ")
    stream = tcp(net.hosts[0], net.hosts[-1])
    info(f"{stream['client']} to {stream['server']}\n")
    info(f"*** All-reduce: {size} over {len(fabric.topology.workers)} hosts\n")
    options = ["--check", "--size", size, "--iterations", str(iterations)]
    return {
        "topology": fabric.topology.name,
        "ping": ping,
        "tcp": stream,
        "allreduce": fabric.allreduce(options),
        "counters": json.loads(fabric.run_tributary("counters", "--job", JOB, "--json")),
    }


def text(results: dict, counters: str) -> str:
    """Formats the results for users; `counters` is the table of `tributary counters`."""
    ping, stream = results["ping"], results["tcp"]
    return "\n".join(
        [
            f"ping        {ping['received']} of {ping['sent']} answered",
            f"TCP         {stream['client']} to {stream['server']}: {stream['bytes']} bytes intact,"
            f" {stream['bits_per_second'] / BITS_PER_MBIT:.1f} Mbit/s",
            "all-reduce",
            *allreduce_lines(results["allreduce"]),
            counters.rstrip(),
        ]
    )


def allreduce_lines(reports: list[dict]) -> list[str]:
    """Returns a line for each host."""
    return [_allreduce_line(report) for report in reports]


def _allreduce_line(report: dict) -> str:
    right = "every sum is right" if report["checked"] else "sums not checked (--check does)"
    rate = report["algorithm_bandwidth_bits_per_second"] / BITS_PER_MBIT
    return (
        f"  {report['host']:<10} rank {report['rank']}: {report['bytes']} bytes,"
        f" {report['iterations']} times, {report['seconds']['median'] * 1000:.1f} ms, {rate:.1f} Mbit/s,"
        f" {report['retransmissions']} retransmissions, {right}"
    )
