"""Runs many all-reduces at once: from several threads, and more than an agent can hold."""

from threading import Thread

import torch
import torch.distributed as dist

dist.init_process_group("tributary")
world = dist.get_world_size()
failures = []


def reduce_some() -> None:
    try:
        for _ in range(25):
            values = torch.ones(100)
            dist.all_reduce(values)
            assert (values == world).all(), values
    except Exception as error:
        failures.append(error)


threads = [Thread(target=reduce_some) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures

tensors = [torch.full((size % 3000 + 1,), float(size)) for size in range(1000)]
under_way = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
for size, (work, tensor) in enumerate(zip(under_way, tensors, strict=True)):
    work.wait()
    assert (tensor == world * size).all(), (size, tensor)

# A callback may start another all-reduce.
first = torch.ones(10)
chained = dist.all_reduce(first, async_op=True).get_future().then(lambda _: dist.all_reduce(first, async_op=True))
chained.wait().wait()
assert (first == world**2).all(), first
print("right")
dist.destroy_process_group()
