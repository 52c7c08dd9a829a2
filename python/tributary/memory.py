"""Memory that a process shares with its host's agent."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from tributary.values import NUMPY_TYPES, Elements

if TYPE_CHECKING:
    import torch

    from tributary._native import Memory as NativeMemory
    from tributary._native import Segment


class Memory(mmap.mmap):
    """A mapped segment. It lives as long as an array or a tensor uses it."""

    segment: Segment
    address: int
    """The address of the first byte."""

    def __new__(cls, segment: Segment) -> Memory:
        """Maps a segment."""
        memory = super().__new__(cls, segment.fileno(), len(segment))
        memory.segment = segment
        memory.address = np.frombuffer(memory, dtype=np.uint8).ctypes.data
        return memory


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a result that a caller wants, and the memory for it."""

    skipped: int
    """Bytes of the result before the part."""
    address: int
    nbytes: int
    owner: object
    """Keeps the memory."""

    @staticmethod
    def of_bytes(own: npt.NDArray[np.uint8] | None) -> Part | None:
        """Returns the first bytes of a result, which go to this array; `None` without an array."""
        return Part(0, own.ctypes.data, own.nbytes, own) if own is not None else None


class SharedMemory:
    """The segments in which a session has allocated values for the user."""

    def __init__(self, make_segment: Callable[[int], Segment]) -> None:
        self._make_segment = make_segment
        self._lock = Lock()
        self._segments: WeakSet[Memory] = WeakSet()

    def make(self, size: int) -> Memory:
        """Makes a segment of a number of bytes."""
        memory = Memory(self._make_segment(max(size, 1)))
        with self._lock:
            self._segments.add(memory)
        return memory

    def place_of(
        self, elements: Elements, *, part: Part | None = None, takes_result: bool = True, but: Memory | None = None
    ) -> NativeMemory:
        """Returns the memory of these elements for the native module.

        The native module copies elements that no segment holds, or whose segment is in use, and then copies the result
        back to them, or a part of it to other memory.

        Args:
            elements: the elements.
            part: the part of the result to copy to other memory.
            takes_result: false if the call has no result for these elements.
            but: a segment that another argument of the call uses.
        """
        if part is not None:
            owners = elements.keeper, part.owner
            return elements.address, elements.nbytes, part.skipped, part.address, part.nbytes, owners
        found = self.find(elements)
        if found is not None and found[0] is not but:
            return found[0].segment, found[1]
        result = elements.nbytes if takes_result else 0
        return elements.address, elements.nbytes, 0, elements.address, result, elements.keeper

    def find(self, elements: Elements) -> tuple[Memory, int] | None:
        """Returns the segment that holds these elements, and the index of the first element in it.

        Returns `None` if no segment holds the elements, if their offset is not a multiple of their size, or if another
        operation uses the segment.
        """
        if not self._segments:
            return None
        with self._lock:
            for memory in self._segments:
                offset = elements.address - memory.address
                if offset >= 0 and offset + elements.nbytes <= len(memory):
                    first, remainder = divmod(offset, elements.unit)
                    return None if remainder or memory.segment.in_use else (memory, first)
        return None


class SharesMemory:
    """Makes arrays and tensors in memory that it shares with the agent."""

    _shared: SharedMemory

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
        memory = self._shared.make(count * kind.itemsize)
        return np.frombuffer(memory, dtype=kind, count=count).reshape(shape)

    def empty_tensor(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Makes a tensor of zeros in memory shared with the agent, so that all-reduces need not copy it.

        A forked child shares the memory, too, and its writes change the tensor here. Give the child a copy.
        """
        import torch

        kind = dtype or torch.float32
        count = int(np.prod(shape))
        memory = self._shared.make(count * kind.itemsize)
        return torch.frombuffer(memory, dtype=kind, count=count).reshape(shape)
