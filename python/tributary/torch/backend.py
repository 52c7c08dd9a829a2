"""The backend "tributary" of `torch.distributed`: sums over the fabric, other collectives by gloo."""

from __future__ import annotations

import atexit
import os
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future as Answer
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any
from weakref import ref

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllreduceOptions,
    Backend,
    BarrierOptions,
    BroadcastOptions,
    DebugLevel,
    PrefixStore,
    ReduceOp,
    ReduceScatterOptions,
    Store,
    Work,
    get_debug_level,
)

from tributary.errors import DeadlineError, SumError, TributaryError
from tributary.job import Job, Reduced
from tributary.memory import Part
from tributary.pending import callbacks
from tributary.torch.devices.device import Device, device_of
from tributary.torch.devices.node import node_group
from tributary.torch.devices.sums import DeviceSums, DeviceWork
from tributary.torch.gloo import Gloo
from tributary.torch.group import NAME, OVERRIDDEN, Group, made
from tributary.torch.group_job import GroupJob
from tributary.torch.integers import INTEGERS, store_sums, wide_of
from tributary.torch.joining import group_store, join_together, rendezvous
from tributary.torch.layouts import Plain
from tributary.torch.memory_ranges import MemoryRange, bytes_of, memory_ranges_of, tensors_of
from tributary.torch.profiling import ProfilerEvent
from tributary.torch.scatter import Scatter
from tributary.torch.traffic_counters import TrafficCounters, announce, logger
from tributary.torch.work import CoalescedWork, FabricWork, FinishingWork, PythonWork, timeout_error
from tributary.values import keeper_of, overlap_error, tensor_elements_overlap, words_of

BY_GLOO = (
    "_allgather_base",
    "all_gather_single",
    "all_gather_single_coalesced",
    "all_to_all_single",
    "allgather",
    "allgather_coalesced",
    "allreduce_coalesced",
    "allreduce_sparse",
    "alltoall",
    "alltoall_base",
    "gather",
    "gather_single",
    "monitored_barrier",
    "recv",
    "recv_anysource",
    "reduce",
    "scatter",
    "send",
)
"""Collectives that the fabric does not support."""
FABRIC_TYPES = INTEGERS | {torch.float64, torch.float32, torch.float16, torch.bfloat16}
"""Element types that the fabric sums for process groups."""
OVER_FABRIC = (
    "_reduce_scatter_base",
    "allreduce",
    "barrier",
    "broadcast",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
)
"""Collectives that the fabric supports, for some tensors and operators."""
LEAST_BROADCAST = 1 << 16
"""Bytes from which a broadcast goes over the fabric. Smaller ones take longer there than by gloo."""

OLDEST = "2.14"
"""The first version of PyTorch in which a backend may be a class in Python."""
WARNING_DELAY = 5.0
"""Seconds that the end of a group waits before it logs a warning."""
EXIT_TIMEOUT = 5.0
"""Seconds that the end of the interpreter waits for groups that were not destroyed."""

_backends: list[FabricBackend] = []
"""Keeps the backends alive, because PyTorch keeps only the C++ side of a backend."""
_interpreter_ends = False
"""True if the interpreter is ending."""


def register() -> None:
    """Registers the backend with `torch.distributed`. Both entry points call this."""
    if NAME.upper() not in dist.Backend._plugins:
        accelerator = torch.accelerator.current_accelerator()
        devices = ["cpu", *([accelerator.type] if accelerator else [])]
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=devices)
        # Functions run in the reverse order of their registration, and the functions of scripts may use groups.
        atexit.register(_end_gloo_of_all_groups)


_alone = False


def stand_alone() -> None:
    """Keeps this process's later groups out of jobs, so that all of their collectives use gloo."""
    global _alone
    _alone = True


def create(options: Any, _: Any) -> Group | FabricBackend:
    """Makes a group with its backend. `torch.distributed` calls this.

    For a group with several backends it makes only the backend. PyTorch then hides some methods of the backend's
    works.

    Raises:
        TributaryError: the interpreter is ending, or PyTorch is too old.
    """
    if torch.__version__ < OLDEST:
        raise TributaryError(
            f"this is PyTorch {torch.__version__}, and process groups over the fabric need PyTorch {OLDEST} or later: "
            "earlier versions do not support backends in Python. Install it, or sum with `tributary.join`"
        )
    store, rank, size, timeout = options.store, options.group_rank, options.group_size, options.timeout
    whole = getattr(options, "process_group", None)
    if whole is not None and whole._get_backend_name() not in ("custom", "undefined"):
        return _backend(store, rank, size, timeout)
    return _group(store, rank, size, timeout)


def _backend(store: Store, rank: int, size: int, timeout: timedelta) -> FabricBackend:
    if _interpreter_ends:
        raise TributaryError("the interpreter is ending: no process group can be made any more")
    if not _backends:
        _hide_from_compiler()
    backend = FabricBackend(store, rank, size, timeout)
    _backends.append(backend)
    return backend


