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

from tributary.pending import is_completion_thread
from tributary.values import NUMPY_TYPES, Elements

if TYPE_CHECKING:
    import torch

    from tributary._native import Segment

MAX_SEGMENTS = 64
"""The largest number of segments for copied values. An agent supports some hundreds in total."""
MIN_SIZE = 4096
"""The smallest size of a segment for copied values, in bytes."""


class Memory(mmap.mmap):
    """A mapped segment. It lives as long as an array or a tensor uses it."""

    segment: Segment
    address: int
    """The address of the first byte."""

    def __new__(cls, segment: Segment) -> Memory:
        """Maps a segment."""
        memory = super().__new__(cls, segment.fileno(), len(segment))
        memory.segment = segment
        memory.address = memory.view().ctypes.data
        return memory

    def view(self) -> npt.NDArray[np.uint8]:
        """Returns all bytes of the segment."""
        return np.frombuffer(self, dtype=np.uint8)


MakeSegment: TypeAlias = "Callable[[int, timedelta | None], Segment]"
"""Makes a segment, from its size in bytes and the deadline of the operation that needs it, if any."""


class MemoryPool:
    """The segments of a session, for values that the user allocates in them and for copied values."""

    def __init__(self, make_segment: MakeSegment) -> None:
        self._make_segment = make_segment
        self._lock = Lock()
        self._own: WeakSet[Memory] = WeakSet()
        self._free: defaultdict[int, list[Memory]] = defaultdict(list)
        self._borrowed = 0
        self._given_back = Condition(self._lock)

    def make(self, size: int) -> Memory:
        """Makes a segment for values of the user."""
        memory = Memory(self._make_segment(max(size, 1), None))
        with self._lock:
            self._own.add(memory)
        return memory

    def find(self, elements: Elements) -> tuple[Memory, int] | None:
        """Returns the segment that holds these elements, and the index of the first element in it.

        Returns `None` if no segment holds the elements, if their offset is not a multiple of their size, or if another
        operation uses the segment.
        """
        begin, size = elements.data.ctypes.data, elements.data.nbytes
        with self._lock:
            for memory in self._own:
                offset = begin - memory.address
                if offset >= 0 and offset + size <= len(memory):
                    first, remainder = divmod(offset, elements.unit)
                    return None if remainder or memory.segment.in_use else (memory, first)
        return None

    def share(
        self, elements: Elements, *, always_copy: bool = False, deadline: timedelta | None = None
    ) -> tuple[Memory, int, bool]:
        """Returns a segment that holds these elements: their own, or a borrowed one with a copy.

        Returns:
            The segment, the index of the first element in it, and true if the segment is borrowed.
        """
        found = None if always_copy else self.find(elements)
        if found is not None:
            return *found, False
        memory = self.borrow(elements.data.nbytes, deadline)
        np.copyto(memory.view()[: elements.data.nbytes], elements.data)
        return memory, 0, True

    def borrow(self, size: int, deadline: timedelta | None = None) -> Memory:
        """Borrows a segment.

        If `MAX_SEGMENTS` segments are borrowed, this waits for one. The thread that completes results does not wait,
        because it gives segments back itself, and a callback in it may start the next all-reduce.

        Args:
            size: the least size in bytes.
            deadline: the deadline of the operation that needs the segment.
        """
        capacity = max(MIN_SIZE, 1 << (size - 1).bit_length())
        with self._lock:
            while self._borrowed >= MAX_SEGMENTS and not is_completion_thread():
                self._given_back.wait()
            self._borrowed += 1
            free = self._free[capacity]
            if free:
                return free.pop()
            # Free an idle segment of another size.
            idle = [others for others in self._free.values() if others]
            if idle and self._borrowed + sum(map(len, idle)) > MAX_SEGMENTS:
                idle[0].pop()
        try:
            return Memory(self._make_segment(capacity, deadline))
        except BaseException:
            self._end_borrowing()
            raise

    def give_back(self, memory: Memory) -> None:
        """Takes back a borrowed segment, and keeps it unless the agent may still write to it."""
        if not memory.segment.in_use:
            with self._lock:
                self._free[len(memory)].append(memory)
        self._end_borrowing()

    def _end_borrowing(self) -> None:
        with self._lock:
            self._borrowed -= 1
            self._given_back.notify()


class SharesMemory:
    """Makes arrays and tensors in memory that it shares with the agent."""

    _pool: MemoryPool

    def empty(self, shape: int | Sequence[int], dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
        """Makes an array of zeros in memory shared with the agent, so that all-reduces need not copy it.

        A forked child shares the memory, too, and its writes change the array here. Give the child a copy.

        >>> job.empty((2, 3), np.float64).shape
        (2, 3)

        Raises:
            TypeError: the type cannot be reduced.
        """
        kind = np.dtype(dtype)
        if kind not in NUMPY_TYPES:
            raise TypeError(f"cannot reduce elements of {kind}: give float32, float16, float64, int32 or int64")
        count = int(np.prod(shape))
        memory = self._pool.make(count * kind.itemsize)
        return np.frombuffer(memory, dtype=kind, count=count).reshape(shape)

    def empty_tensor(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Makes a tensor of zeros in memory shared with the agent, so that all-reduces need not copy it.

        A forked child shares the memory, too, and its writes change the tensor here. Give the child a copy.
        """
        import torch

        kind = dtype or torch.float32
        count = int(np.prod(shape))
        memory = self._pool.make(count * kind.itemsize)
        return torch.frombuffer(memory, dtype=kind, count=count).reshape(shape)
