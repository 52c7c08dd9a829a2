"""Copies tensors for code that needs contiguous memory with the values themselves.

gloo reads and writes the memory after the first element of a tensor, and ignores strides. PyTorch's dispatcher replaces
a view with the negative or the conjugate bit by a copy, and a result in that copy would be lost.
"""

from __future__ import annotations

from typing import Any

import torch

from tributary.errors import TributaryError
from tributary.values import overlap_error, tensor_elements_overlap


class Plain:
    """Replaces arguments of a collective by plain copies, and copies their results back."""

    def __init__(self, *, contiguous: bool, kind: torch.dtype | None = None) -> None:
        """Copies views with the negative or the conjugate bit, and more on request.

        Args:
            contiguous: true to copy also tensors that are not contiguous, and tensors of devices to host memory.
            kind: the type to which all tensors are converted, if given.
        """
        self._contiguous = contiguous
        self._kind = kind
        self.copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        """The tensors that take results, each with its copy."""

    def of(self, value: Any, *, is_written: bool) -> Any:
        """Returns an argument with its tensors replaced: a tensor, nested lists of tensors, or another value.

        Raises:
            TributaryError: a tensor that the collective writes has elements that share memory.
        """
        if isinstance(value, torch.Tensor):
            return self._tensor(value, is_written)
        if isinstance(value, list | tuple):
            return [self.of(each, is_written=is_written) for each in value]
        return value

    def _tensor(self, tensor: torch.Tensor, is_written: bool) -> torch.Tensor:
        if tensor.layout != torch.strided:
            return tensor
        is_plain = not (tensor.is_neg() or tensor.is_conj()) and (
            (tensor.is_contiguous() and tensor.device.type == "cpu") or not self._contiguous
        )
        if is_plain and self._kind in (None, tensor.dtype):
            return tensor
        tensor = tensor.detach()
        if is_written and tensor_elements_overlap(tensor):
            raise TributaryError(str(overlap_error("tensor", tensor.shape)))
        copy = tensor.resolve_conj().resolve_neg().contiguous()
        if self._contiguous:
            # A copy from a device waits for the device.
            copy = copy.cpu()
        if self._kind is not None:
            copy = copy.to(self._kind)
        if is_written:
            self.copies.append((tensor, copy))
        return copy

    def copy_back(self) -> None:
        """Copies the results to the tensors."""
        for tensor, copy in self.copies:
            tensor.copy_(copy)