def _group(store: Store, rank: int, size: int, timeout: timedelta) -> Group:
    backend = _backend(store, rank, size, timeout)
    used: Backend = backend
    if get_debug_level() == DebugLevel.DETAIL:
        # The wrapper compares the arguments of the ranks. PyTorch does not wrap the backend of a Python group itself.
        used = dist.distributed_c10d._create_process_group_wrapper(
            wrapped_pg=backend, store_prefix="checks", store=store, rank=rank, world_size=size, timeout=timeout
        )
    return Group(store, backend, used, _group)


def _end_gloo_of_all_groups() -> None:
    """Ends gloo's threads of groups that were not destroyed, before the interpreter ends."""
    global _interpreter_ends
    _interpreter_ends = True
    until = monotonic() + EXIT_TIMEOUT
    for backend in _backends:
        # A forked process has no threads of its parent.
        if os.getpid() == backend._process:
            if backend._group_job is not None:
                backend._group_job.leave()
            backend._gloo.end(max(until - monotonic(), 0))


def backend_of(group: dist.ProcessGroup | None) -> FabricBackend:
    """Returns the backend of a group of this process that takes part in a job.

    Args:
        group: the group; `None` for the group of all ranks.

    Raises:
        ValueError: the group does not take part in a job.
    """
    group = group or dist.group.WORLD
    if isinstance(group, Group):
        of_group: object = group.backend
    else:
        of_group = group._get_backend(torch.device("cpu")) if group is not None else None
    for backend in _backends:
        if backend is of_group and backend._job is not None:
            return backend
    raise ValueError(
        'this group does not take part in a job: call init_process_group("tributary"), and use its first group'
    )


