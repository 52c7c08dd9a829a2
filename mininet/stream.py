"""Sends bytes over TCP from a host, or receives and compares them.

    stream.py receive ADDRESS PORT BYTES
    stream.py send ADDRESS PORT BYTES

The receiver prints "listening" when it is ready. When it has received all bytes unchanged, it answers with one byte. The
sender prints the seconds until this answer.
"""

from __future__ import annotations

import random
import socket
import sys
import time

# Both ends generate the same bytes.
SEED = 1
# The longest time that each end waits for the other.
PATIENCE_SECONDS = 60.0


def receive(address: tuple[str, int], content: bytes) -> None:
    """Accepts one connection and compares the bytes it receives."""
    with socket.create_server(address) as listener:
        listener.settimeout(PATIENCE_SECONDS)
        print("listening", flush=True)
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(PATIENCE_SECONDS)
            got = bytearray()
            while len(got) < len(content) and (piece := connection.recv(1 << 16)):
                got += piece
            if got != content:
                sys.exit(f"the {len(got)} bytes received are not the {len(content)} bytes sent")
            connection.sendall(b"!")


def send(address: tuple[str, int], content: bytes) -> None:
    """Connects, sends, and waits for the answer."""
    with socket.create_connection(address, PATIENCE_SECONDS) as connection:
        start = time.monotonic()
        connection.sendall(content)
        if connection.recv(1) != b"!":
            sys.exit("the receiver did not get the bytes that were sent")
        print(time.monotonic() - start)


if __name__ == "__main__":
    _, mode, host, port, count = sys.argv
    {"receive": receive, "send": send}[mode]((host, int(port)), random.Random(SEED).randbytes(int(count)))
