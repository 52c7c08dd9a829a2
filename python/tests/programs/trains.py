"""Trains as a worker of a parameter server, which the first rank starts. The argument is the binary."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Event, Thread

import numpy as np

import tributary

try:
    import torch
except ImportError:
    torch = None

PORT = 29950
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
servers = [f"{os.environ['MASTER_ADDR']}:{PORT}"]


def serve(folder: Path) -> subprocess.Popen[bytes]:
    (folder / "token").write_text("00ff17\n")
    options = []
    for name in ("arrays", "tensors"):
        job = folder / f"{name}.toml"
        terms = 'policy = "bsp"\nepoch-iterations = 1000\nlearning-rate = 0.25\ndecay = 1.0'
        job.write_text(f'name = "{name}"\nworkers = {size}\n{terms}\ntoken-file = "{folder}/token"\n')
        options += ["--ps-job", job]
    command = [sys.argv[1], "server", "--ps-listen", f"0.0.0.0:{PORT}", *options]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def refused(error: type[Exception], words: str, call: object, *arguments: object) -> None:
    try:
        call(*arguments)
    except error as problem:
        assert words in str(problem), problem
    else:
        raise AssertionError(f"{words}: not refused")


def train_arrays(job: tributary.Job) -> None:
    token, reported = bytes.fromhex("00ff17"), Event()
    with tributary.train("arrays", worker=rank, servers=servers, token=token, workers=size + 1) as other:
        refused(tributary.TributaryError, "workers share the data", other.begin, other.empty(1000))

    def waits(what: str) -> None:
        if "training to start: worker 1 has not joined" in what:
            reported.set()

    # Worker 1 joins only after worker 0 got the report that worker 1 is missing.
    gate = Thread(target=lambda: (rank == 1 or reported.wait(60), job.barrier()))
    gate.start()
    if rank == 1:
        gate.join()
    with tributary.train(
        "arrays", worker=rank, servers=servers, token=token, workers=size, settings="seed 1", waits=waits
    ) as training:
        refused(tributary.TributaryError, "begin", training.push, np.ones(1000, dtype=np.float32))
        parameters = training.empty((10, 100))
        parameters[:] = 3
        step = training.begin(parameters)
        assert rank == 1 or reported.is_set()
        gate.join()
        assert (step.iteration, step.updates) == (0, 0), step
        assert (parameters == 3).all()

        # A read-only gradient that is copied, and a gradient in memory shared with the agent.
        gradient = np.full(1000, rank, dtype=np.float32)
        gradient.flags.writeable = False
        step = training.push(gradient)
        assert (step.iteration, step.updates) == (1, 1), step
        expected = 3 - 0.25 * (size - 1) / 2
        assert np.allclose(parameters, expected)
        shared = training.empty(1000)
        shared[:] = rank + 1
        step = training.start_push(shared).result(timeout=60)
        expected -= 0.25 * (size + 1) / 2
        assert step.iteration == 2
        assert np.allclose(parameters, expected)

        refused(ValueError, "999 values for 1000 parameters", training.push, np.ones(999, dtype=np.float32))
        refused(TypeError, "i32", training.push, np.ones(1000, dtype=np.int32))
        spoilt = np.ones(1000, dtype=np.float32)
        spoilt[17] = np.nan
        refused(tributary.TributaryError, "value 17", training.push, spoilt)
        assert np.allclose(parameters, expected)
        # The gradient may be in the parameters' own memory.
        assert training.push(parameters).iteration == 3
        expected *= 0.75
        assert np.allclose(parameters, expected)

        # Parts come in any order, copied or in shared memory, and dropped parts do not count.
        training.push_part(np.full(300, 9, dtype=np.float32), 0)
        training.drop_parts()
        shared[:] = rank
        training.push_part(shared[:400], 600)
        pending = training.start_push_part(np.full(300, rank, dtype=np.float32), 0)
        refused(tributary.TributaryError, "600..1000 have come already", training.push_part, shared[:9], 599)
        pending.result(timeout=60)
        step = training.push_rest(np.full(300, rank, dtype=np.float32), 300)
        expected -= 0.25 * (size - 1) / 2
        assert step.iteration == 4
        assert np.allclose(parameters, expected)
    refused(tributary.JobOverError, "", training.push, gradient)


def train_tensors() -> None:
    token = bytes.fromhex("00ff17")
    with tributary.train("tensors", worker=rank, servers=servers, token=token, codec="casq-4-ef") as training:
        torch.manual_seed(1)
        model = torch.nn.Linear(50, 1)
        parameters = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
        wanted = torch.randn(50)
        torch.manual_seed(10 + rank)
        step, losses = training.begin(parameters), []
        while step.iteration < 30:
            torch.nn.utils.vector_to_parameters(parameters, model.parameters())
            data = torch.randn(64, 50)
            loss = torch.nn.functional.mse_loss(model(data)[:, 0], data @ wanted)
            losses.append(float(loss.detach()))
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            step = training.push(torch.cat([gradient.reshape(-1) for gradient in gradients]))
        assert losses[-1] < losses[0] / 10, losses


with tempfile.TemporaryDirectory() as folder, tributary.join(deadline=120) as job:
    server = serve(Path(folder)) if rank == 0 else None
    try:
        wrong = tributary.train("arrays", worker=rank, servers=servers, token=b"guess")
        refused(tributary.PermissionDeniedError, "token", wrong.begin, np.ones(1000, dtype=np.float32))
        refused(
            tributary.TributaryError, "casq", lambda: tributary.train("arrays", worker=0, servers=servers, codec="zip")
        )
        train_arrays(job)
        if torch is not None:
            train_tensors()
        # The other workers may still wait for an answer of the server.
        job.barrier()
    finally:
        if server is not None:
            server.terminate()
            server.wait()
print("right")
