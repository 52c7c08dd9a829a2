"""Tensors whose memory is not their value, or not contiguous, for code that takes plain memory.

gloo reads and writes the memory behind the first element of a tensor, whatever its strides. PyTorch's dispatcher
replaces a view with the negative or the conjugate bit by a copy, in which a result would be lost.
"""

from __future__ import annotations

from typing import Any

import torch

from tributary.errors import TributaryError
from tributary.values import meeting_error, tensor_elements_meet


class Plain:
    """Arguments of a collective in which copies stand for tensors that are not plain, and the way back."""

    def __init__(self, *, contiguous: bool, kind: torch.dtype | None = None) -> None:
        """Copies at least views with the negative or conjugate bit.

        Args:
            contiguous: copies all that is not contiguous, too.
            kind: copies all, in this type.
        """
        self._contiguous = contiguous
        self._kind = kind
        self.copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        """The tensors that the collective writes, each with the copy that it writes in its place."""

    def of(self, value: Any, *, is_written: bool) -> Any:
        """An argument: a tensor, a list of tensors or of lists, or anything else.

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
        is_plain = not (tensor.is_neg() or tensor.is_conj()) and (tensor.is_contiguous() or not self._contiguous)
        if is_plain and self._kind in (None, tensor.dtype):
            return tensor
        tensor = tensor.detach()
        if is_written and tensor_elements_meet(tensor):
            raise TributaryError(str(meeting_error("tensor", tensor.shape)))
        copy = tensor.resolve_conj().resolve_neg().contiguous()
        if self._kind is not None:
            copy = copy.to(self._kind)
        if is_written:
            self.copies.append((tensor, copy))
        return copy

    def copy_back(self) -> None:
        """Gives the tensors the values of their copies."""
        for tensor, copy in self.copies:
            tensor.copy_(copy)
