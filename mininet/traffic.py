"""Ordinary traffic between hosts through the switches: pings and a TCP stream."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mininet.net import Mininet
from mininet.node import Node

from commands import run_together
from daemon import start_at
from problem import Problem

STREAM = Path(__file__).with_name("stream.py")
TCP_PORT = 5001
TCP_BYTES = 1 << 20


def ping_all(net: Mininet) -> dict:
    """Runs pings between all pairs of hosts; returns the numbers of packets."""
    pairs = len(net.hosts) * (len(net.hosts) - 1)
    lost = round(net.pingAll() * pairs / 100)
    if lost != 0:
        raise Problem(f"{lost} of {pairs} pings between the hosts were lost: the data network does not work")
    return {"sent": pairs, "received": pairs - lost}


def tcp(client: Node, server: Node) -> dict:
    """Sends some bytes over TCP from one host to another, and checks that they arrive unchanged."""
    listen = [sys.executable, str(STREAM), "receive", server.IP(), str(TCP_PORT), str(TCP_BYTES)]
    receiver = start_at(server, listen, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert receiver.stdout is not None and receiver.stderr is not None, "they are pipes"
    try:
        if receiver.stdout.readline() != "listening\n":
            raise Problem(f"{server.name} cannot listen: {receiver.stderr.read().strip()}")
        send = [sys.executable, str(STREAM), "send", server.IP(), str(TCP_PORT), str(TCP_BYTES)]
        [seconds] = run_together({client: send})
        _, errors = receiver.communicate()
    finally:
        receiver.terminate()
        receiver.wait()
    if receiver.returncode != 0:
        raise Problem(f"TCP from {client.name} to {server.name}: {errors.strip()}")
    rate = 8 * TCP_BYTES / float(seconds)
    return {"client": client.name, "server": server.name, "bytes": TCP_BYTES, "bits_per_second": rate}
