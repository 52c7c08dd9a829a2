"""Converts arrays and tensors to the form that the agent reduces: contiguous elements of one type."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

Values: TypeAlias = "npt.NDArray[Any] | torch.Tensor"
"""Values that can be reduced: a NumPy array or a PyTorch tensor."""

NUMPY_TYPES = {
    np.dtype(np.float32): "f32",
    np.dtype(np.float16): "f16",
    np.dtype(np.float64): "f64",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
}


WORD = 4
"""Bytes of a word of a broadcast."""


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of an array or a tensor."""

    type: str
    """The agent's name of the type: `f32`, `f16`, `bf16`, `f64`, `i32` or `i64`."""
    count: int
    owner: npt.NDArray[Any] | torch.Tensor
    """The values themselves, or a contiguous copy."""
    keeper: object
    """Keeps the memory of `owner`, even if the tensor gets other memory."""
    address: int
    """The address of the first byte."""
    nbytes: int
    store: Callable[[], None] | None
    """Copies the result back to the values; `None` if there is no copy."""

    @property
    def unit(self) -> int:
        """The size of an element, in bytes."""
        return self.nbytes // self.count if self.count else 1

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """The bytes as an array."""
        if isinstance(self.owner, np.ndarray):
            return self.owner.reshape(-1).view(np.uint8)
        torch = sys.modules["torch"]
        # Not `reshape`, which keeps the stride of a single element: `view` refuses any stride except 1.
        flat = self.owner.detach().as_strided((self.count,), (1,))
        array: npt.NDArray[np.uint8] = flat.view(torch.uint8).numpy()
        return array

    @staticmethod
    def of(values: Values, *, takes_result: bool = True) -> Elements:
        """Returns the elements of these values.

        Args:
            values: a NumPy array or a PyTorch tensor.
            takes_result: true if a result will be written to the values.

        Raises:
            TypeError: the type of the values cannot be reduced.
            ValueError: a result cannot be written to the values.
        """
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(values, torch.Tensor):
            return _of_tensor(values, takes_result)
        if isinstance(values, np.ndarray):
            return _of_array(values, takes_result)
        raise TypeError(f"cannot reduce a {type(values).__name__}: give a NumPy array or a PyTorch tensor")


