"""Runs a Python program as a rank, in a process that the server forks. It behaves like `python PROGRAM ARGUMENT...`.

client.py FOLDER PROGRAM ARGUMENT...    FOLDER has the sockets of the servers, whose names are 0, 1, ...

Different ranks use different servers, as far as possible, so that their hash seeds differ.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from pathlib import Path


def main() -> int:
    servers = sorted(Path(sys.argv[1]).iterdir())
    request = {"command": sys.argv[2:], "environment": dict(os.environ), "folder": str(Path.cwd())}
    text = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(str(servers[int(os.environ["RANK"]) % len(servers)]))
        sent = socket.send_fds(server, [text], [0, 1, 2])
        server.sendall(text[sent:])
        server.shutdown(socket.SHUT_WR)
        answer = server.recv(4, socket.MSG_WAITALL)
    if len(answer) < 4:
        raise SystemExit("the fork server has ended")
    code = os.waitstatus_to_exitcode(*struct.unpack("i", answer))
    # For a signal, this is the exit status that shells give.
    return code if code >= 0 else 128 - code


sys.exit(main())
