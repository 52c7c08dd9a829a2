"""The two kinds of switches. The controller installs the same P4 program on both, over P4Runtime."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

from mininet.node import Switch

from daemon import Daemon, start_at
from problem import Problem

P4RUNTIME_PORT = 9559
# The port to the controller: `CPU_PORT` in p4/include/constants.p4.
CPU_PORT = 510


class ProgrammableSwitch(Switch):
    """A switch in its own network namespace, with all interfaces of its node on the data network as ports.

    Its P4Runtime address is on the management network. `switch NAME stop` and `switch NAME start` in Mininet's prompt
    restart it; the controller then installs program and tables again.
    """

    def __init__(self, name: str, device_id: int, binary: Path, folder: Path, **_openflow: object) -> None:
        # Mininet requires an OpenFlow datapath id of every switch.
        super().__init__(name, dpid=f"{device_id:x}", inNamespace=True)
        self.controlIntf = None
        self.device_id = device_id
        self.binary = binary
        self.folder = folder
        self.daemon: Daemon | None = None
        # Set by `Network.build` after the connection to the management network.
        self.address = ""

    @classmethod
    def check(cls) -> None:
        """Checks that the switch's program is installed."""

    def command(self) -> list[str]:
        """Returns the command line of the switch's program."""
        raise NotImplementedError

    def data_ports(self) -> list[tuple[int, str]]:
        """Returns the numbers of the ports on the data network, with their interfaces."""
        return [(port, str(interface)) for port, interface in sorted(self.intfs.items())]

    def start(self, _controllers: list) -> None:
        """Starts the program, without waiting until it is ready. Mininet's prompt calls this, too."""
        if self.daemon is None:
            self.daemon = Daemon(self, self.name, self.command(), self.folder)
        elif self.daemon.has_ended():
            self.daemon.start_again()

    def wait_until_ready(self) -> None:
        """Waits until the switch accepts connections over P4Runtime."""
        if self.daemon is not None:
            self.daemon.wait_until_ready()

    def stop(self, deleteIntfs: bool = False) -> None:
        """Ends the program. Mininet's prompt calls this, too."""
        if self.daemon is not None:
            self.daemon.stop()
            self.daemon = None
        super().stop(deleteIntfs)


class SoftSwitch(ProgrammableSwitch):
    """Tributary's own switch."""

    def command(self) -> list[str]:
        command = [str(self.binary), "switch", "--name", self.name, "--device-id", str(self.device_id)]
        command += ["--p4runtime", f"{self.address}:{P4RUNTIME_PORT}"]
        for port, interface in self.data_ports():
            command += ["--port", f"{port}={interface}"]
        return command


class Bmv2Switch(ProgrammableSwitch):
    """BMv2's simple_switch_grpc. docs/bmv2.md has the reasons for its options."""

    PROGRAM = "simple_switch_grpc"

    @classmethod
    def check(cls) -> None:
        if shutil.which(cls.PROGRAM) is None:
            raise Problem(
                f"there is no {cls.PROGRAM} on the PATH: install BMv2 with its P4Runtime server, or use"
                " --switch softswitch"
            )

    def command(self) -> list[str]:
        command = [self.PROGRAM, "--no-p4", "--device-id", str(self.device_id)]
        if "--thrift-port" in self._help():
            command += ["--thrift-port", "0"]
        for port, interface in self.data_ports():
            command += ["-i", f"{port}@{interface}"]
        if "--notifications-addr" in self._help():
            # The default is in /tmp, and the same for all switches of the machine with the same device id.
            command += ["--notifications-addr", f"ipc://{self.folder}/{self.name}.ipc"]
        command += ["--", "--cpu-port", str(CPU_PORT)]
        return [*command, "--grpc-server-addr", f"{self.address}:{P4RUNTIME_PORT}"]

    @classmethod
    @functools.cache
    def _help(cls) -> str:
        """Returns BMv2's help text, which shows if it was built with nanomsg and Thrift."""
        return subprocess.run([cls.PROGRAM, "--help"], capture_output=True, text=True, check=False).stdout

    def wait_until_ready(self) -> None:
        """Waits until BMv2 accepts connections, because it does not report that it is ready."""
        if self.daemon is not None:
            self.daemon.wait_for(self._takes_connections)

    def _takes_connections(self, seconds: float) -> bool:
        connect = ["bash", "-c", f"exec 3<>/dev/tcp/{self.address}/{P4RUNTIME_PORT}"]
        probe = start_at(self, connect, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            # A closed port refuses at once, so wait before the next attempt.
            if probe.wait(seconds) == 0:
                return True
            if self.daemon is not None:
                self.daemon.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            probe.kill()
            probe.wait()
        return False


KINDS: dict[str, type[ProgrammableSwitch]] = {"softswitch": SoftSwitch, "bmv2": Bmv2Switch}
