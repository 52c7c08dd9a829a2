from collections.abc import Callable
from datetime import timedelta
from os import PathLike

import numpy as np
import numpy.typing as npt

__version__: str

def time_points(sizes: list[int], ready: list[int], start_up: int) -> list[tuple[list[int], int, int]]: ...

class Segment:
    def fileno(self) -> int: ...
    def __len__(self) -> int: ...
    @property
    def in_use(self) -> bool: ...

class Job:
    @staticmethod
    def join(socket: str | PathLike[str], job: str, token: bytes, elastic: bool, deadline: timedelta | None) -> Job: ...
    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> list[int]: ...
    @property
    def generation(self) -> int: ...
    @property
    def host(self) -> str: ...
    def segment(self, size: int) -> Segment: ...
    def start(
        self,
        segment: Segment,
        element_type: str,
        first: int,
        count: int,
        *,
        name: str,
        weight: int,
        deadline: timedelta | None,
        step_goes_on: bool,
        done: Callable[[list[tuple[int, int, int]] | None, Exception | None], None],
    ) -> None: ...
    def hand_in_profile(
        self,
        run: int,
        number: int,
        *,
        sizes: list[int],
        ready: list[int],
        start_up: int,
        deadline: timedelta | None,
    ) -> tuple[int, list[tuple[list[int], int, int]], str]: ...
    def close(self) -> None: ...

class Training:
    @staticmethod
    def open(
        socket: str | PathLike[str],
        job: str,
        token: bytes,
        worker: int,
        servers: list[str],
        codec: str,
        patience: timedelta | None,
    ) -> Training: ...
    @property
    def host(self) -> str: ...
    def segment(self, size: int) -> Segment: ...
    def begin(
        self,
        parameters: tuple[Segment, int, int],
        done: Callable[[tuple[int, int, int, bool] | None, Exception | None], None],
    ) -> None: ...
    def push(
        self,
        gradient: tuple[Segment, int, int],
        parameters: tuple[Segment, int, int],
        done: Callable[[tuple[int, int, int, bool] | None, Exception | None], None],
    ) -> None: ...
    def close(self) -> None: ...

class Codec:
    def __init__(self, name: str, seed: int) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def owed(self) -> bytes | None: ...
    def owe(self, values: npt.NDArray[np.float32]) -> None: ...
    def encode(self, gradient: npt.NDArray[np.float32]) -> bytes: ...
    def propose(self, gradient: npt.NDArray[np.float32]) -> bytes | None: ...
    def agree(self, total: npt.NDArray[np.int32]) -> None: ...

def decode(code: bytes, out: npt.NDArray[np.float32]) -> None: ...
