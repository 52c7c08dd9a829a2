"""The codecs of the parameter server, for arrays and tensors."""

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
    """An encoded gradient."""

    data: bytes
    """The bytes to send. `crates/codec/src/wire.rs` describes their format."""
    count: int
    """The number of values."""

    @property
    def ratio(self) -> float:
        """The size of the values as float32, divided by the size of the code."""
        return 4 * self.count / len(self.data)

    def decode(self) -> Floats:
        """Decodes the values, as the receiver of the code does."""
        return decode(self.data, self.count)

    def error(self, gradient: Values) -> float:
        """Returns the relative error: |gradient - code|² / |gradient|², or |code|² if the gradient is 0."""
        values = floats_of(gradient).astype(np.float64)
        lost, whole = float(np.sum((values - self.decode()) ** 2)), float(np.sum(values**2))
        return lost / whole if whole > 0 else lost


class Codec:
    """An encoder of one worker. It may keep state between gradients, so each worker needs its own.

    The names are `none`, `f16`, `uniform-1` to `uniform-8`, `terngrad`, `one-bit`, `top-2` to `top-65535`, `quantile-2`
    to `quantile-256` (powers of two), `casq-4` and `casq-8`. The suffix `-ef` adds error feedback to any of them except
    `none`, as in `casq-4-ef`.

    >>> gradient = np.linspace(-1, 1, 10_000, dtype=np.float32)
    >>> code = Codec("uniform-8").encode(gradient)
    >>> round(code.ratio), code.error(gradient) < 1e-4
    (4, True)

    With `casq-4-shared` the workers agree on a codebook before each gradient. `job.all_reduce(sketch)` sums their
    sketches; here there is one worker:

    >>> codec = Codec("casq-4-shared")
    >>> sketch = codec.propose(gradient)
    >>> codec.agree(sketch)
    >>> round(codec.encode(gradient).ratio)
    16
    """

    def __init__(self, name: str, *, seed: int = 0) -> None:
        """Makes a codec.

        Args:
            name: one of the names above.
            seed: the seed of the codec's random choices, different on each worker.

        Raises:
            ValueError: no codec has that name.
        """
        self._native = _native.Codec(name, seed)

    @property
    def name(self) -> str:
        """The codec's name."""
        return self._native.name

    def encode(self, gradient: Values) -> Code:
        """Encodes a gradient of float32, float16 or bfloat16.

        Raises:
            CodecError: the gradient contains NaN or infinity, or the workers must agree on a codebook first.
        """
        values = floats_of(gradient)
        return Code(self._native.encode(values), values.size)

    @property
    def owed(self) -> Floats | None:
        """The residual of error feedback, one value for each value of the gradient; `None` if there is none.

        Save it in the worker's checkpoint, and set it again after a restart.
        """
        owed = self._native.owed
        return None if owed is None else np.frombuffer(owed, dtype=np.float32).copy()

    @owed.setter
    def owed(self, values: Values) -> None:
        self._native.owe(floats_of(values))

    def propose(self, gradient: Values) -> npt.NDArray[np.int32] | None:
        """Returns the sketch that all workers must sum before they encode; `None` if the codec needs none.

        Raises:
            CodecError: as for `encode`.
        """
        sketch = self._native.propose(floats_of(gradient))
        return None if sketch is None else np.frombuffer(sketch, dtype=np.int32).copy()

    def agree(self, total: npt.NDArray[np.int32]) -> None:
        """Accepts the sum of the sketches that all workers proposed.

        Raises:
            CodecError: `total` is not a sum of sketches, or a worker's gradient contained NaN or infinity.
        """
        self._native.agree(np.ascontiguousarray(total, dtype=np.int32))


def decode(code: bytes, count: int, out: npt.NDArray[Any] | None = None) -> Floats:
    """Decodes a code of `count` values.

    >>> decode(Codec("none").encode(np.array([0.5, -2.0], dtype=np.float32)).data, 2)
    array([ 0.5, -2. ], dtype=float32)

    Args:
        code: the bytes of the code.
        count: the number of values that the code must hold.
        out: the array for the values [default: a new array].

    Raises:
        CodecError: the code is damaged, or holds another number of values.
        ValueError: `out` is not a contiguous array of `count` float32 values.
    """
    values: Floats = np.empty(count, dtype=np.float32) if out is None else out
    if values.dtype != np.float32 or values.size != count or not values.flags.c_contiguous:
        raise ValueError(f"out must be a contiguous array of {count} values of float32")
    _native.decode(code, values.reshape(-1))
    return values