def words_of(array: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8] | None]:
    """Returns the bytes of an array as words of 32 bits, with zeros behind them.

    If the words are a copy, also returns the bytes themselves.

    Raises:
        ValueError: the array has objects, is not contiguous, or is read-only.
    """
    if array.dtype.hasobject or not array.flags.c_contiguous or not array.flags.writeable:
        raise ValueError("this array has objects, is not contiguous, or is read-only: give a contiguous copy of it")
    own = array.reshape(-1).view(np.uint8)
    if own.nbytes % WORD == 0 and own.ctypes.data % WORD == 0:
        return own.view(np.int32), None
    words = np.zeros(-(-own.nbytes // WORD), dtype=np.int32)
    words.view(np.uint8)[: own.nbytes] = own
    return words, own


def floats_of(values: Values) -> npt.NDArray[np.float32]:
    """Returns values as contiguous float32, without a copy if they have this form.

    Raises:
        TypeError: the values are not floats.
    """
    elements = Elements.of(values, takes_result=False)
    match elements.type:
        case "f32":
            return elements.data.view(np.float32)
        case "f16":
            return elements.data.view(np.float16).astype(np.float32)
        case "bf16":
            # bfloat16 is the upper half of float32.
            return (elements.data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    raise TypeError(f"cannot encode {elements.type}: give float32, float16 or bfloat16")


def _of_array(array: npt.NDArray[Any], takes_result: bool) -> Elements:
    name = NUMPY_TYPES.get(array.dtype)
    if name is None:
        raise TypeError(f"cannot reduce elements of {array.dtype}: give float32, float16, float64, int32 or int64")
    if takes_result and not array.flags.writeable:
        raise ValueError("the array is read-only, and cannot take the result: give a copy of it")
    if takes_result and not array.flags.c_contiguous and elements_overlap(array.shape, array.strides, array.itemsize):
        raise overlap_error("array", array.shape)
    whole = np.ascontiguousarray(array)
    is_copy = whole is not array and not np.shares_memory(whole, array)
    store = partial(np.copyto, array, whole) if is_copy else None
    return Elements(name, array.size, whole, whole, whole.__array_interface__["data"][0], whole.nbytes, store)


@cache
def tensor_types() -> dict[torch.dtype, str]:
    """Returns the agent's names of the element types of tensors. Needs PyTorch."""
    import torch

    return {
        torch.float32: "f32",
        torch.float16: "f16",
        torch.bfloat16: "bf16",
        torch.float64: "f64",
        torch.int32: "i32",
        torch.int64: "i64",
    }


def _of_tensor(tensor: torch.Tensor, takes_result: bool) -> Elements:
    import torch

    name = tensor_types().get(tensor.dtype)
    if name is None:
        raise TypeError(
            f"cannot reduce elements of {tensor.dtype}: give float32, float16, bfloat16, float64, int32 or int64"
        )
    if takes_result and tensor_elements_overlap(tensor):
        raise overlap_error("tensor", tensor.shape)
    whole = tensor
    if tensor.device.type != "cpu":
        whole = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True).copy_(tensor.detach())
    elif tensor.is_neg() or not tensor.is_contiguous():
        # The memory of a negated view has the original values.
        whole = tensor.detach().resolve_neg().contiguous()
    keeper = keeper_of(whole)

    def store() -> None:
        # A tensor that was made in inference mode can only be written in inference mode.
        with torch.inference_mode():
            tensor.detach().copy_(whole)

    is_copy = whole is not tensor
    return Elements(name, whole.numel(), whole, keeper, whole.data_ptr(), whole.nbytes, store if is_copy else None)


def keeper_of(tensor: torch.Tensor) -> object:
    """Returns an object that keeps the memory of a contiguous tensor; PyTorch does not resize this memory any more.

    Raises:
        TypeError: the tensor has no memory, or less than its elements need.
    """
    import torch

    storage = tensor.untyped_storage()
    if storage.nbytes() < tensor.storage_offset() * tensor.element_size() + tensor.nbytes:
        raise TypeError(
            f"this {type(tensor).__name__} of {tuple(tensor.shape)} has no memory for its elements: give a tensor "
            "whose memory was not released, or the tensor inside it"
        )
    if storage.resizable():
        # NumPy's arrays cannot follow a change of size either.
        tensor.detach().as_strided((0,), (1,)).view(torch.uint8).numpy()
    return storage


def elements_overlap(shape: Sequence[int], strides: Sequence[int], unit: int) -> bool:
    """Returns true if elements of `unit` bytes overlap in memory, with strides in bytes."""
    if 0 in shape:
        return False
    end = 0
    for stride, size in sorted((abs(stride), size) for stride, size in zip(strides, shape, strict=True) if size > 1):
        if stride < end + unit:
            break
        end += (size - 1) * stride
    else:
        return False
    # The dimensions interleave, but the elements may still be disjoint: compare their offsets.
    offsets = np.zeros((), np.int64)
    for stride, size in zip(strides, shape, strict=True):
        offsets = np.add.outer(offsets, np.arange(size, dtype=np.int64) * stride)
    return bool((np.diff(np.sort(offsets, axis=None)) < unit).any())


def tensor_elements_overlap(tensor: torch.Tensor) -> bool:
    """Returns true if elements of a strided tensor overlap in memory."""
    unit = tensor.element_size()
    return not tensor.is_contiguous() and elements_overlap(tensor.shape, [one * unit for one in tensor.stride()], unit)


def overlap_error(kind: str, shape: Sequence[int]) -> ValueError:
    """Makes the error for values whose elements share memory, and so cannot take a result."""
    return ValueError(
        f"elements of the {kind} {tuple(shape)} share memory, as after `expand`, so that it cannot take a result: "
        "give a copy of it"
    )
