"""In-network gradient aggregation for PyTorch and NumPy.

A process joins a job through the agent of its host, and sums arrays or tensors over all members. On two hosts:

>>> import numpy as np
>>> import tributary
>>> job = tributary.join()
>>> gradient = np.full(1 << 20, 0.5, dtype=np.float32)
>>> job.all_reduce(gradient).contributors
2
>>> gradient[:3]
array([1., 1., 1.], dtype=float32)

`train` trains with a parameter server instead. `Codec` encodes gradients with the codecs of the parameter server.
"""

import atexit

from tributary._native import __version__, end_deliveries
from tributary.codecs import Code, Codec, decode
from tributary.errors import (
    AgentUnreachableError,
    CodecError,
    DeadlineError,
    DetachedError,
    JobEndedError,
    JobOverError,
    PermissionDeniedError,
    RegroupError,
    SumError,
    TributaryError,
)
from tributary.job import Job, NotFinite, Reduced, Reduction, Regroup, Run, join, read_token
from tributary.training import PendingPart, PendingStep, Step, Training, train

__all__ = [
    "AgentUnreachableError",
    "Code",
    "Codec",
    "CodecError",
    "DeadlineError",
    "DetachedError",
    "Job",
    "JobEndedError",
    "JobOverError",
    "NotFinite",
    "PendingPart",
    "PendingStep",
    "PermissionDeniedError",
    "Reduced",
    "Reduction",
    "Regroup",
    "RegroupError",
    "Run",
    "Step",
    "SumError",
    "Training",
    "TributaryError",
    "__version__",
    "decode",
    "join",
    "read_token",
    "train",
]

atexit.register(end_deliveries)
