"""Runs PyTorch's own tests of `torch.distributed` on the hosts of a lab, each test with its own job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

ROOT = Path(__file__).parents[3]
TOPOLOGIES = {2: "two-workers", 4: "two-leaves-4", 8: "leaf-spine-8"}
"""The lab for each number of hosts."""
LIMIT = 600.0
"""Seconds that a test may take."""
GRACE = 8.0
"""Seconds that the other ranks have to end after a rank has failed."""
START = 180.0
"""Seconds that a rank's process has to import PyTorch."""
PASSED, SKIPPED = "passed", "skipped"


@dataclass
class Result:
    """The outcome of a test."""

    test: str
    outcome: str
    """`passed`, `skipped`, or the failure of the first rank that failed."""
    seconds: float
    log: str = ""
    """The last lines of a rank that failed."""

    @property
    def has_failed(self) -> bool:
        """True if some rank has neither passed nor skipped the test."""
        return self.outcome not in (PASSED, SKIPPED)


@dataclass
class Rank:
    """The process of a rank, which forks a child for each test."""

    host: str
    process: subprocess.Popen[str]
    answers: Queue[dict[str, Any]] = field(default_factory=Queue)

    def read(self) -> None:
        """Puts the process's answers into the queue until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.put(json.loads(line))
        self.answers.put({"outcome": "the rank's process has ended", "pid": 0, "tests": []})

    def start_test(self, request: dict[str, Any]) -> int:
        """Starts a test; returns the pid of the child that runs it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        pid: int = self.answers.get(timeout=START)["pid"]
        return pid


class Suite:
    """The suite in a running lab."""

    def __init__(self, binary: Path, lab: str, ranks: list[Rank], folder: Path) -> None:
        self._lab = [str(binary), "lab"]
        self._name = lab
        self._ranks = ranks
        self._folder = folder
        self._count = 0
        names = [rank.answers.get(timeout=START)["tests"] for rank in ranks]
        self.tests: list[str] = names[0]
        """The names of all tests."""

    def run(self, test: str, backend: str, *, limit: float = LIMIT, before: Path | None = None) -> Result:
        """Runs one test on all ranks.

        Args:
            test: the test's name.
            backend: `tributary` or `gloo`.
            limit: seconds after which the test is killed and has failed.
            before: a file with Python that each rank runs before the test.
        """
        self._count += 1
        folder = self._folder / str(self._count)
        for name in ("barrier", "test_dir", "init_dir"):
            (folder / name).mkdir(parents=True)
        environment = {"TEMP_DIR": str(folder)}
        if backend == "tributary":
            environment |= self._job(folder)
        began = time.monotonic()
        request = {
            "test": test,
            "backend": backend,
            "environment": environment,
            "limit": limit,
            "before": str(before) if before else None,
        }
        logs = [folder / f"{index}.log" for index in range(len(self._ranks))]
        pids = [rank.start_test(request | {"log": str(log)}) for rank, log in zip(self._ranks, logs, strict=True)]
        outcomes = self._outcomes(pids, began + limit, limit)
        seconds = time.monotonic() - began
        if backend == "tributary":
            self._jobs("end", self._job_name, "--token-file", str(folder / "token"))
        failed = next((index for index, (outcome, _) in enumerate(outcomes) if outcome not in (PASSED, SKIPPED)), None)
        if failed is None:
            return Result(test, PASSED if (PASSED, True) in outcomes else SKIPPED, seconds)
        # Report the first rank that failed: the others fail because of it.
        for index, (outcome, is_first) in enumerate(outcomes):
            if is_first and outcome not in (PASSED, SKIPPED):
                failed = index
        log = logs[failed].read_text(errors="replace") if logs[failed].exists() else ""
        return Result(test, f"{self._ranks[failed].host}: {outcomes[failed][0]}", seconds, log)

    def _outcomes(self, pids: list[int], until: float, limit: float) -> list[tuple[str, bool]]:
        """Waits for all ranks; returns each outcome, with true unless another rank had failed before."""
        outcomes: dict[int, tuple[str, bool]] = {}
        has_failed = False
        while len(outcomes) < len(pids):
            for index, rank in enumerate(self._ranks):
                if index in outcomes:
                    continue
                with suppress(Empty):
                    outcome = rank.answers.get(timeout=0.02)["outcome"]
                    outcomes[index] = outcome, not has_failed
                    if outcome not in (PASSED, SKIPPED) and not has_failed:
                        has_failed = True
                        until = min(until, time.monotonic() + GRACE)
            if time.monotonic() > until:
                for index, pid in enumerate(pids):
                    if index in outcomes:
                        continue
                    with suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)
                    self._ranks[index].answers.get(timeout=START)
                    outcomes[index] = f"has not ended in {limit:g} s", not has_failed
        return [outcomes[index] for index in range(len(pids))]

    def _job(self, folder: Path) -> dict[str, str]:
        """Creates a job; returns the environment variables of its ranks."""
        token = str(folder / "token")
        self._jobs("create", self._job_name, "--token-out", token)
        return {"TRIBUTARY_JOB": self._job_name, "TRIBUTARY_TOKEN_FILE": token}

    @property
    def _job_name(self) -> str:
        return f"suite-{self._count}"

    def _jobs(self, *arguments: str) -> None:
        command = [*self._lab, "exec", "--name", self._name, "controller", "--", "tributary", "jobs", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START, check=False)
        # A failed job has already ended, so `end` fails.
        if done.returncode and arguments[0] != "end":
            raise RuntimeError(f"no job for a test: {done.stderr}")


