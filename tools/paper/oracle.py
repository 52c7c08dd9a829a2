"""Computes gradients of the examples' models for `tributary-paper`, on request.

It writes the number of parameters, the number of samples and the label of each sample, then answers requests. A
request is a byte with its kind, then its data. All numbers are little-endian, and parameters are one flat array.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import cnn
import numpy
import torch
import transformer
from torch import nn

INITIAL, GRADIENT, ACCURACY = range(3)


def digits() -> tuple[torch.Tensor, torch.Tensor, list[int], int]:
    """Images, their classes, the class of each image as a label, and the number to learn from."""
    data = cnn.digits()
    return data.tensors[0], data.tensors[1], data.tensors[1].tolist(), cnn.LEARN


def letters() -> tuple[torch.Tensor, torch.Tensor, list[int], int]:
    """Pieces of text, the next letters, the text part of each piece, and the number to learn from."""
    data = transformer.pieces()
    samples = min(len(data), transformer.LEARN + transformer.CHECK)
    parts = [piece * 10 // samples for piece in range(samples)]
    return data.tensors[0][:samples], data.tensors[1][:samples], parts, transformer.LEARN


MODELS = {
    "cnn": (lambda: cnn.model(hidden=1536), digits),
    "transformer": (lambda: transformer.Transformer(layers=6), letters),
}


def main() -> None:
    """Answers requests until standard input ends."""
    torch.set_num_threads(1)
    make, load = MODELS[sys.argv[1]]
    inputs, targets, labels, learn = load()
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    learnt, held_out = order[:learn], order[learn:]
    model = make()
    count = sum(parameter.numel() for parameter in model.parameters())
    told, says = sys.stdin.buffer, sys.stdout.buffer
    says.write(struct.pack(f"<{2 + learn}I", count, learn, *(labels[sample] for sample in learnt.tolist())))
    says.flush()
    while asked := told.read(1):
        if asked[0] == INITIAL:
            torch.manual_seed(struct.unpack("<Q", told.read(8))[0])
            model = make()
            answer = nn.utils.parameters_to_vector(model.parameters()).detach()
        else:
            flat = torch.from_numpy(numpy.frombuffer(told.read(4 * count), "<f4").copy())
            nn.utils.vector_to_parameters(flat, model.parameters())
            if asked[0] == GRADIENT:
                samples = numpy.frombuffer(told.read(4 * struct.unpack("<I", told.read(4))[0]), "<u4")
                answer = gradient(model, *of(inputs, targets, learnt[samples.astype(numpy.int64)]))
            else:
                answer = accuracy(model, *of(inputs, targets, held_out))
        says.write(answer.numpy().astype("<f4").tobytes())
        says.flush()


def of(inputs: torch.Tensor, targets: torch.Tensor, samples: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Some of the data."""
    return inputs[samples], targets[samples]


def gradient(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The gradient of the mean loss."""
    model.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten()).backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@torch.no_grad()
def accuracy(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The fraction of correct predictions."""
    return (model(inputs).argmax(-1) == targets).float().mean().reshape(1)


if __name__ == "__main__":
    main()
