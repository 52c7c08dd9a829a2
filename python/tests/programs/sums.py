"""Sums arrays and tensors of all types, one at a time and many at once, as a rank."""

import numpy as np

import tributary

try:
    import torch
except ImportError:
    torch = None

with tributary.join(deadline=60) as job:
    size, rank = len(job.ranks), job.rank
    array = np.full(100_000, rank + 1, dtype=np.float32)
    reduced = job.all_reduce(array, name="array")
    assert (array == size * (size + 1) / 2).all()
    assert reduced.contributors == size

    # Not contiguous in memory.
    integers = np.arange(20, dtype=np.int32).reshape(4, 5).T
    job.all_reduce(integers)
    assert (integers == size * np.arange(20).reshape(4, 5).T).all()

    weighed = np.ones(8, dtype=np.float16)
    assert job.all_reduce(weighed, weight=rank + 1).runs[0].weight == size * (size + 1) // 2
    assert (weighed == size * (size + 1) / 2).all()

    for weight in (-1, 2**32):
        try:
            job.all_reduce(weighed, weight=weight)
        except ValueError as error:
            assert f"a weight of {weight}: give a whole number from 0 to" in str(error), error
        else:
            raise AssertionError(f"a weight of {weight} was taken")

    shared = job.empty((4, 5))
    many = [np.full(1000 + number, number, dtype=np.float32) for number in range(20)]
    shared[:] = rank
    under_way = [job.start(shared)] + [job.start(one, name=f"number {n}") for n, one in enumerate(many)]
    for reduction in under_way:
        reduction.result()
    assert (shared == size * (size - 1) / 2).all()
    assert all((one == number * size).all() for number, one in enumerate(many))

    assert job.all_reduce(np.zeros(0, dtype=np.float32)).contributors == 0
    if torch is not None:
        for kind in (torch.float32, torch.float16, torch.bfloat16, torch.int32):
            tensor = torch.full((30, 7), rank + 1, dtype=kind).T
            job.all_reduce(tensor)
            assert (tensor == size * (size + 1) // 2).all()
        tensor = job.empty_tensor(6, 7)
        tensor.fill_(rank)
        job.all_reduce(tensor)
        assert (tensor == size * (size - 1) / 2).all()
    job.barrier()
    try:
        job.all_reduce(np.array([np.nan if rank == 0 else 1.0], dtype=np.float32), name="gradient")
    except tributary.SumError as error:
        assert "rank 0" in str(error), error
        assert "gradient" in str(error), error
        print("right")