@contextmanager
def in_lab(
    binary: Path,
    hosts: int,
    *,
    ranks_per_host: int = 1,
    debug: str = "OFF",
    python: Sequence[str | Path] = (sys.executable,),
) -> Iterator[Suite]:
    """Starts a lab with this number of hosts, and a process for each rank.

    Args:
        binary: the program `tributary`.
        hosts: 2, 4 or 8.
        ranks_per_host: the number of ranks on each host.
        debug: the value of TORCH_DISTRIBUTED_DEBUG.
        python: the command that runs a Python program.
    """
    name = f"suite{os.getpid()}"
    lab = [str(binary), "lab"]
    variables = os.environ | {
        "TORCH_DISTRIBUTED_DEBUG": debug,
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "TRIBUTARY_QUIET": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            topology = ROOT / "topologies" / f"{TOPOLOGIES[hosts]}.toml"
            up = [*lab, "up", topology, "--name", name, "--no-rates"]
            done = subprocess.run(up, capture_output=True, text=True, timeout=START, check=False)
            if done.returncode:
                raise RuntimeError(f"no lab: {done.stderr}")
            ranks = []
            for index in range(hosts * ranks_per_host):
                host, local = f"w{index // ranks_per_host}", index % ranks_per_host
                # `lab exec` sets these variables for one rank a host.
                place = {
                    "RANK": index,
                    "WORLD_SIZE": hosts * ranks_per_host,
                    "LOCAL_RANK": local,
                    "LOCAL_WORLD_SIZE": ranks_per_host,
                }
                assignments = [f"{name}={value}" for name, value in place.items()]
                program = ["env", *assignments, *python, Path(__file__).parent / "rank.py"]
                command = [*lab, "exec", "--name", name, host, "--", *program]
                pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
                process = stack.enter_context(subprocess.Popen(command, **pipes, env=variables, cwd=folder))
                rank = Rank(host, process)
                Thread(target=rank.read, daemon=True).start()
                ranks.append(rank)
            yield Suite(binary, name, ranks, folder)
        finally:
            # This also ends the ranks' processes.
            subprocess.run([*lab, "down", name], capture_output=True, timeout=START, check=False)
