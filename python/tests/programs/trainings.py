"""Typical trainings with PyTorch, which know only the name of Tributary's backend.

They run one after the other. For each training, rank 0 prints the mean losses, and true if all ranks have the same
parameters.

    trainings.py BACKEND TRAINING...
"""

import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel

STEPS = 6
OVERFLOWS = [1, 5, 50]
"""Steps in which the gradients of one rank overflow, on purpose."""


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)
    )


def learn(
    model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = STEPS, kind: torch.dtype = torch.float32
) -> list[float]:
    """Trains; returns this rank's losses."""
    torch.manual_seed(100 + dist.get_rank())
    losses = []
    for _ in range(steps):
        data = torch.randn(16, 32)
        loss = nn.functional.cross_entropy(model(data.to(kind)).float(), data[:, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01)


def parallel(model: nn.Module, **options: object) -> DistributedDataParallel:
    """Wraps a model in `DistributedDataParallel` with several buckets."""
    return DistributedDataParallel(model, bucket_cap_mb=0.01, **options)


def report(name: str, losses: list[float] | None = None, model: nn.Module | None = None) -> None:
    """Prints on rank 0 the mean of the ranks' losses, and true if all parameters have the same bits."""
    mean = torch.tensor(losses or [])
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    parameters = [] if model is None else model.parameters()
    content = b"".join(parameter.detach().float().numpy().tobytes() for parameter in parameters)
    digests: list[str | None] = [None] * dist.get_world_size()
    dist.all_gather_object(digests, hashlib.sha256(content).hexdigest())
    if dist.get_rank() == 0:
        same = len(set(digests)) == 1
        print(json.dumps({"name": name, "losses": mean.tolist(), "same": same}), flush=True)


def plain() -> None:
    model = parallel(network())
    report("plain", learn(model, adam(model)), model)


def unused() -> None:
    """Trains a model in which a part has no gradient, with gradients as views of the buckets."""

    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = network(), nn.Linear(32, 4)

        def forward(self, data: torch.Tensor) -> torch.Tensor:
            return self.used(data)

    model = parallel(Partly(), find_unused_parameters=True, gradient_as_bucket_view=True)
    report("unused", learn(model, adam(model)), model)


def bf16() -> None:
    model = parallel(network().bfloat16())
    report("bf16", learn(model, torch.optim.SGD(model.parameters(), lr=0.1), kind=torch.bfloat16), model)


def bf16_hook() -> None:
    model = parallel(network())
    model.register_comm_hook(None, bf16_compress_hook)
    report("bf16_hook", learn(model, adam(model)), model)


def own_hook() -> None:
    size = dist.get_world_size()

    def hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        sum_of_all = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return sum_of_all.then(lambda done: done.value()[0] / size)

    model = parallel(network())
    model.register_comm_hook(None, hook)
    report("own_hook", learn(model, adam(model)), model)


def zero() -> None:
    model = parallel(network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    report("zero", learn(model, optimizer), model)


def uneven() -> None:
    """Trains with different amounts of data. Ranks without data shadow the others' collectives."""
    model = parallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with model.join():
        losses = learn(model, optimizer, steps=STEPS - dist.get_rank())
    report("uneven", losses[: STEPS + 1 - dist.get_world_size()], model)


def accumulate() -> None:
    """Accumulates the gradients of two batches, and sums them over the ranks once."""
    model = parallel(network())
    optimizer = adam(model)
    torch.manual_seed(100 + dist.get_rank())
    losses = []
    for step in range(2 * STEPS):
        data = torch.randn(16, 32)
        last = step % 2 == 1
        with nullcontext() if last else model.no_sync():
            loss = nn.functional.cross_entropy(model(data), data[:, :4].argmax(1))
            loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    report("accumulate", losses, model)


def sharded() -> None:
    """Trains with a part of each parameter on each rank."""
    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    losses = learn(model, adam(model))
    for module in model.modules():
        if hasattr(module, "unshard"):
            module.unshard()
    report("sharded", losses, model)


def replicated() -> None:
    """Trains with parameters that are sharded over half of the ranks, and replicated on the other half."""
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("replicate", "shard"))
    model = fully_shard(network(), mesh=mesh)
    losses = learn(model, adam(model))
    model.unshard()
    report("replicated", losses, model)


def hybrid() -> None:
    """Trains with parameters that are sharded over the ranks of each pair, and replicated over the pairs.

    The model is large enough that the group of each shard's replicas gets a job.
    """
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("replicate", "shard"))
    torch.manual_seed(1)
    wide = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 4))
    model = fully_shard(wide, mesh=mesh)
    losses = learn(model, adam(model))
    model.unshard()
    report("hybrid", losses, model)


def compiled() -> None:
    model = torch.compile(DistributedDataParallel(network()))
    report("compiled", learn(model, adam(model)), model)


def low_rank() -> None:
    """Trains with PowerSGD: the ranks sum factors of the gradients, which callbacks of futures compute.

    It has one bucket. With several buckets the hook starts its all-reduces in no fixed order, and hangs over gloo.
    """
    model = DistributedDataParallel(network())
    model.register_comm_hook(PowerSGDState(None, 2, start_powerSGD_iter=3), powerSGD_hook)
    report("low_rank", learn(model, adam(model), steps=30), model)


