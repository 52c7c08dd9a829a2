"""Memory that a process shares with its host's agent."""

from __future__ import annotations

import mmap
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import timedelta
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from tributary.pending import hands_out_results
from tributary.values import NUMPY_TYPES, Elements

if TYPE_CHECKING:
    import torch

    from tributary._native import Segment

MOST = 64
"""The most pieces of memory for copied values at the same time: an agent has room for some hundreds in total."""
SMALLEST = 4096
"""The smallest piece of memory for copied values, in bytes."""


class Memory(mmap.mmap):
    """Shared memory; it lives as long as an array or a tensor uses it."""

    segment: Segment
    address: int
    """Its address."""

    def __new__(cls, segment: Segment) -> Memory:
        """Maps a segment."""
        memory = super().__new__(cls, segment.fileno(), len(segment))
        memory.segment = segment
        memory.address = memory.view().ctypes.data
        return memory

    def view(self) -> npt.NDArray[np.uint8]:
        """All of its bytes."""
        return np.frombuffer(self, dtype=np.uint8)


MakeSegment: TypeAlias = "Callable[[int, timedelta | None], Segment]"
"""Makes a segment of a size in bytes, for an operation with a deadline if there is one."""


class MemoryPool:
    """A session's shared memory: pieces with the user's own values, and pieces to which other values are copied."""

    def __init__(self, make_segment: MakeSegment) -> None:
        self._make_segment = make_segment
        self._lock = Lock()
        self._own: WeakSet[Memory] = WeakSet()
        self._free: defaultdict[int, list[Memory]] = defaultdict(list)
        self._borrowed = 0
        self._given_back = Condition(self._lock)

    def make(self, size: int) -> Memory:
        """Makes memory for the user's own values."""
        memory = Memory(self._make_segment(max(size, 1), None))
        with self._lock:
            self._own.add(memory)
        return memory

    def find(self, elements: Elements) -> tuple[Memory, int] | None:
        """Finds the shared memory that holds these elements; returns it with the index of the first of them.

        `None`: they are in none, or not at a multiple of their size, or something else in that memory is being reduced.
        """
        begin, size = elements.data.ctypes.data, elements.data.nbytes
        with self._lock:
            for memory in self._own:
                offset = begin - memory.address
                if offset >= 0 and offset + size <= len(memory):
                    first, remainder = divmod(offset, elements.unit)
                    return None if remainder or memory.segment.in_use else (memory, first)
        return None

    def place(
        self, elements: Elements, *, always_copy: bool = False, deadline: timedelta | None = None
    ) -> tuple[Memory, int, bool]:
        """Puts elements where the agent finds them.

        Returns:
            The memory, the index of the first element in it, and whether it holds a copy, to be given back.
        """
        found = None if always_copy else self.find(elements)
        if found is not None:
            return *found, False
        memory = self.borrow(elements.data.nbytes, deadline)
        np.copyto(memory.view()[: elements.data.nbytes], elements.data)
        return memory, 0, True

    def borrow(self, size: int, deadline: timedelta | None = None) -> Memory:
        """Borrows memory of at least this size, for an operation with this deadline if there is one.

        While too much is in use this waits, except in the thread that gives memory back: a callback there may start the
        next all-reduce.
        """
        room = max(SMALLEST, 1 << (size - 1).bit_length())
        with self._lock:
            while self._borrowed >= MOST and not hands_out_results():
                self._given_back.wait()
            self._borrowed += 1
            free = self._free[room]
            if free:
                return free.pop()
            # Pieces of other sizes make room.
            idle = [others for others in self._free.values() if others]
            if idle and self._borrowed + sum(map(len, idle)) > MOST:
                idle[0].pop()
        try:
            return Memory(self._make_segment(room, deadline))
        except BaseException:
            self._end_borrowing()
            raise

    def give_back(self, memory: Memory) -> None:
        """Takes back borrowed memory, and keeps it unless the agent may still write to it."""
        if not memory.segment.in_use:
            with self._lock:
                self._free[len(memory)].append(memory)
        self._end_borrowing()

    def _end_borrowing(self) -> None:
        with self._lock:
            self._borrowed -= 1
            self._given_back.notify()


class SharesMemory:
    """Makes arrays and tensors in memory that is shared with the agent."""

    _pool: MemoryPool

    def empty(self, shape: int | Sequence[int], dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
        """An array of zeros in memory that is shared with the agent: its values need not be copied.

        A forked child shares the memory, too: what it writes to the array changes the array here. Give a child a copy.

        Raises:
            TypeError: a type that cannot be reduced.
        """
        kind = np.dtype(dtype)
        if kind not in NUMPY_TYPES:
            raise TypeError(f"cannot reduce elements of {kind}: float32, float16 and int32 can be")
        count = int(np.prod(shape))
        memory = self._pool.make(count * kind.itemsize)
        return np.frombuffer(memory, dtype=kind, count=count).reshape(shape)

    def empty_tensor(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A tensor of zeros in memory that is shared with the agent: its values need not be copied.

        A forked child shares the memory, too: what it writes to the tensor changes the tensor here. Give it a copy.
        """
        import torch

        kind = dtype or torch.float32
        count = int(np.prod(shape))
        memory = self._pool.make(count * kind.itemsize)
        return torch.frombuffer(memory, dtype=kind, count=count).reshape(shape)
