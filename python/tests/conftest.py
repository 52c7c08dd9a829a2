"""Fixtures of all tests: the binary, and labs in which programs run as ranks."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
FORK_SERVER = Path(__file__).parent / "forkserver"
FORK_SERVERS = 2
"""The number of servers. Ranks of one server have the same hash seed, which hides errors in the order of sets."""
PATIENCE = 300
"""Seconds that a command in a lab may take, even on a busy machine."""

Run = Callable[..., list[str]]


@pytest.fixture(scope="session")
def binary() -> Path:
    binary = Path(os.environ.get("TRIBUTARY_BINARY", ROOT / "target" / "debug" / "tributary"))
    if not binary.exists():
        pytest.skip(f"there is no {binary}: build it, or set TRIBUTARY_BINARY")
    return binary


@pytest.fixture(scope="session")
def bench(binary: Path) -> Path:
    """The program that measures, beside the binary."""
    bench = binary.with_name("tributary-bench")
    if not bench.exists():
        pytest.skip(f"there is no {bench}: build it")
    return bench


def in_job(
    options: list[str],
    start: Callable[..., subprocess.CompletedProcess[str]],
    lab: list[Any],
    file: Path,
    name: str,
    command: list[Any],
) -> subprocess.CompletedProcess[str]:
    """Creates a job with these options, and runs a command in it."""
    up = start([*lab, "up", file, "--name", name, "--no-rates"])
    try:
        assert up.returncode == 0, up.stderr
        with tempfile.TemporaryDirectory() as folder:
            token = Path(folder) / "token"
            create = ["tributary", "jobs", "create", "asked-for", *options, "--token-out", token]
            created = start([*lab, "exec", "--name", name, "controller", "--", *create])
            assert created.returncode == 0, created.stderr
            variables = ["env", "TRIBUTARY_JOB=asked-for", f"TRIBUTARY_TOKEN_FILE={token}"]
            return start([*lab, "run", "--name", name, "--", *variables, *command])
    finally:
        start([*lab, "down", name])


@pytest.fixture(scope="session")
def forked_python() -> Iterator[list[str]]:
    """Starts servers that fork the processes of ranks; returns the command that runs a program in such a process."""
    # A rank has one computing thread in a lab, and PyTorch reads this variable when it is imported.
    variables = {"OMP_NUM_THREADS": "1"} | os.environ
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        servers = []
        for number in range(FORK_SERVERS):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(f"{folder}/{number}")
            listener.listen()
            own = listener.fileno()
            command = [sys.executable, FORK_SERVER / "server.py", str(own)]
            # The server ends when Popen closes its standard input.
            servers.append(stack.enter_context(subprocess.Popen(command, **pipes, pass_fds=[own], env=variables)))
        # The ranks of the first test should start at the same time.
        assert [server.stdout.readline() for server in servers] == FORK_SERVERS * ["ready\n"]
        yield [sys.executable, "-IS", str(FORK_SERVER / "client.py"), folder]


@pytest.fixture(scope="session")
def run(binary: Path, request: pytest.FixtureRequest) -> Run:
    """Runs a program on all workers of a lab; returns the printed lines, each with its host's name.

    With several ranks a host, the number of the rank on its host follows the name, as in `w0/1`.

    A rank's process is forked from a process that has imported PyTorch, except with `own_interpreter`. That is the
    default with environment variables, because libraries read some of them when they are imported.
    """
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("ethtool") is None:
        pytest.skip("a lab needs root, iproute2 and ethtool")

    def run(
        program: str,
        *arguments: str,
        topology: str = "two-workers",
        ranks_per_host: int = 1,
        fails: bool = False,
        own_interpreter: bool | None = None,
        environment: dict[str, str] | None = None,
        job: list[str] | None = None,
    ) -> list[str]:
        lab, name = [binary, "lab"], f"py{os.getpid()}"
        file = ROOT / "topologies" / f"{topology}.toml"
        if own_interpreter is None:
            own_interpreter = environment is not None
        python = [sys.executable] if own_interpreter else request.getfixturevalue("forked_python")
        command = [*python, PROGRAMS / program, *arguments]
        variables = os.environ | (environment or {})
        start = partial(subprocess.run, capture_output=True, text=True, timeout=PATIENCE, check=False, env=variables)
        if job is None:
            options = ["--name", name, "--no-rates", "--ranks-per-host", str(ranks_per_host)]
            done = start([*lab, "run", file, *options, "--", *command])
        else:
            done = in_job(job, start, lab, file, name, command)
        output = done.stdout + done.stderr
        assert (done.returncode != 0) == fails, output
        return output.splitlines()

    return run
