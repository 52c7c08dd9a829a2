"""Runs a part of PyTorch's own tests of `torch.distributed` over the fabric.

`make test-pytorch` runs all of them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent / "pytorch_suite"))

from suite import PASSED, Suite, in_lab

SELECTED = [
    "test_DistributedDataParallelCPU",
    "test_accumulate_gradients_no_sync",
    "test_all_gather",
    "test_all_reduce_coalesced_sum",
    "test_all_reduce_complex_unsupported_ops",
    "test_all_reduce_full_group_sum",
    "test_all_reduce_max",
    "test_all_reduce_sum",
    "test_all_reduce_sum_async",
    "test_all_reduce_sum_complex",
    "test_all_to_all_single_equal_split",
    "test_barrier",
    "test_barrier_timeout_global",
    "test_batch_isend_irecv_gloo",
    "test_broadcast",
    "test_ddp_grad_div_uneven_inputs",
    "test_ddp_join_model_equivalence",
    "test_ddp_logging_data_cpu",
    "test_gather",
    "test_get_backend",
    "test_irecv",
    "test_isend",
    "test_monitored_barrier_gloo",
    "test_reduce_scatter_tensor_cuda",
    "test_reduce_scatter_v_cuda",
    "test_reduce_sum",
    "test_scatter",
    "test_send_recv_any_source",
]
"""One test of each kind of collective, and the tests that have found defects of the backend."""


@pytest.fixture(scope="module")
def suite(binary: Path, forked_python: list[str]) -> Iterator[Suite]:
    pytest.importorskip("expecttest", reason="PyTorch's suite needs expecttest")
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("ethtool") is None:
        pytest.skip("a lab needs root, iproute2 and ethtool")
    with in_lab(binary, 4, python=forked_python) as suite:
        yield suite


@pytest.mark.parametrize("test", SELECTED)
def test_the_backend_passes(suite: Suite, test: str) -> None:
    result = suite.run(test, "tributary")
    assert result.outcome == PASSED, result.log


BROKEN = {
    "a sum is left out": "FabricBackend.allreduce = lambda self, tensors, opts=None: self.barrier()",
    "a barrier never ends": "FabricBackend.allreduce = lambda self, tensors, opts=None: Event().wait()",
    "a rank dies": "FabricBackend.allreduce = lambda self, tensors, opts=None: os.abort()",
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_the_suite_fails_where_the_backend_is_broken(suite: Suite, tmp_path: Path, change: str) -> None:
    before = tmp_path / "before.py"
    imports = "import os\nfrom threading import Event\nfrom tributary.torch.backend import FabricBackend"
    before.write_text(f"{imports}\n{change}\n", encoding="utf-8")
    assert suite.run("test_all_reduce_sum", "tributary", limit=20, before=before).has_failed
    # The failed test has no effect on the next test.
    assert suite.run("test_all_reduce_sum", "tributary").outcome == PASSED
