"""What members take over from one another, as integers that an all-reduce keeps as they are."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

BYTES = 3
"""Bytes that go into one integer: an all-reduce does not take all values of 32 bits."""

Integers = npt.NDArray[np.int32]


class Stateful(Protocol):
    """A model, an optimiser, a scheduler of learning rates, or whatever else has a state."""

    def state_dict(self) -> dict[str, Any]:
        """All of its state."""

    def load_state_dict(self, state_dict: Any) -> Any:
        """Goes on with another one's."""


def pack(state: Mapping[str, Any]) -> Integers:
    """A state as integers below 2^24; the first one says how many bytes the last one holds."""
    file = io.BytesIO()
    torch.save(state, file)
    data = np.frombuffer(file.getbuffer(), dtype=np.uint8)
    padding = -data.size % BYTES
    packed = np.zeros((1 + (data.size + padding) // BYTES, 4), dtype=np.uint8)
    packed[1:, :BYTES] = np.pad(data, (0, padding)).reshape(-1, BYTES)
    integers = packed.reshape(-1).view("<i4").astype(np.int32)
    integers[0] = padding
    return integers


def unpack(integers: Integers) -> dict[str, Any]:
    """The state that they are.

    Raises:
        ValueError: they are none, or hold something else than tensors and plain values.
    """
    data = np.ascontiguousarray(integers[1:].astype("<i4")).view(np.uint8).reshape(-1, 4)[:, :BYTES].tobytes()
    try:
        state = torch.load(io.BytesIO(data[: len(data) - int(integers[0])]), weights_only=True)
    except Exception as error:
        raise ValueError(f"cannot take over another rank's state: {error}") from error
    if not isinstance(state, dict):
        raise ValueError(f"cannot take over another rank's state: it is a {type(state).__name__}")
    return state
