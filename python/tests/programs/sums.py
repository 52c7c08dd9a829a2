"""Sums arrays and tensors of all types, one at a time and many at once, as a rank."""

import os

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

    assert job.all_reduce(np.zeros(0, dtype=np.float32)).contributors == size
    if torch is not None:
        for kind in (torch.float32, torch.float16, torch.bfloat16, torch.int32):
            tensor = torch.full((30, 7), rank + 1, dtype=kind).T
            job.all_reduce(tensor)
            assert (tensor == size * (size + 1) // 2).all()
        tensor = job.empty_tensor(6, 7)
        tensor.fill_(rank)
        job.all_reduce(tensor)
        assert (tensor == size * (size - 1) / 2).all()
    for kind in (np.float64, np.int64):
        wide = np.array([2**40 + rank, -rank, 3], dtype=kind)
        job.all_reduce(wide)
        assert (wide == [size * 2**40 + size * (size - 1) // 2, -size * (size - 1) // 2, 3 * size]).all()
    # A value keeps its precision next to a much larger value.
    for precision, allowed in (("standard", 2**-12), ("float32", 0)):
        small = np.array([1e30, 1.5e-20, 0, 1], dtype=np.float32)
        job.all_reduce(small, precision=precision)
        assert abs(small[1] - size * np.float32(1.5e-20)) <= allowed * small[1], small
        assert small[3] == size
        assert small[2] == 0
    job.barrier()
    values = np.array([1.0, np.nan if rank == 0 else 1.0, np.inf], dtype=np.float32)
    reduced = job.all_reduce(values, name="gradient")
    assert (values[0], values[2]) == (size, np.inf)
    assert np.isnan(values[1])
    assert reduced.not_finite == tributary.NotFinite(1, size - 1), reduced
    os.environ["TRIBUTARY_NONFINITE"] = "error"
    try:
        job.all_reduce(np.array([np.nan if rank == 0 else 1.0], dtype=np.float32), name="gradient")
    except tributary.SumError as error:
        assert "rank 0" in str(error), error
        assert "gradient" in str(error), error
    large = np.array([2**31 - 1, 0], dtype=np.int32)
    try:
        job.all_reduce(large, name="counts")
    except tributary.SumError as error:
        assert "element 0" in str(error), error
        print("right")
