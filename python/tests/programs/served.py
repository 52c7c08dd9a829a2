"""Trains with a parameter server, with time points and whole gradients. The argument is the binary."""

from __future__ import annotations

import copy
import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from layers import Model

import tributary
from tributary.torch.timepoints import ServerTimePoints

logging.basicConfig(stream=sys.stderr, level=logging.INFO)
PORTS = (29960, 29961)
"""Ports of two servers. The parts of a gradient go to both."""
PROFILED, STEPS = 5, 14
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
servers = [f"{os.environ['MASTER_ADDR']}:{port}" for port in PORTS]


def serve(folder: Path) -> list[subprocess.Popen[bytes]]:
    options = []
    for name in ("points", "whole"):
        terms = 'policy = "bsp"\nepoch-iterations = 1000\nlearning-rate = 0.05\n[optimizer]\nname = "adam"'
        (folder / f"{name}.toml").write_text(f'name = "{name}"\nworkers = {size}\n{terms}\n')
        options += ["--ps-job", folder / f"{name}.toml"]
    commands = [[sys.argv[1], "server", "--ps-listen", f"0.0.0.0:{port}", *options] for port in PORTS]
    return [subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in commands]


def loss_of(model: torch.nn.Module, iteration: int) -> torch.Tensor:
    inputs = torch.randn(8, 16, generator=torch.Generator().manual_seed(100 * iteration + rank))
    return (model(inputs) ** 2).mean()


def vector(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def with_points(result: dict[str, Any]) -> torch.Tensor:
    with tributary.train("points", worker=rank, servers=servers) as training:
        model = ServerTimePoints(Model(), training, iterations=PROFILED)
        while model.step().iteration < STEPS:
            loss_of(model, model.step().iteration).backward()
        result["sets"] = len(model.schedule.sets)
        result["cleared"] = all(parameter.grad is None for parameter in model.parameters())
        trained = vector(model)
        refuse_and_go_on(model, result)
        follow(model, result)
    return trained


def refuse_and_go_on(model: ServerTimePoints, result: dict[str, Any]) -> None:
    """Checks that errors of a gradient are reported, and that the next gradient counts."""
    before, refused = vector(model), []
    (loss_of(model, 0) * torch.nan).backward()
    try:
        model.step()
    except tributary.TributaryError as error:
        refused.append(str(error))
    model.module.fails = True
    try:
        loss_of(model, 0).backward()
    except ArithmeticError as error:
        refused.append(str(error))
    model.module.fails = False
    with torch.no_grad():
        loss_of(model, 0)
    result["unchanged"] = torch.equal(before, vector(model))
    loss_of(model, 0).backward()
    try:
        loss_of(model.module, 0).backward()
    except RuntimeError as error:
        refused.append(str(error))
    result["next"] = model.step().iteration
    other = copy.deepcopy(model)
    with torch.no_grad():
        result["copy"] = torch.equal(loss_of(other, 0), loss_of(model, 0))
    try:
        loss_of(other, 0)
    except RuntimeError as error:
        refused.append(str(error))
    result["refused"] = refused


def follow(model: ServerTimePoints, result: dict[str, Any]) -> None:
    """Changes the backward pass of one worker, which then profiles again."""
    if rank == 1:
        model.module.seconds = 0.2
    for _ in range(25):
        loss_of(model, 0).backward()
    model.step()
    result["version"] = model.schedule.version
    result["gap"] = (model.schedule.sets[1].at - model.schedule.sets[0].at) / 1e9


def with_whole_gradients() -> torch.Tensor:
    with tributary.train("whole", worker=rank, servers=servers) as training:
        model = Model()
        model.seconds = 0.0
        parameters = vector(model)
        step = training.begin(parameters)
        while True:
            torch.nn.utils.vector_to_parameters(parameters, model.parameters())
            if step.iteration == STEPS:
                return vector(model)
            model.zero_grad()
            loss_of(model, step.iteration).backward()
            gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in model.parameters()]
            step = training.push(torch.cat([gradient.reshape(-1) for gradient in gradients]))


with tempfile.TemporaryDirectory() as folder, tributary.join(deadline=120) as job:
    running = serve(Path(folder)) if rank == 0 else []
    try:
        result: dict[str, Any] = {"worker": rank}
        trained = with_points(result)
        result["same"] = torch.equal(trained, with_whole_gradients())
        result["learned"] = not torch.equal(trained, vector(Model()))
        # The other workers may still wait for an answer of the servers.
        job.barrier()
    finally:
        for server in running:
            server.terminate()
            server.wait()
print(json.dumps(result))