class FabricBackend(Backend):
    """The backend of one process group.

    The first group of a process takes part in the job, and must have the job's ranks, unless all of them are on one
    host. The all-reduces of a job must have one order, but the collectives of several groups have none, so each other
    group of several hosts gets a job of its own (`GroupJob`).
    """

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        # Start the callbacks' threads here. If a thread of gloo started them at the first callback, they would get
        # its name.
        callbacks.start()
        self._sequence = 0
        self._job: Job | None = None
        self._timeout = timeout
        self._under_way: deque[FabricWork | DeviceWork] = deque()
        """The collectives over the fabric that may be in flight."""
        self._by_gloo_under_way: list[tuple[ref[FinishingWork], list[MemoryRange]]] = []
        """Collectives by gloo that may be in flight, with the memory that each of them uses."""
        self._coalesced: list[PythonWork] | None = None
        self._is_announced = False
        self._timed_out: str | None = None
        """The first collective over the fabric that has passed its timeout on this rank."""
        self._process = os.getpid()
        # The store is kept after the group's end. If another group follows, ranks that begin it before rank 0 still
        # use this store.
        self._store = group_store(store, rank)
        first = next((backend for backend in _backends if backend._job), None)
        parent = first._job if first is not None else None
        hosts = rendezvous(
            PrefixStore("rendezvous/", self._store), rank, size, timeout, parent.rank if parent is not None else None
        )
        self._without_job: str | None = None
        """The reason why the group takes part in no job."""
        self._group_job: GroupJob | None = None
        """The job of the group, if this is not the first group of the process."""
        self._job_ranks: list[int] = []
        """For each rank of the group, its rank in the job."""
        in_parent = [of_parent for of_parent in hosts.in_parent if of_parent is not None]
        if _alone or 0 < len(in_parent) < size:
            self._without_job = NOT_IN_JOB
        elif hosts.is_one and (parent is not None or size > 1 or "TRIBUTARY_JOB" not in os.environ):
            self._without_job = ONE_HOST
            if parent is None:
                announce(rank, f"all {size} ranks are on one host: gloo sums the gradients, and the fabric is not used")
        elif parent is not None:
            self._group_job = GroupJob(parent, PrefixStore("job/", self._store), rank, hosts, in_parent, timeout)
        else:
            self._job, self._job_ranks = join_together(PrefixStore("job/", self._store), rank, hosts, timeout)
            if self._job_ranks != list(range(size)):
                pairs = ", ".join(f"{own} is {of_job}" for own, of_job in enumerate(self._job_ranks))
                announce(
                    rank, f"the job numbers its ranks in the order of its hosts, and messages have its numbers: {pairs}"
                )
        self._device_sums = DeviceSums(
            partial(node_group, PrefixStore("node/", self._store), rank, hosts.of_ranks, timeout)
        )
        # All groups of the process count with the counters of the group that is in the job.
        self.counters: TrafficCounters = TrafficCounters(self._job) if first is None else first.counters
        # Make gloo's group last, because it waits longest for a missing rank.
        try:
            self._gloo = Gloo(PrefixStore("gloo/", self._store), rank, size, timeout)
        except BaseException:
            if self._job is not None:
                self._job.leave()
            raise

    @property
    def job(self) -> Job:
        """The job in which the ranks of this group take part.

        Raises:
            ValueError: the group is not the first group of its process, or has ended.
        """
        if self._job is None:
            raise ValueError(f"this group does not take part in a job: {self._without_job or 'it has ended'}")
        return self._job

    @property
    def device_memory(self) -> int:
        """Bytes of pinned host memory for tensors of devices."""
        return self._device_sums.nbytes

    def getBackendName(self) -> str:  # noqa: N802
        """The backend's name in `torch.distributed`."""
        return NAME

    def name(self) -> str:
        """The backend's name in `torch.distributed`."""
        return NAME

    def allreduce(self, tensors: list[torch.Tensor], opts: AllreduceOptions | None = None) -> Work:
        """Sums or averages a tensor over all ranks, in place."""
        opts = opts or AllreduceOptions()
        operator = _operator(opts)
        job, reason = self._job_for(tensors, operator) if len(tensors) == 1 else (None, "several tensors at once")
        if job is None:
            return self._by_gloo("allreduce", (tensors, opts), reason)
        tensor, size = tensors[0], self.size()
        is_average = operator == ReduceOp.AVG
        # The members compare the names of their all-reduces. So the name contains operator and type, which the
        # network does not know.
        what = f"all-reduce {{}} of {tuple(tensor.shape)}, {operator.name} of {tensor.dtype}"
        deadline = _timeout(opts)
        if (device := device_of(tensor)) is not None:
            divisor = size if is_average else 1
            return self._made(
                self._from_device(job, device, "allreduce", what, tensor, tensor, divisor, deadline=deadline)
            )
        if tensor.dtype not in INTEGERS:
            then = partial(_divide, [tensor.detach()], size) if is_average else None
            return self._made(self._over_fabric(job, "allreduce", what, tensor, tensors, then, deadline=deadline))
        self._check_process()
        self._wait_for_memory(tensors, also_by_gloo=True)
        wide = wide_of(tensor)
        then = partial(store_sums, wide, tensor.detach(), 0, size if is_average else 1)
        return self._made(
            self._over_fabric(job, "allreduce", what, wide, tensors, then, deadline=deadline, nbytes=tensor.nbytes)
        )

    def reduce_scatter(
        self,
        outputs: list[torch.Tensor],
        inputs: list[list[torch.Tensor]],
        opts: ReduceScatterOptions | None = None,
    ) -> Work:
        """Sums or averages one tensor for each rank, which gets the result of its tensor."""
        return self._reduce_scatter("reduce_scatter", (outputs, inputs), outputs, inputs, opts)

    def reduce_scatter_single(
        self, output: torch.Tensor, whole: torch.Tensor, opts: ReduceScatterOptions | None = None
    ) -> Work:
        """Sums or averages one tensor, and gives each rank its part of the result."""
        return self._reduce_scatter("reduce_scatter_single", (output, whole), [output], [[whole]], opts)

    def _reduce_scatter_base(
        self, output: torch.Tensor, whole: torch.Tensor, opts: ReduceScatterOptions | None = None
    ) -> Work:
        """The name of `reduce_scatter_single` in earlier versions of PyTorch."""
        return self._reduce_scatter("_reduce_scatter_base", (output, whole), [output], [[whole]], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: list[torch.Tensor], wholes: list[torch.Tensor], opts: ReduceScatterOptions | None = None
    ) -> Work:
        """Starts several `reduce_scatter_single` at once."""
        return self._reduce_scatter(
            "reduce_scatter_single_coalesced", (outputs, wholes), outputs, [[whole] for whole in wholes], opts
        )

    def reduce_scatter_tensor_coalesced(
        self, outputs: list[torch.Tensor], wholes: list[torch.Tensor], opts: ReduceScatterOptions | None = None
    ) -> Work:
        """The name of `reduce_scatter_single_coalesced` in earlier versions of PyTorch."""
        return self._reduce_scatter(
            "reduce_scatter_tensor_coalesced", (outputs, wholes), outputs, [[whole] for whole in wholes], opts
        )

    def _reduce_scatter(
        self,
        collective: str,
        arguments: tuple[Any, ...],
        outputs: list[torch.Tensor],
        inputs: list[list[torch.Tensor]],
        opts: ReduceScatterOptions | None,
    ) -> Work:
        """Sums the inputs of each output, and keeps this rank's part, or calls gloo's collective."""
        opts = opts or ReduceScatterOptions()
        operator, size = _operator(opts), self.size()
        tensors = [tensor for parts in inputs for tensor in parts]
        job, reason = self._job_for([*tensors, *outputs], operator)
        if job is None:
            return self._by_gloo(collective, (*arguments, opts), reason, counts_as="reduce_scatter")
        works: list[PythonWork] = []
        self._check_process()
        self._wait_for_memory([*tensors, *outputs])
        # Check all arguments before the first collective starts, so that after an error none has started.
        is_average = operator == ReduceOp.AVG
        scatters = [
            Scatter.of(output, parts, self.rank(), size, is_average=is_average, widens=device_of(output) is None)
            for output, parts in zip(outputs, inputs, strict=True)
        ]
        for scatter in scatters:
            output = scatter.output
            what = f"reduce-scatter {{}} of {tuple(scatter.whole.shape)}, {operator.name} of {output.dtype}"
            if (device := device_of(output)) is not None:
                works.append(
                    self._from_device(
                        job,
                        device,
                        "reduce_scatter",
                        what,
                        scatter.whole,
                        output,
                        scatter.divisor,
                        first=scatter.first,
                        deadline=_timeout(opts),
                    )
                )
                continue
            works.append(
                self._over_fabric(
                    job,
                    "reduce_scatter",
                    what,
                    scatter.whole,
                    [output],
                    scatter.finish,
                    scatter.part,
                    deadline=_timeout(opts),
                    nbytes=scatter.nbytes,
                    parts=scatter.parts(self._ranks_in_job()),
                )
            )
        return self._made(works[0] if len(works) == 1 else CoalescedWork(works))

    def broadcast(self, tensors: list[torch.Tensor], opts: BroadcastOptions) -> Work:
        """Replaces a tensor on all ranks with the root's."""
        job, reason = self._job_for_broadcast(tensors, opts.rootRank)
        if job is None:
            return self._by_gloo("broadcast", (tensors, opts), reason)
        tensor = tensors[0]
        plain = Plain(contiguous=True)
        contiguous: torch.Tensor = plain.of(tensor, is_written=True)
        keeper_of(contiguous)
        words, own = words_of(contiguous.detach().reshape(-1).view(torch.uint8).numpy())
        root = self._ranks_in_job()[opts.rootRank]

        return self._made(
            self._over_fabric(
                job,
                "broadcast",
                f"broadcast {{}} of {tuple(tensor.shape)}, {tensor.dtype}",
                torch.from_numpy(words),
                tensors,
                plain.copy_back if plain.copies else None,
                Part.of_bytes(own),
                deadline=_timeout(opts),
                nbytes=tensor.nbytes,
                root=root,
            )
        )

    def _job_for_broadcast(self, tensors: list[torch.Tensor], root: int) -> tuple[Job | None, str]:
        """Returns the job that broadcasts these tensors, or `None` and the reason why gloo does.

        Raises:
            ValueError: the group has no rank `root`.
        """
        if not 0 <= root < self.size():
            raise ValueError(f"broadcast from rank {root}: the group has ranks 0 to {self.size() - 1}")
        reason = _reason_for_gloo_broadcast(tensors)
        if reason is not None:
            return None, reason
        return self._job_of(tensors)

    def barrier(self, opts: BarrierOptions | None = None) -> Work:
        """Waits for all ranks."""
        opts = opts or BarrierOptions()
        # An all-reduce without elements takes one round trip.
        nothing = torch.zeros(0, dtype=torch.int32, device="cpu")
        job, reason = self._job_for([nothing], ReduceOp.SUM)
        if job is None:
            return self._by_gloo("barrier", (opts,), reason)
        work = self._over_fabric(job, "barrier", "barrier {}", nothing, [nothing], deadline=_timeout(opts))
        return self._made(work)

    def monitored_barrier(self, opts: BarrierOptions, wait_all_ranks: bool = False) -> None:
        """Waits for all ranks, by gloo, and reports the missing ranks."""
        self._check_process()
        self.counters.count_gloo("monitored_barrier", 0, NOT_BY_FABRIC)
        self._gloo.group.monitored_barrier(opts.timeout, wait_all_ranks)

    @property
    def supports_splitting(self) -> bool:
        """True: `split_group` makes groups of some of the ranks."""
        return True

    @property
    def supports_coalescing(self) -> bool:
        """False: each send and receive of a batch is a separate work."""
        return False

    @property
    def _supports_time_estimate(self) -> bool:
        return False

    @property
    def supports_shrinking(self) -> bool:
        """False: a group cannot continue without some of its ranks."""
        return False

    @property
    def supports_reconfigure(self) -> bool:
        """False: a group cannot get other ranks."""
        return False

    @property
    def supports_window(self) -> bool:
        """False: ranks cannot write to each other's memory."""
        return False

    @property
    def supports_abort_hooks(self) -> bool:
        """False: `abort` does not call hooks."""
        return False

    def supports_tensor_alloc(self, _: Any) -> bool:
        """Returns false, because PyTorch allocates tensors. For shared memory see `Job.empty_tensor`."""
        return False

    @property
    def options(self) -> Any:
        """The group's options: its name and timeout."""
        return Backend.Options(NAME, self._timeout)

    def eager_connect_single_device(self, _: Any) -> None:
        """Does nothing, because a group connects when it is made."""

    def perform_nocolor_split(self, _: Any) -> None:
        """Does nothing, because ranks outside a split group need not help to make it."""

    def split(self, store: Store, ranks: list[int], opts: Any) -> Backend | None:
        """Makes the backend of a group of some of the ranks; returns `None` on all other ranks."""
        if self.rank() not in ranks:
            return None
        return _backend(store, ranks.index(self.rank()), len(ranks), getattr(opts, "_timeout", self._timeout))

    def start_coalescing(self) -> None:
        """Collects works from now on, until `end_coalescing`."""
        self._coalesced = []

    def end_coalescing(self) -> Work:
        """Returns one work for all collectives since `start_coalescing`."""
        works, self._coalesced = self._coalesced or [], None
        return made(CoalescedWork(works))

    def _made(self, work: PythonWork) -> Work:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return made(work)

    def _by_gloo(self, collective: str, args: tuple[Any, ...], reason: str, *, counts_as: str | None = None) -> Work:
        """Calls gloo's collective, with copies of tensors where gloo would give wrong results.

        These are tensors of some layouts (see `layouts`), and averages. The first argument has the results, and the
        last one may be the collective's options.
        """
        self._check_process()
        self._device_sums.check()
        given, opts = args, args[-1]
        operator = _operator(opts) if hasattr(opts, "reduceOp") else None
        if operator == ReduceOp.AVG:
            tensors = tensors_of(args)
            if any(tensor.dtype == torch.bool for tensor in tensors):
                raise TypeError("an average of bool: convert the tensor to a numeric type first")
            are_integers = any(not (tensor.is_floating_point() or tensor.is_complex()) for tensor in tensors)
            plain = Plain(contiguous=True, kind=torch.int64 if are_integers else None)
            opts.reduceOp = ReduceOp.SUM
        else:
            plain = Plain(contiguous=True)
        takes_result = collective != "send" and (
            collective not in ("broadcast", "reduce") or (opts.rootRank == self.rank()) == (collective == "reduce")
        )
        args = tuple(plain.of(each, is_written=takes_result and index == 0) for index, each in enumerate(args))
        is_collective = collective not in ("send", "recv", "recv_anysource")
        if is_collective:
            self._wait_for_memory(tensors_of(given), also_by_gloo=True)
        else:
            self._wait_for_memory(tensors_of(given))
        self.counters.count_gloo(
            counts_as or collective, bytes_of(tensors_of(given[:2] if counts_as else given[:1])), reason
        )
        results = tensors_of(args[:1])

        def finish() -> None:
            if operator == ReduceOp.AVG and takes_result:
                _divide(results, self.size())
            plain.copy_back()

        follows = bool(plain.copies) or operator == ReduceOp.AVG
        by_gloo = self._started_by_gloo(collective, args, is_collective=is_collective)
        work = FinishingWork(
            by_gloo, tensors_of(given[:1]), finish if follows else None, is_point_to_point=not is_collective
        )
        if is_collective:
            self._by_gloo_under_way.append((ref(work), memory_ranges_of([*tensors_of(given), *tensors_of(args)])))
        return self._made(work)

    def _started_by_gloo(self, collective: str, args: tuple[Any, ...], *, is_collective: bool) -> Work:
        start: Callable[..., Work] = getattr(self._gloo.group, collective)
        if not is_collective:
            # gloo completes it only when a caller waits for it, so its duration has no meaning.
            return start(*args)
        event = ProfilerEvent(collective)
        try:
            work = start(*args)
        except BaseException as error:
            event.end()
            if str(error) == "Invalid scalar type":
                types = ", ".join(sorted({str(tensor.dtype) for tensor in tensors_of(args)}))
                raise RuntimeError(
                    f"{collective} of {types}: neither the fabric nor gloo supports this type; convert the tensor, for "
                    "instance to torch.int32 or torch.float32"
                ) from error
            raise
        event.end_with(work)
        return work

    def _over_fabric(
        self,
        job: Job,
        collective: str,
        what: str,
        values: torch.Tensor,
        results: list[torch.Tensor],
        then: Callable[[], object] | None = None,
        part: Part | None = None,
        *,
        deadline: timedelta | None = None,
        nbytes: int | None = None,
        root: int | None = None,
        parts: list[tuple[int, int]] | None = None,
    ) -> FabricWork:
        """Starts to sum one tensor over all ranks, or to broadcast it.

        Args:
            job: the job of the group.
            collective: the collective for metrics and profiler.
            what: the collective's name, which must be the same on all ranks, with a placeholder for its number.
            values: the tensor to sum. It takes the result, unless there is a `part`.
            results: the caller's tensors for the results.
            then: called when the result has been stored.
            part: the part of the result to keep, and the memory for it.
            deadline: the time that the collective may take [default: the group's timeout].
            nbytes: bytes of the caller's tensors, if `values` is a copy in another type.
            root: the rank in the job that broadcasts its `values`.
            parts: the parts of a reduce-scatter, as for `Job.start`.
        """
        self._check_process()
        self._check_order()
        _check_overlap(results)
        self._device_sums.wait_until_started()
        name = what

        def count() -> str:
            nonlocal name
            self._sequence += 1
            name = what.format(self._sequence)
            return name

        self._wait_for_memory([values, *results], also_by_gloo=True)
        event = ProfilerEvent(collective)
        try:
            call = job.begin(
                values,
                name=count,
                deadline=deadline or self._timeout,
                root=root,
                parts=parts,
                part=part,
                check=lambda reduced: self._check_whole(name, reduced, job),
                finish=partial(_in_inference_mode, then) if then is not None else None,
                at_end=event.end if event.is_recorded else None,
            )
        except BaseException:
            event.end()
            raise
        self._count_over_fabric(job, collective, values.nbytes if nbytes is None else nbytes)
        work = FabricWork(call, results, values)
        self._under_way.append(work)
        return work

    def _count_over_fabric(self, job: Job, collective: str, nbytes: int) -> None:
        if collective == "allreduce" and not self._is_announced:
            self._is_announced = True
            of_group = f" of a group by {self._group_job.name}" if self._group_job is not None else ""
            announce(
                self.rank(),
                f"gradients{of_group} go over the fabric: {self.size()} ranks, {job.switches} switch"
                f"{'es' * (job.switches != 1)}, slices of {job.values_per_slice} values",
            )
        self.counters.count_fabric(collective, nbytes)

    def _note_timeout(self, name: str, error: BaseException | None) -> None:
        if isinstance(error, DeadlineError):
            self._timed_out = self._timed_out or name

    def _from_device(
        self,
        job: Job,
        device: Device,
        collective: str,
        what: str,
        values: torch.Tensor,
        result: torch.Tensor,
        divisor: int,
        *,
        first: int = 0,
        deadline: timedelta | None = None,
    ) -> DeviceWork:
        """Starts to sum a tensor of a device over all ranks.

        Args:
            job: the job of the group.
            device: the device of the tensors.
            collective: the collective for metrics and profiler.
            what: the collective's name, which must be the same on all ranks, with a placeholder for its number.
            values: the values.
            result: takes elements of the sum.
            divisor: the number by which sums are divided.
            first: the index in `values` of the element that `result` begins with.
            deadline: the time that each part may take [default: the group's timeout].
        """
        self._check_process()
        self._check_order()
        _check_overlap([result])
        self._wait_for_memory([values, result], also_by_gloo=True)
        self._sequence += 1
        name = what.format(self._sequence)

        def start(part: torch.Tensor, number: int) -> Answer[None]:
            return self._start_part(job, f"{name}, part {number}", part, divisor, deadline or self._timeout)

        work = self._device_sums.start(device, name, values, result, first, start, ProfilerEvent(collective))
        self._count_over_fabric(job, collective, values.nbytes)
        self._under_way.append(work)
        return work

    def _start_part(self, job: Job, name: str, values: torch.Tensor, divisor: int, deadline: timedelta) -> Answer[None]:
        """Starts to sum a part of a tensor, in place, from its copy in host memory."""
        wide = wide_of(values) if values.dtype in INTEGERS else values
        reduction = job.start(wide, name=name, deadline=deadline)
        answer: Answer[None] = Answer()

        def end(reduction: Answer[Reduced]) -> None:
            self._note_timeout(name, reduction.exception())
            try:
                with torch.inference_mode():
                    self._check_whole(name, reduction.result(), job)
                    if wide is not values:
                        store_sums(wide, values, 0, divisor)
                    elif divisor != 1:
                        _divide([values], divisor)
            except DeadlineError as error:
                answer.set_exception(timeout_error(error))
            except Exception as error:
                answer.set_exception(error)
            else:
                answer.set_result(None)

        reduction.add_done_callback(end)
        return answer

    def _check_order(self) -> None:
        """Checks that this rank may start another collective.

        Raises:
            TributaryError: a collective has passed its timeout on this rank, so the other ranks may start it next; or
                a sum of a device's tensor has failed, whose error no caller may have seen.
        """
        self._device_sums.check()
        # Collectives over the fabric end in the order of their start.
        while self._under_way and self._under_way[0].has_ended():
            ended = self._under_way.popleft()
            self._note_timeout(ended.name, ended.exception())
        if self._timed_out is not None:
            raise TributaryError(
                f"{self._timed_out} was given up in this process group after its timeout, so the next collectives of "
                "the ranks may not match. Destroy the group on all ranks, and make another one"
            )

    def _wait_for_memory(self, tensors: list[torch.Tensor], *, also_by_gloo: bool = False) -> None:
        """Waits for collectives in flight on these tensors' memory, because the next one uses their results.

        Their errors are raised for the callers that wait for them.

        Raises:
            TributaryError: this thread completes results, and cannot wait for them.
        """
        self._device_sums.wait_for_memory(tensors)
        if not self._under_way and not self._by_gloo_under_way:
            return
        under_way: list[tuple[FabricWork | FinishingWork, list[MemoryRange]]]
        under_way = [(work, work.memory_ranges) for work in self._under_way if isinstance(work, FabricWork)]
        if also_by_gloo:
            # The caller may have dropped its work, and then does not read the result.
            by_gloo = [(work, ranges) for one, ranges in self._by_gloo_under_way if (work := one()) is not None]
            by_gloo = [(work, ranges) for work, ranges in by_gloo if not work.is_completed()]
            self._by_gloo_under_way = [(ref(work), ranges) for work, ranges in by_gloo]
            under_way += by_gloo
        ranges = memory_ranges_of(tensors)
        for each, others in under_way:
            if any(one.overlaps(other) for one in ranges for other in others):
                each.wait_for_end()

    def _check_whole(self, name: str, reduced: Reduced, job: Job) -> None:
        """Checks that no member is missing. A job continues without a member, but a script needs all ranks."""
        size = self.size()
        summed = min((run.contributors for run in reduced.runs), default=size)
        if summed < size:
            missing = [
                f"rank {rank} has left the job" + (f" ({job.lost[of_job]})" if job.lost.get(of_job) else "")
                for rank, of_job in enumerate(self._ranks_in_job())
                if of_job not in job.ranks
            ]
            raise SumError(
                f"{name} was summed over {summed} of {size} ranks: "
                f"{', '.join(missing) or 'one of them has left the job'}; check its process, its host and the path to "
                "it, and start all ranks again"
            )

    def _ranks_in_job(self) -> list[int]:
        """Returns the rank in the job for each rank of the group."""
        return self._group_job.job_ranks if self._group_job is not None else self._job_ranks

    def _check_process(self) -> None:
        """Checks that this process was not forked, because a forked process gets no results.

        Raises:
            TributaryError: this process was forked.
        """
        if os.getpid() != self._process:
            raise TributaryError(
                "this process was forked from a process with a process group, and cannot use it, because threads do "
                'not survive a fork: let the parent call this, or start processes by "spawn"'
            )

    def _job_for(self, tensors: list[torch.Tensor], operator: ReduceOp.RedOpType) -> tuple[Job | None, str]:
        """Returns the job that sums these tensors, or `None` and the reason why gloo sums them."""
        reason = _reason_for_gloo(tensors, operator)
        if reason is not None and (self._job is not None or self._group_job is not None):
            return None, reason
        return self._job_of(tensors)

    def _job_of(self, tensors: list[torch.Tensor]) -> tuple[Job | None, str]:
        """Returns the job for a collective that the fabric supports, or `None` and the reason why there is none."""
        if self._job is None and self._group_job is None:
            return None, self._without_job or ENDED
        if self._group_job is None:
            return self._job, ""
        return self._group_job.next_sum(bytes_of(tensors)), self._group_job.reason

    def _set_sequence_number_for_group(self) -> None:
        self._gloo.group._set_sequence_number_for_group()

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the time that each collective may take that starts from now on."""
        self._timeout = timeout
        self._gloo.group.set_timeout(timeout)

    def shutdown(self) -> None:
        """Ends the group, and reports the bytes over the fabric and by gloo.

        It waits for collectives in flight, because the other ranks could not finish them without this rank.

        Raises:
            TributaryError: some collectives have no result; the group has ended nevertheless. While another exception
                is being handled, as in a `finally`, this is only logged, so that it does not hide that exception.
        """
        if os.getpid() != self._process:
            return
        problem = None
        if self._group_job is not None:
            problem = self._wait_for_all()
            self._device_sums.end()
            try:
                self._group_job.finish()
            except TributaryError as error:
                logger.warning("rank %s: %s", self.rank(), error)
            self._group_job = None
        elif self._job is not None:
            announce(self.rank(), self.counters.summary())
            problem = self._wait_for_all()
            self._device_sums.end()
            if self.device_memory:
                announce(
                    self.rank(), f"tensors of devices went through {self.device_memory >> 20} MiB of pinned memory"
                )
            self.counters.report(waits=True)
            try:
                self._job.close()
            except TributaryError as error:
                logger.warning("rank %s: %s", self.rank(), error)
            self._job = None
        self._end_gloo()
        if problem is not None and sys.exc_info()[0] is None:
            raise problem
        if problem is not None:
            logger.warning("rank %s: %s", self.rank(), problem)

    def _end_gloo(self) -> None:
        """Ends gloo's group, and waits for its threads up to the timeout of a collective."""
        if self._gloo.end(WARNING_DELAY):
            return
        logger.warning("rank %s: the process group waits for the end of its collectives by gloo", self.rank())
        if not self._gloo.end(self._timeout.total_seconds()):
            logger.warning(
                "rank %s: the process group ends before some of its collectives by gloo have: wait for each collective "
                "before you destroy its group",
                self.rank(),
            )

    def _wait_for_all(self) -> TributaryError | None:
        """Waits for collectives in flight, up to the group's timeout; returns an error about the others."""
        seconds = self._timeout.total_seconds()
        until = monotonic() + seconds
        late, failed = [], []
        # Works that have ended already may have given their errors to futures.
        for work in [work for work in self._under_way if not work.has_ended()]:
            if not work.wait_for_end(max(until - monotonic(), 0)):
                late.append(work.name)
            elif (error := work.unraised_error()) is not None:
                failed.append((work.name, error))
        if not late and not failed:
            return None
        parts = [f"{', '.join(late)} not ended in {seconds:g} s"] if late else []
        parts += [f"{name} failed ({error})" for name, error in failed]
        message = (
            f"the process group ends before {len(late) + len(failed)} of its collectives, and their tensors are "
            f"wrong: {'; '.join(parts)}. Wait for each collective before you destroy its group"
        )
        return DeadlineError(message) if late else TributaryError(message)

    def abort(self) -> None:
        """Ends the group at once, and makes this host leave the job, so that the other ranks get errors."""
        if os.getpid() != self._process:
            return
        if self._job is not None:
            # Other objects refer to the job, too, so it would not end without this reference.
            self._job.leave()
            self._job = None
        if self._group_job is not None:
            self._group_job.leave()
            self._group_job = None
        self._device_sums.end()
        self._gloo.abort()


