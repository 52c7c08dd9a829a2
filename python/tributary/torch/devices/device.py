"""The interface of a device with streams and events, and its implementation by `torch.accelerator`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store, Work, _create_work_from_future
from torch.futures import Future

BACKENDS = {"cuda": "ProcessGroupNCCL", "xpu": "ProcessGroupXCCL"}
"""The classes of backends in `torch.distributed` for the accelerators of one host."""

Stream = Any
"""A queue of operations of a device. The operations of one stream run in order."""


class Event(Protocol):
    """A position in a stream, like `torch.Event`."""

    def record(self, stream: Stream) -> None:
        """Sets the event to the present end of a stream."""

    def wait(self, stream: Stream) -> None:
        """Lets later operations of a stream wait for the event. Returns at once."""

    def synchronize(self) -> None:
        """Waits on the host until the stream has reached the event."""

    def query(self) -> bool:
        """Returns true if the stream has reached the event."""


class Device(ABC):
    """A device whose operations run in streams. Methods that enqueue an operation return before it runs."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The device's name, such as `cuda:0`."""

    @property
    @abstractmethod
    def unit(self) -> str:
        """An id of the hardware, which differs between the devices of a host."""

    @property
    @abstractmethod
    def has_backend(self) -> bool:
        """True if PyTorch has a backend that adds tensors of several devices of a host."""

    @abstractmethod
    def backend(self, store: Store, rank: int, size: int, timeout: timedelta) -> Any:
        """Makes that backend, for some ranks of a host. Its collectives run in the current stream."""

    @abstractmethod
    def current_stream(self) -> Stream:
        """Returns this thread's current stream."""

    @abstractmethod
    def stream(self) -> Stream:
        """Makes a stream."""

    @abstractmethod
    def on(self, stream: Stream) -> AbstractContextManager[Any]:
        """Makes a stream this thread's current stream, until the context ends."""

    @abstractmethod
    def event(self) -> Event:
        """Makes an event."""

    @abstractmethod
    def host_buffer(self, nbytes: int) -> torch.Tensor:
        """Allocates bytes of host memory that the device can copy without the help of the host."""

    @abstractmethod
    def empty(self, like: torch.Tensor) -> torch.Tensor:
        """Allocates a contiguous tensor of the device, for the current stream."""

    @abstractmethod
    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Enqueues a copy in the current stream. One of the tensors may be in a host buffer."""

    @abstractmethod
    def keep(self, tensor: torch.Tensor, stream: Stream) -> None:
        """Keeps a tensor's memory from being used for other tensors while operations of a stream use it."""

    @abstractmethod
    def future(self) -> Future[Any]:
        """Makes a future whose value is ready when the stream that is current in `set_result` has reached that call.

        Code that takes the value, such as a callback, has streams that wait for it.
        """

    @abstractmethod
    def hold(self) -> Callable[[], None] | None:
        """Blocks the current stream, not the host, until the returned function is called.

        Returns `None` if the device cannot do this.
        """


class Accelerator(Device):
    """A device of `torch.accelerator`, by PyTorch's generic streams and events."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    @property
    def name(self) -> str:
        """The device's name, such as `cuda:0`."""
        return str(self._device)

    @property
    def unit(self) -> str:
        """The id that the driver reports, or the device's name."""
        properties = getattr(torch.get_device_module(self._device), "get_device_properties", None)
        return str(getattr(properties(self._device) if properties else None, "uuid", self._device))

    @property
    def has_backend(self) -> bool:
        """True if this PyTorch was built with a backend for the device."""
        return hasattr(dist, BACKENDS.get(self._device.type, ""))

    def backend(self, store: Store, rank: int, size: int, timeout: timedelta) -> Any:
        """Makes the accelerator's backend."""
        kind = getattr(dist, BACKENDS[self._device.type])
        options = kind.Options()
        options._timeout = timeout
        return kind(store, rank, size, options)

    def current_stream(self) -> Stream:
        """Returns this thread's current stream."""
        return torch.accelerator.current_stream(self._device)

    def stream(self) -> Stream:
        """Makes a stream."""
        return torch.Stream(device=self._device)

    def on(self, stream: Stream) -> AbstractContextManager[Any]:
        """Makes a stream this thread's current stream, and its device the current device."""
        return stream  # type: ignore[no-any-return]

    def event(self) -> Event:
        """Makes an event."""
        return torch.Event(device=self._device)

    def host_buffer(self, nbytes: int) -> torch.Tensor:
        """Allocates pinned bytes."""
        return torch.empty(nbytes, dtype=torch.uint8, device="cpu", pin_memory=True)

    def empty(self, like: torch.Tensor) -> torch.Tensor:
        """Allocates a contiguous tensor of the device, for the current stream."""
        return torch.empty_like(like, memory_format=torch.contiguous_format)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Enqueues a copy in the current stream."""
        target.copy_(source, non_blocking=True)

    def keep(self, tensor: torch.Tensor, stream: Stream) -> None:
        """Reports the use of a tensor to PyTorch's allocator."""
        tensor.record_stream(stream)

    def future(self) -> Future[Any]:
        """Makes a future with events of the device."""
        return Future(devices=[self._device])

    def hold(self) -> Callable[[], None] | None:
        """Blocks the current stream by PyTorch's kernel for gloo. Only CUDA has this kernel."""
        if self._device.type != "cuda" or not hasattr(Work, "block_current_stream"):
            return None
        released: Future[None] = Future()
        _create_work_from_future(released).block_current_stream()
        return lambda: released.set_result(None)


def device_of(tensor: torch.Tensor) -> Device | None:
    """Returns the device of a tensor; `None` if the tensor is in host memory."""
    return None if tensor.device.type == "cpu" else Accelerator(tensor.device)
