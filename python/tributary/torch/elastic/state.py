"""Encodes a training's state as integers that an all-reduce keeps exactly."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

BYTES = 3
"""Bytes in one integer. It is not 4, because an all-reduce does not accept all 32-bit values."""

Integers = npt.NDArray[np.int32]


class Stateful(Protocol):
    """A model, an optimiser, a learning-rate scheduler, or anything else with a state."""

    def state_dict(self) -> dict[str, Any]:
        """Returns its state."""

    def load_state_dict(self, state_dict: Any) -> Any:
        """Replaces its state."""


def pack(state: Mapping[str, Any]) -> Integers:
    """Encodes a state as integers below 2^24. The first one counts padding bytes in the last one."""
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
    """Decodes a state.

    Raises:
        ValueError: the integers do not encode a state, or it holds more than tensors and plain values.
    """
    data = np.ascontiguousarray(integers[1:].astype("<i4")).view(np.uint8).reshape(-1, 4)[:, :BYTES].tobytes()
    try:
        state = torch.load(io.BytesIO(data[: len(data) - int(integers[0])]), weights_only=True)
    except Exception as error:
        raise ValueError(f"cannot take over another rank's state: {error}") from error
    if not isinstance(state, dict):
        raise ValueError(f"cannot take over another rank's state: it is a {type(state).__name__}")
    return state
