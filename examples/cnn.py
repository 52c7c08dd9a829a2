"""Trains a small convolutional network on the handwritten digits of scikit-learn.

tributary lab run topologies/two-leaves-4.toml -- python examples/cnn.py
torchrun --nproc-per-node 4 examples/cnn.py --backend gloo
"""

from __future__ import annotations

import loop
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

LEARN = 1536
"""The number of images for training. The others measure the accuracy."""


def model(hidden: int = 1024) -> nn.Module:
    """Makes a LeNet for images of 8 x 8 pixels, with 0.8 million parameters by default."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, hidden),
        nn.ReLU(),
        nn.Linear(hidden, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )


def digits() -> TensorDataset:
    """Returns the images and their labels."""
    read = load_digits()
    return TensorDataset(torch.from_numpy(read.images).float().unsqueeze(1) / 16, torch.from_numpy(read.target))


def main() -> None:
    """Reads the digits and trains."""
    chosen = loop.options(__doc__).parse_args()
    data = digits()
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0)).tolist()
    learn, check = order[:LEARN], order[LEARN:]
    loop.train(chosen, model, torch.utils.data.Subset(data, learn), torch.utils.data.Subset(data, check), rate=1e-3)


if __name__ == "__main__":
    main()
