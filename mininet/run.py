#!/usr/bin/python3
"""Runs Tributary on a Mininet network: see README.md in this folder."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path

from binary import REPOSITORY, find_binary
from problem import Problem, Stopped

# BMv2 is slower, so its tensor is smaller.
DEFAULT_SIZES = {"softswitch": "16MiB", "bmv2": "1MiB"}
# The programs that Mininet and these scripts call, with their Debian packages.
TOOLS = {"ip": "iproute2", "tc": "iproute2", "ethtool": "ethtool", "ifconfig": "net-tools", "ping": "iputils-ping"}


def arguments() -> argparse.Namespace:
    """Parses the command line; wrong use ends with exit status 2."""
    parser = argparse.ArgumentParser(
        prog="mininet/run.py",
        description="Runs Tributary on a topology in Mininet, and opens Mininet's prompt. Needs root.",
        allow_abbrev=False,
    )
    parser.add_argument("--switch", choices=DEFAULT_SIZES, default="softswitch", help="kind of the switches")
    default = REPOSITORY / "topologies/three-tier-8.toml"
    parser.add_argument("--topology", type=Path, default=default, metavar="FILE", help="default: three-tier-8")
    parser.add_argument("--rate", type=rate, metavar="MBIT", help="Mbit/s of every link [the topology's]")
    parser.add_argument("--run", action="store_true", help="ping, TCP, an all-reduce, the counters; then end")
    parser.add_argument("--cli", action="store_true", help="open the prompt after --run")
    parser.add_argument("--size", type=size, metavar="BYTES", help="size of --run's tensor [16MiB; with bmv2: 1MiB]")
    parser.add_argument("--iterations", type=count, metavar="N", default=1, help="all-reduces of --run [1]")
    parser.add_argument("--json", action="store_true", help="print --run's results as one JSON object")
    parser.add_argument("--binary", type=Path, metavar="PATH", help="tributary [target/release/, or the PATH's]")
    args = parser.parse_args()
    if not args.run and (args.json or args.size):
        parser.error("--json and --size are for --run")
    return args


def size(text: str) -> str:
    """Checks a tensor's size, in the form of `tributary allreduce`."""
    if not re.fullmatch(r"[0-9.]+ ?([kmgt]i?)?b?", text, re.IGNORECASE):
        raise ValueError
    return text


def rate(text: str) -> float:
    """Parses a link's rate."""
    if not (mbit := float(text)) > 0:
        raise ValueError
    return mbit


def count(text: str) -> int:
    """Parses a count."""
    if not (number := int(text)) > 0:
        raise ValueError
    return number


def check_machine() -> None:
    """Checks that the machine has root, Mininet, and the programs that it needs."""
    if os.geteuid() != 0:
        raise Problem("Mininet needs root, to make network namespaces: use sudo")
    if importlib.util.find_spec("mininet") is None or importlib.util.find_spec("mininet.net") is None:
        raise Problem(
            f"{sys.executable} has no Mininet: install Debian's package with `apt-get install"
            " --no-install-recommends mininet`, and run this with /usr/bin/python3"
        )
    for tool, package in {**TOOLS, "mnexec": "mininet"}.items():
        if shutil.which(tool) is None:
            raise Problem(f"cannot find `{tool}` on the PATH: install it with `apt-get install {package}`")


def stop_by_signal(_number: int, _frame: object) -> None:
    """Raises an exception, so that the fabric removes everything."""
    raise Stopped


def work(args: argparse.Namespace) -> None:
    """Runs the network with the options of the command line."""
    check_machine()
    binary = find_binary(args.binary)
    # The nodes' shells find the binary by its name on the PATH.
    os.environ["PATH"] = f"{binary.parent}{os.pathsep}{os.environ['PATH']}"

    # These modules need Mininet, so they are imported after the check.
    from mininet.log import setLogLevel

    import report
    from fabric import Fabric
    from prompt import Prompt
    from switches import KINDS
    from topology import load

    setLogLevel("info")
    kind = KINDS[args.switch]
    kind.check()
    with Fabric(load(binary, args.topology.resolve()), kind, args.rate, binary) as fabric:
        fabric.start()
        if args.run:
            tensor = args.size or DEFAULT_SIZES[args.switch]
            results = {"switch": args.switch, **report.measure(fabric, tensor, args.iterations)}
            print(
                json.dumps(results) if args.json else report.text(results, fabric.run_tributary("counters")), flush=True
            )
        if args.cli or not args.run:
            Prompt(fabric)


def main() -> int:
    """Runs the program; returns exit status 1 after a failure."""
    args = arguments()
    signal.signal(signal.SIGTERM, stop_by_signal)
    try:
        work(args)
    except Problem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, Stopped):
        print("error: stopped by a signal", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