NOT_IN_JOB = "its ranks are in no job"
ONE_HOST = "all ranks are on one host"
ENDED = "the group has ended"
NOT_BY_FABRIC = "the fabric does not do that"


def _reason_for_gloo(tensors: list[torch.Tensor], operator: ReduceOp.RedOpType) -> str | None:
    """Returns the reason why the fabric cannot reduce these tensors; `None` if it can."""
    if operator not in (ReduceOp.SUM, ReduceOp.AVG):
        return f"the operator {operator.name}"
    types = {tensor.dtype for tensor in tensors}
    if len(types) != 1:
        return "several types of elements at once"
    if operator == ReduceOp.AVG and torch.bool in types:
        return "an average of bool"
    if not types <= FABRIC_TYPES:
        return f"elements of {types.pop()}"
    if any(tensor.layout != torch.strided for tensor in tensors):
        return "a sparse tensor"
    return None


def _reason_for_gloo_broadcast(tensors: list[torch.Tensor]) -> str | None:
    """Returns the reason why the fabric does not broadcast these tensors; `None` if it does."""
    if len(tensors) != 1:
        return "several tensors at once"
    if tensors[0].layout != torch.strided:
        return "a sparse tensor"
    if tensors[0].device.type != "cpu":
        return "a tensor of a device"
    return "a small tensor" if tensors[0].nbytes < LEAST_BROADCAST else None


