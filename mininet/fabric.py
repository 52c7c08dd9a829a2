"""Tributary on a Mininet network: switches, controller, agents, and a job with its aggregation server."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from mininet.log import info
from mininet.node import Node

from commands import run_together
from daemon import Daemon, start_at
from links import Links
from network import CONTROLLER, Network
from problem import Problem
from switches import P4RUNTIME_PORT, ProgrammableSwitch
from topology import Topology

# The links' MTU in bytes: Mininet's own default.
MTU = 1500
CONTROLLER_PORT = 29810
JOB = "mininet"
# The port at which the ranks of a program meet, as with torchrun.
MASTER_PORT = 29500
# The time that the controller may take to detect that a repaired or restarted part is alive.
REVIVAL_SECONDS = "10"


class Fabric:
    """The network and all daemons. `with Fabric(…) as fabric` removes them at its end, also after errors."""

    def __init__(self, topology: Topology, kind: type[ProgrammableSwitch], rate: float | None, binary: Path) -> None:
        self.topology = topology
        self._kind = kind
        self._rate = rate
        self._binary = binary
        # The folder of sockets, logs and the job's token; made by `start`.
        self.folder = Path()
        self.network = Network()
        self.links = Links(topology, self.network)
        self._agents: list[Daemon] = []
        self._controller: Daemon | None = None
        self._server: Daemon | None = None

    def node(self, name: str) -> Node:
        """Returns a node of the network."""
        return self.network.mininet.get(name)

    def start(self) -> None:
        """Makes the network and starts all daemons; returns when the job waits for its workers."""
        server = self.topology.server
        self.folder = Path(tempfile.mkdtemp(prefix="tributary-mininet-"))
        self.network.build(self.topology, self._kind, self._rate, self._binary, self.folder)
        info("\n*** Switches: ")
        switches = self.network.mininet.switches
        for switch in switches:
            switch.start([])
        self._wait_for(switches)
        info("\n*** Controller and agents: ")
        self._controller = self._start("controller", CONTROLLER, self._controller_arguments())
        # An agent is ready when the controller has accepted it.
        self._agents = [self._start_agent(host) for host in self.topology.workers]
        self._wait_for([self._controller, *self._agents])
        info(f"\n*** Job {JOB}, server: {server}\n")
        self._create_job()
        self._set_host_variables()

    @staticmethod
    def _wait_for(daemons: Iterable[Daemon | Node]) -> None:
        for waited in daemons:
            waited.wait_until_ready()
            info(f"{waited.name} ")

    def kill(self, name: str) -> None:
        """Kills the daemon at a node (SIGKILL)."""
        self._daemon(name).kill()

    def start_again(self, name: str) -> None:
        """Starts the daemon at a node again with its first command, and waits until it is ready."""
        daemon = self._daemon(name)
        daemon.start_again()
        switches = {switch.name: switch for switch in self.network.mininet.switches}
        switches.get(name, daemon).wait_until_ready()

    def _daemon(self, name: str) -> Daemon:
        """Returns the daemon at a node: a switch, a worker's agent, the aggregation server or the controller."""
        daemons = {switch.name: switch.daemon for switch in self.network.mininet.switches}
        daemons |= dict(zip(self.topology.workers, self._agents, strict=True))
        daemons |= {self.topology.server: self._server, CONTROLLER: self._controller}
        daemon = daemons.get(name)
        if daemon is None:
            running = ", ".join(node for node, daemon in daemons.items() if daemon is not None)
            raise Problem(f"there is no daemon at {name!r}: give one of {running}")
        return daemon

    def _start(self, daemon: str, node: str, arguments: list[str]) -> Daemon:
        command = [str(self._binary), daemon, *arguments]
        return Daemon(self.node(node), f"{daemon}-{node}", command, self.folder)

    def _controller_arguments(self) -> list[str]:
        # The controller listens on all addresses of its namespace, so commands at c0 need no --controller.
        arguments = ["--listen", f"0.0.0.0:{CONTROLLER_PORT}", "--topology", str(self.topology.file)]
        # Mininet's links have this MTU, not the MTU of the topology.
        arguments += ["--mtu", str(MTU)]
        for switch in self.network.mininet.switches:
            arguments += ["--switch", f"{switch.name}={switch.address}:{P4RUNTIME_PORT}"]
        return arguments

    def _start_agent(self, host: str) -> Daemon:
        return self._start("agent", host, [*self._member_arguments(host), "--socket", str(self.socket(host))])

    def _member_arguments(self, host: str) -> list[str]:
        controller = f"{self.network.management.address(self.node(CONTROLLER))}:{CONTROLLER_PORT}"
        interface = str(self.node(host).defaultIntf())
        return ["--host", host, "--controller", controller, "--interface", interface]

    @property
    def token(self) -> Path:
        """The file with the job's token."""
        return self.folder / f"{JOB}.token"

    def socket(self, host: str) -> Path:
        """Returns the socket on which a host's agent listens for training processes."""
        return self.folder / f"{host}.sock"

    def _set_host_variables(self) -> None:
        workers = self.topology.workers
        for rank, host in enumerate(workers):
            self.node(host).set_variables(
                {
                    "TRIBUTARY_RANK": str(rank),
                    "TRIBUTARY_WORLD_SIZE": str(len(workers)),
                    "TRIBUTARY_JOB": JOB,
                    "TRIBUTARY_TOKEN_FILE": str(self.token),
                    "TRIBUTARY_SOCKET": str(self.socket(host)),
                    # The variables of torchrun, for programs that use them.
                    "RANK": str(rank),
                    "LOCAL_RANK": "0",
                    "WORLD_SIZE": str(len(workers)),
                    "LOCAL_WORLD_SIZE": "1",
                    "MASTER_ADDR": self.node(workers[0]).IP(),
                    "MASTER_PORT": str(MASTER_PORT),
                    "GLOO_SOCKET_IFNAME": str(self.node(host).defaultIntf()),
                    "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
                }
            )

    def run_tributary(self, *arguments: str) -> str:
        """Runs `tributary` at the controller's node; returns its output."""
        command = [str(self._binary), *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = start_at(self.node(CONTROLLER), command, **pipes)
        output, errors = process.communicate()
        if process.returncode != 0:
            raise Problem(errors.strip().removeprefix("error: "))
        return output

    def _create_job(self) -> None:
        # A token belongs to one job, and `jobs create` does not overwrite its file.
        self.token.unlink(missing_ok=True)
        self.run_tributary("jobs", "create", JOB, "--wait", REVIVAL_SECONDS, "--token-out", str(self.token))
        server = self.topology.server
        arguments = [*self._member_arguments(server), "--job", JOB, "--token-file", str(self.token)]
        if self._server is not None:
            self._server.stop()
        self._server = self._start("server", server, arguments)
        self._server.wait_until_ready()

    def renew_job(self) -> None:
        """Creates the job again if it is over, as after a failed command."""
        listed = json.loads(self.run_tributary("jobs", "list", "--json"))["jobs"]
        # Jobs may have the same name, and only the last of them can be alive.
        states = [job["state"] for job in listed if job["job"] == JOB]
        if not states or states[-1] in ("ended", "failed"):
            self._create_job()

    def allreduce(self, options: list[str]) -> list[dict]:
        """Runs an all-reduce on all workers at once; returns their reports in the order of ranks."""
        self.renew_job()
        command = [str(self._binary), "allreduce", "--json", "--job", JOB, "--token-file", str(self.token)]
        workers = self.topology.workers
        commands = {host: [*command, "--socket", str(self.socket(host)), *options] for host in workers}
        try:
            output = run_together({self.node(host): command for host, command in commands.items()})
        except BaseException:
            # Remaining workers must not take part in the next all-reduce.
            self.end_job()
            raise
        return [json.loads(report) for report in output]

    def end_job(self) -> None:
        """Ends the job, unless it is over."""
        # The controller refuses only a job that has already failed.
        with contextlib.suppress(Problem):
            self.run_tributary("jobs", "end", JOB, "--token-file", str(self.token))

    def __enter__(self) -> Fabric:
        return self

    def __exit__(self, *_exception: object) -> None:
        """Ends the members before the controller, which then removes its entries from the running switches."""
        for ending in (signal.SIGINT, signal.SIGTERM):
            # An interrupted clean-up would leave processes behind.
            signal.signal(ending, signal.SIG_IGN)
        info("*** Removing everything\n")
        try:
            members = [*self._agents, self._server, self._controller, *self.network.mininet.switches]
            for daemon in members:
                if daemon is not None:
                    daemon.stop()
        finally:
            self.network.remove()
            if self.folder.is_absolute():
                shutil.rmtree(self.folder)
