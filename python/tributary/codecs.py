"""Compressed gradients: the codecs of the parameter server, for arrays and tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tributary import _native
from tributary.values import Values, floats_of

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Code:
    """A gradient's code."""

    data: bytes
    """The bytes that are sent; `crates/codec/src/wire.rs` describes their format."""
    count: int
    """The number of values that it holds."""

    @property
    def ratio(self) -> float:
        """How many times smaller it is than float32."""
        return 4 * self.count / len(self.data)

    def decode(self) -> Floats:
        """The values as the recipient of the code decodes them."""
        return decode(self.data, self.count)

    def error(self, gradient: Values) -> float:
        """The code's relative error: |gradient - code|² / |gradient|²; 0 if there is no error."""
        values = floats_of(gradient).astype(np.float64)
        lost, whole = float(np.sum((values - self.decode()) ** 2)), float(np.sum(values**2))
        return lost / whole if whole > 0 else lost


class Codec:
    """One worker's encoder. It may keep state from one gradient to the next, so that every worker has its own.

    Names: `none`, `f16`, `uniform-1` to `uniform-8`, `terngrad`, `one-bit`, `top-2` to `top-65535`, `quantile-2` to
    `quantile-256` by powers of two, `casq-4`, `casq-8`; all of these but `none` with error feedback, as `casq-4-ef`;
    and `casq-4-shared`, whose workers agree on a codebook before each gradient::

        sketch = codec.propose(gradient)
        job.all_reduce(sketch)
        codec.agree(sketch)
        code = codec.encode(gradient)
    """

    def __init__(self, name: str, *, seed: int = 0) -> None:
        """Makes a codec by its name; `seed`, different on each worker, determines its random choices.

        Raises:
            ValueError: no codec has that name.
        """
        self._native = _native.Codec(name, seed)

    @property
    def name(self) -> str:
        """Which one it is."""
        return self._native.name

    def encode(self, gradient: Values) -> Code:
        """The code of a gradient: float32, float16 or bfloat16.

        Raises:
            CodecError: NaN or infinity is in it, or workers have to agree first.
        """
        values = floats_of(gradient)
        return Code(self._native.encode(values), values.size)

    @property
    def owed(self) -> Floats | None:
        """What error feedback still owes to the model, a value for each of the gradient's; `None`: nothing yet.

        It belongs into a worker's checkpoint: set it again after a restart.
        """
        owed = self._native.owed
        return None if owed is None else np.frombuffer(owed, dtype=np.float32).copy()

    @owed.setter
    def owed(self, values: Values) -> None:
        self._native.owe(floats_of(values))

    def propose(self, gradient: Values) -> npt.NDArray[np.int32] | None:
        """What all workers have to add up before they can encode this round's gradients; `None`: nothing.

        Raises:
            CodecError: as of `encode`.
        """
        sketch = self._native.propose(floats_of(gradient))
        return None if sketch is None else np.frombuffer(sketch, dtype=np.int32).copy()

    def agree(self, total: npt.NDArray[np.int32]) -> None:
        """Takes the sum of what all workers have proposed.

        Raises:
            CodecError: it is no such sum, or a worker had NaN or infinity.
        """
        self._native.agree(np.ascontiguousarray(total, dtype=np.int32))


def decode(code: bytes, count: int, out: npt.NDArray[Any] | None = None) -> Floats:
    """The values of a code that is to hold `count` of them, in `out` if that is given.

    Raises:
        CodecError: it is damaged, or holds another number of values.
        ValueError: `out` is no array of so many float32, one behind the other.
    """
    values: Floats = np.empty(count, dtype=np.float32) if out is None else out
    if values.dtype != np.float32 or values.size != count or not values.flags.c_contiguous:
        raise ValueError(f"there is no room for {count} values of float32, one behind the other, in out")
    _native.decode(code, values.reshape(-1))
    return values
