"""Accepts BMv2's command line, and runs Tributary's switch with these options.

Programs that start simple_switch_grpc, such as p4lang's tutorials, can start this switch without a change. Options for
BMv2's internals are accepted and do nothing. Options that this switch cannot support are an error.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path

from binary import find_binary
from problem import Problem

NAME = "simple_switch_grpc"
DEFAULT_SERVER = "0.0.0.0:9559"
# The only port number that drops packets.
DROP_PORT = 511
# Endings of the P4Info file beside FILE.json; p4lang's tutorials write the first.
P4INFO_ENDINGS = (".p4.p4info.txtpb", ".p4info.txtpb", ".p4.p4info.txt", ".p4info.txt")

# Options of BMv2 that have no meaning here, without and with a value.
IGNORED_FLAGS = ("--log-flush", "--debugger", "--disable-swap", "--enable-swap")
IGNORED_OPTIONS = (
    "--thrift-port",
    "--nanolog",
    "--notifications-addr",
    "--debugger-addr",
    "--log-level",
    "--log-file-max-size",
    "--log-file-max-files",
    "--dump-packet-data",
    "--max-port-count",
    "--priority-queues",
)
# Options of BMv2 that cannot be ignored.
REFUSED_FLAGS = ("--grpc-server-ssl", "--grpc-server-with-client-auth")
REFUSED_OPTIONS = (
    "--restore-state",
    "--packet-in",
    "--load-modules",
    "--grpc-server-cacert",
    "--grpc-server-cert",
    "--grpc-server-key",
)


class Refuse(argparse.Action):
    """Refuses an option that is not supported."""

    def __call__(self, parser: argparse.ArgumentParser, _namespace: object, _values: object, option: str | None) -> None:
        parser.error(f"{option} is not supported by Tributary's switch")


def arguments(words: list[str]) -> argparse.Namespace:
    """Parses BMv2's command line; wrong use ends with exit status 2."""
    parser = argparse.ArgumentParser(
        prog=NAME,
        description="Tributary's switch, with the command line of BMv2's simple_switch_grpc.",
        usage="%(prog)s [options] [FILE.json] [-- target options]",
        allow_abbrev=False,
    )
    parser.add_argument("program", nargs="?", type=Path, metavar="FILE.json", help="the program that p4c made")
    parser.add_argument("-i", "--interface", action="append", default=[], type=port, metavar="PORT@INTERFACE")
    parser.add_argument("--device-id", type=int, default=0, metavar="ID", help="P4Runtime device id [0]")
    parser.add_argument("--no-p4", action="store_true", help="start without a program")
    parser.add_argument("--pcap", nargs="?", const=".", metavar="FOLDER", help="record each interface")
    parser.add_argument("--use-files", metavar="SECONDS", help="ports are INTERFACE_in.pcap and INTERFACE_out.pcap")
    parser.add_argument("--log-console", action="store_true", help="log the path of each packet to standard output")
    parser.add_argument("--log-file", metavar="FILE", help="log the path of each packet to FILE.txt")
    parser.add_argument("-L", dest="log_level", help=argparse.SUPPRESS)
    # BMv2 takes these after "--".
    parser.add_argument("--grpc-server-addr", default=DEFAULT_SERVER, metavar="ADDR:PORT", help=f"[{DEFAULT_SERVER}]")
    parser.add_argument("--cpu-port", type=int, metavar="PORT", help="port to the controller")
    parser.add_argument("--drop-port", type=int, default=DROP_PORT, metavar="PORT", help=f"must be {DROP_PORT}")
    for options, settings in [
        (IGNORED_FLAGS, {"action": "store_true"}),
        (IGNORED_OPTIONS, {}),
        (REFUSED_FLAGS, {"action": Refuse, "nargs": 0}),
        (REFUSED_OPTIONS, {"action": Refuse}),
    ]:
        for option in options:
            parser.add_argument(option, help=argparse.SUPPRESS, **settings)
    args = parser.parse_args([word for word in words if word != "--"])
    # The folder of --pcap is optional, also if the program follows.
    if args.program is None and args.pcap is not None and args.pcap.endswith(".json"):
        args.program, args.pcap = Path(args.pcap), "."
    if args.drop_port != DROP_PORT:
        parser.error(f"--drop-port: Tributary's switch drops packets to port {DROP_PORT} only")
    if not args.interface:
        parser.error("the switch has no ports: give -i PORT@INTERFACE")
    if args.program is None and not args.no_p4:
        parser.error("give the program that p4c made, FILE.json, or --no-p4 to wait for a controller's")
    return args


def port(text: str) -> tuple[int, str]:
    """Parses a port's number and interface."""
    number, at, interface = text.partition("@")
    if not at or not interface:
        raise ValueError
    return int(number), interface


def p4info_of(program: Path) -> Path | None:
    """Returns the P4Info file that p4c has written beside a program, if it exists."""
    stem = program.with_suffix("")
    candidates = [stem.with_name(stem.name + ending) for ending in P4INFO_ENDINGS]
    return next((path for path in candidates if path.is_file()), None)


def resolved(address: str) -> str:
    """Resolves the host name in an address."""
    host, _, number = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]") or None, number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise Problem(f"--grpc-server-addr {address}: {error}") from error
    family, *_, socket_address = found[0]
    host, number = socket_address[:2]
    return f"[{host}]:{number}" if family == socket.AF_INET6 else f"{host}:{number}"


def command(args: argparse.Namespace, binary: Path) -> list[str]:
    """Returns the command line of `tributary switch`."""
    # The first port of a Mininet switch s1 is s1-eth1.
    name = args.interface[0][1].partition("-")[0]
    words = [str(binary), "switch", "--name", name, "--device-id", str(args.device_id)]
    words += ["--p4runtime", resolved(args.grpc_server_addr)]
    for number, interface in args.interface:
        link = interface if args.use_files is None else f"pcap:{interface}_in.pcap,{interface}_out.pcap"
        words += ["--port", f"{number}={link}"]
    if args.program is not None and (p4info := p4info_of(args.program)):
        words += ["--program", str(args.program), "--p4info", str(p4info)]
    if args.cpu_port is not None:
        words += ["--cpu-port", str(args.cpu_port)]
    if args.pcap is not None and args.use_files is None:
        words += ["--pcap", args.pcap]
    if args.log_console or args.log_file:
        words += ["--log-packets"]
    return words


def main() -> int:
    """Executes `tributary switch` in this process; returns only after a failure."""
    args = arguments(sys.argv[1:])
    try:
        words = command(args, find_binary())
    except Problem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    if args.program is not None and "--program" not in words:
        beside = args.program.with_suffix(P4INFO_ENDINGS[1])
        print(
            f"{NAME}: there is no P4Info beside {args.program}, so the switch waits for a program from a controller:"
            f" `p4c-bm2-ss --p4runtime-files {beside}` writes the P4Info",
            file=sys.stderr,
        )
    if args.log_file:
        # BMv2 also adds this suffix.
        with open(f"{args.log_file}.txt", "ab") as log:
            os.dup2(log.fileno(), sys.stdout.fileno())
    sys.stderr.flush()
    os.execv(words[0], words)


if __name__ == "__main__":
    sys.exit(main())