def overflows() -> None:
    """Trains with gradients of one rank that overflow in some steps, which the scaler skips on all ranks."""
    model = parallel(network())
    optimizer, scaler = adam(model), torch.amp.GradScaler("cpu", growth_interval=20)
    torch.manual_seed(100 + dist.get_rank())
    losses, skipped = [], []
    for step in range(60):
        data = torch.randn(16, 32)
        loss = nn.functional.cross_entropy(model(data), data[:, :4].argmax(1))
        losses.append(loss.item())
        optimizer.zero_grad()
        is_too_large = step in OVERFLOWS and dist.get_rank() == dist.get_world_size() - 1
        scaler.scale(loss * torch.finfo(loss.dtype).max if is_too_large else loss).backward()
        scaler.step(optimizer)
        scale = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() < scale:
            skipped.append(step)
    assert skipped == OVERFLOWS, skipped
    report("overflows", losses, model)


def pipelined() -> None:
    """Trains a pipeline with a layer on each rank.

    The ranks exchange activations and gradients with their neighbours. The last rank has the losses.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1 + rank)
    stage = nn.Sequential(nn.Linear(32, 32), nn.Tanh())
    optimizer = adam(stage)
    schedule = Schedule1F1B(
        PipelineStage(stage, rank, size, torch.device("cpu")), n_microbatches=2 * size, loss_fn=nn.functional.mse_loss
    )
    generator = torch.Generator().manual_seed(7)
    losses = []
    for _ in range(20):
        data = torch.randn(32, 32, generator=generator)
        parts: list[torch.Tensor] = []
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(data)
        elif rank == size - 1:
            schedule.step(target=data.roll(1, 1).tanh(), losses=parts)
        else:
            schedule.step()
        optimizer.step()
        losses.append(sum((part.item() for part in parts), 0.0))
    report("pipelined", losses)


def groups() -> None:
    """Uses objects, groups of some ranks, meshes, other operators and types."""
    rank, size = dist.get_rank(), dist.get_world_size()
    objects: list[object] = [{"rank": 0}] if rank == 0 else [None]
    dist.broadcast_object_list(objects)
    assert objects == [{"rank": 0}]
    highest = torch.tensor([rank], dtype=torch.int64)
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    assert highest.item() == size - 1
    pairs = [dist.new_group([first, first + 1]) for first in range(0, size, 2)]
    of_pair = torch.full((5,), float(rank))
    dist.all_reduce(of_pair, group=pairs[rank // 2])
    assert (of_pair == 4 * (rank // 2) + 1).all()
    mesh = init_device_mesh("cpu", (size,))
    everyone = torch.ones(3)
    dist.all_reduce(everyone, group=mesh.get_group())
    assert (everyone == size).all()
    parts = torch.arange(2 * size, dtype=torch.float32)
    mine = torch.empty(2)
    dist.reduce_scatter_tensor(mine, parts)
    assert mine.tolist() == [2 * rank * size, (2 * rank + 1) * size]
    whole = torch.empty(2 * size)
    dist.all_gather_into_tensor(whole, mine)
    assert (whole == parts * size).all()
    work = dist.all_reduce(torch.ones(100), async_op=True)
    work.wait()
    assert work.get_future().done()
    dist.barrier()
    report("groups")


def parts_of_sums() -> None:
    """Checks all forms of reduce-scatter: results have the bits of an all-reduce, inputs do not change."""
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7 + rank)
    for operator in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        for kind in (torch.float32, torch.bfloat16):
            wholes = [torch.randn(size, *shape).to(kind) for shape in ((5, 3), (1000,))]
            before = [whole.clone() for whole in wholes]
            expected = [whole.clone() for whole in wholes]
            for whole in expected:
                dist.all_reduce(whole, op=operator)
            mine = torch.empty(3, 5, dtype=kind).t()  # not contiguous
            dist.reduce_scatter(mine, list(wholes[0]), op=operator)
            single = torch.empty(1000, dtype=kind)
            dist.reduce_scatter_tensor(single, wholes[1], op=operator, async_op=True).wait()
            coalesced = [torch.empty(whole.shape[1:], dtype=kind) for whole in wholes]
            with dist._coalescing_manager():
                for output, whole in zip(coalesced, wholes, strict=True):
                    dist.reduce_scatter_tensor(output, whole, op=operator)
            for output, whole in [*zip([mine, single], expected, strict=True), *zip(coalesced, expected, strict=True)]:
                assert torch.equal(output, whole[rank]), (operator, kind, output, whole[rank])
            assert all(torch.equal(*pair) for pair in zip(wholes, before, strict=True))
    report("parts_of_sums")


TRAININGS: list[Callable[[], None]] = [
    plain, unused, bf16, bf16_hook, own_hook, zero, uneven, accumulate, sharded, replicated, hybrid, compiled,
    low_rank, overflows, pipelined, groups, parts_of_sums,
]  # fmt: skip

# The backend logs the bytes over the fabric and by gloo.
logging.basicConfig(format="%(message)s")
logging.getLogger("tributary").setLevel(logging.INFO)
torch.set_num_threads(1)
dist.init_process_group(sys.argv[1])
for training in TRAININGS:
    if training.__name__ in sys.argv[2:]:
        training()
dist.destroy_process_group()
if sys.argv[1] == "gloo":
    # fully_shard keeps gloo's threads alive, and a thread that frees a tensor while the interpreter ends aborts the
    # process (pytorch/pytorch#190489). With the fabric, the interpreter must end normally.
    os._exit(0)
