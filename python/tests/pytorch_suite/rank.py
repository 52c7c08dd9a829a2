"""Runs tests of PyTorch's suite as one rank: forks a child for each request on standard input.

A request and an answer are one line of JSON each. A child has its own session, so all of its processes can be killed by
its pid.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import json
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import gpu_mock
import torch.distributed as dist
from torch.testing._internal import common_distributed

# The suite selects its expectations of a backend when it is imported. Decorators that skip a test in unittest have no
# effect here: a test counts if it passes over gloo.
os.environ["BACKEND"] = "gloo"
os.environ["INIT_METHOD"] = "file://"
os.environ.setdefault("TEMP_DIR", "/tmp")

gpu_mock.mark_gpu_tests()
distributed_test = import_module("torch.testing._internal.distributed.distributed_test")
# Imported once here, because each child would import them.
for module in ("torch._dynamo", "tributary.torch.backend"):
    import_module(module)

SKIPPED = {skip.exit_code for skip in common_distributed.TEST_SKIPS.values()}


class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    """The suite's tests, with the backend of the request."""

    def call_dist_op(self, *args: Any, tensor_shapes: Any = None, **options: Any) -> Any:
        """Calls a collective under the profiler. Its events over the fabric have no shapes."""
        shapes = tensor_shapes if dist.get_backend() == "gloo" else None
        return super().call_dist_op(*args, tensor_shapes=shapes, **options)


class LikeGloo(str):
    """The name of a backend that also equals "gloo", for tests that support known names only."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return other == "gloo" or str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def use_backend(backend: str) -> None:
    """Makes the suite use a backend, with its expectations of gloo."""
    distributed_test.BACKEND = LikeGloo(backend)
    # The list for sends and receives stays unchanged, because they have gloo's events.
    distributed_test.PROFILING_SUPPORTED_BACKENDS.append(backend)
    for supporting in common_distributed.DistTestCases.backend_feature.values():
        if "gloo" in supporting:
            supporting.add(backend)


def run(request: dict[str, Any]) -> None:
    """Runs the test of a request, and ends this process with the test's exit code."""
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    # Dump the stacks shortly before the process is killed.
    faulthandler.dump_traceback_later(request["limit"] * 0.9, file=sys.stderr)
    os.environ |= request["environment"]
    folder = Path(os.environ["TEMP_DIR"])
    distributed_test.INIT_METHOD = f"file://{folder}/again"
    distributed_test.Barrier.barrier_id = 0
    use_backend(request["backend"])
    if request["before"]:
        exec(Path(request["before"]).read_text(encoding="utf-8"), {})
    name = request["test"]
    with gpu_mock.mock_gpus(getattr(Suite, name)):
        # The suite sends an error through this pipe, and also writes it to the log.
        _reader, writer = multiprocessing.Pipe()
        Suite._run(int(os.environ["RANK"]), name, f"{folder}/store", writer)


def end_after(call: Callable[..., object], *args: Any) -> NoReturn:
    """Calls a function, and ends the process with its exit code, without the slow release of all memory."""
    code: Any = 1
    try:
        call(*args)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


def outcome(status: int) -> str:
    """Returns the outcome of a child that has ended with this status."""
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return "passed"
    if code in SKIPPED:
        return "skipped"
    return "failed" if code > 0 else f"killed by signal {-code}"


def main() -> None:
    names = sorted(name for name in dir(Suite) if name.startswith("test_"))
    # Children share this memory until they write to it.
    gc.freeze()
    print(json.dumps({"tests": names}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            end_after(run, request)
        print(json.dumps({"pid": child}), flush=True)
        _, status = os.waitpid(child, 0)
        print(json.dumps({"outcome": outcome(status)}), flush=True)


if __name__ == "__main__":
    main()