def _operator(opts: AllreduceOptions | ReduceScatterOptions) -> ReduceOp.RedOpType:
    """Returns the operator without the object around it, whose comparison is always false."""
    around: Any = opts.reduceOp
    operator: ReduceOp.RedOpType = around.op
    return operator


def _check_overlap(results: list[torch.Tensor]) -> None:
    """Checks that the elements of each tensor have memory of their own.

    Raises:
        TributaryError: elements share memory.
    """
    for result in results:
        if tensor_elements_overlap(result):
            raise TributaryError(str(overlap_error("tensor", result.shape)))


def _timeout(opts: Any) -> timedelta | None:
    """Returns the timeout of a call, if it has one."""
    return opts.timeout if opts.timeout > timedelta(0) else None


def _in_inference_mode(call: Callable[[], object]) -> None:
    """Calls a function that writes to tensors: without autograd, and also to tensors made in inference mode."""
    with torch.inference_mode():
        call()


def _divide(sums: list[torch.Tensor], size: int) -> None:
    """Divides sums by the number of ranks. The remainders of integers are dropped, as in NCCL."""
    for tensor in sums:
        tensor.div_(size, rounding_mode=None if tensor.is_floating_point() or tensor.is_complex() else "trunc")


def _forward(collective: str) -> Callable[..., Work]:
    def call(self: FabricBackend, *args: Any) -> Work:
        return self._by_gloo(collective, args, NOT_BY_FABRIC)

    call.__name__ = collective
    call.__doc__ = f"`{collective}` by gloo."
    return call


def _hide_from_compiler() -> None:
    """Hides the collectives from `torch.compile`.

    It must not trace the collectives of a forward pass, which synchronise a model's buffers. The class
    definition cannot do this: it runs during `import torch`, and this imports the compiler.
    """
    disable: Callable[[Any], Any] = torch.compiler.disable
    for collective in (*BY_GLOO, *OVER_FABRIC):
        setattr(FabricBackend, collective, disable(getattr(FabricBackend, collective)))
    for collective in OVERRIDDEN:
        setattr(Group, collective, disable(getattr(Group, collective)))


for _collective in BY_GLOO:
    if _collective not in vars(FabricBackend):
        setattr(FabricBackend, _collective, _forward(_collective))
