"""Trains a small transformer to write Python, letter by letter, on the source code of NumPy.

tributary lab run topologies/two-leaves-4.toml -- python examples/transformer.py
torchrun --nproc-per-node 4 examples/transformer.py --backend gloo
"""

from __future__ import annotations

from pathlib import Path

import loop
import numpy
import torch
from torch import nn
from torch.utils.data import Subset, TensorDataset

LETTERS = 128
"""The number of different letters: ASCII."""
CONTEXT = 64
"""The number of letters that the model sees."""
WIDTH = 128
LAYERS = 4
LEARN = 2048
"""The number of pieces of text for training."""
CHECK = 256


class Transformer(nn.Module):
    """Predicts the next letter after each letter of a text, with 0.8 million parameters by default."""

    def __init__(self, layers: int = LAYERS) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, LETTERS)
        self.register_buffer("ahead", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Returns the scores of all possible next letters after each letter."""
        seen = self.letters(text) + self.places.weight
        scores: torch.Tensor = self.out(self.layers(seen, mask=self.ahead, is_causal=True))
        return scores


def text() -> torch.Tensor:
    """Returns the concatenated source files of `numpy.lib`, as bytes below 128."""
    files = sorted(Path(numpy.__file__).parent.glob("lib/*.py"))
    content = b"".join(file.read_bytes() for file in files)
    letters = torch.frombuffer(bytearray(content), dtype=torch.uint8).long()
    return letters[letters < LETTERS]


def pieces() -> TensorDataset:
    """Returns pieces of the text, and the same pieces shifted by one letter."""
    cut = text().unfold(0, CONTEXT + 1, CONTEXT)
    return TensorDataset(cut[:, :-1], cut[:, 1:])


def main() -> None:
    """Cuts the text into pieces and trains."""
    parser = loop.options(__doc__)
    parser.set_defaults(batch=8)
    chosen = parser.parse_args()
    data = pieces()
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0)).tolist()
    learn, check = order[:LEARN], order[LEARN : LEARN + CHECK]
    loop.train(chosen, Transformer, Subset(data, learn), Subset(data, check), rate=2e-3)


if __name__ == "__main__":
    main()
