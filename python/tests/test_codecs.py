"""Tests of the codecs, which need no fabric."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tributary

NAMES = ["none", "f16", "uniform-8", "terngrad", "one-bit", "top-100", "quantile-16", "casq-4", "casq-8"]
NAMES += ["f16-ef", "uniform-8-ef", "terngrad-ef", "one-bit-ef", "top-100-ef", "quantile-4-ef", "casq-4-ef"]
NAMES += ["casq-8-ef"]


def gradient(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(10_000).astype(np.float32) ** 3


@pytest.mark.parametrize("name", NAMES)
def test_a_code_has_its_ratio_and_error(name: str) -> None:
    values = gradient()
    codec = tributary.Codec(name, seed=7)
    code = codec.encode(values)
    decoded = tributary.decode(code.data, values.size)
    assert codec.name == name
    assert (decoded == code.decode()).all()
    lost = np.sum((values - decoded).astype(np.float64) ** 2) / np.sum(values.astype(np.float64) ** 2)
    assert code.error(values) == pytest.approx(lost)
    assert code.ratio == pytest.approx(values.nbytes / len(code.data))
    if name == "none":
        assert lost == 0
    if name.startswith("casq-4"):
        assert code.ratio > 13
        assert lost < 0.5


def test_types_and_layouts_of_gradients_do_not_matter() -> None:
    values = gradient().reshape(100, 100)
    encode = lambda values: tributary.Codec("casq-4", seed=3).encode(values).data  # noqa: E731
    assert encode(values) == encode(values.reshape(-1)) == encode(np.asfortranarray(values))
    half = values.astype(np.float16)
    assert encode(half) == encode(half.astype(np.float32))
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    tensor = torch.from_numpy(values.copy()).to(torch.bfloat16)
    assert encode(tensor) == encode(tensor.float().numpy()) == encode(tensor.float().requires_grad_())


def test_error_feedback_continues_from_a_checkpoint() -> None:
    gradients = [gradient(seed) for seed in range(4)]
    codec = tributary.Codec("casq-4-ef", seed=1)
    assert codec.owed is None
    first = codec.encode(gradients[0])
    owed = codec.owed
    assert owed is not None
    assert np.allclose(owed, gradients[0] - first.decode())
    # The residual is added to the next gradient, so no part of a gradient is lost permanently.
    sent = first.decode().astype(np.float64)
    for values in gradients[1:]:
        sent += codec.encode(values).decode()
    assert codec.owed is not None
    assert np.allclose(sent + codec.owed, np.sum(gradients, axis=0), atol=1e-3)

    again = tributary.Codec("casq-4-ef", seed=2)
    again.owed = owed
    assert (again.owed == owed).all()
    second = again.encode(gradients[1])
    assert np.allclose(again.owed, gradients[1] + owed - second.decode(), atol=1e-5)
    with pytest.raises(tributary.CodecError, match="no error feedback"):
        tributary.Codec("casq-4").owed = owed


def test_workers_that_share_a_codebook_agree_on_it_first() -> None:
    codecs = [tributary.Codec("casq-4-shared", seed=seed) for seed in range(2)]
    gradients = [gradient(seed) for seed in range(2)]
    with pytest.raises(tributary.CodecError, match="agree first"):
        codecs[0].encode(gradients[0])
    sketches = [codec.propose(values) for codec, values in zip(codecs, gradients, strict=True)]
    total = sketches[0] + sketches[1]
    for codec, values in zip(codecs, gradients, strict=True):
        codec.agree(total)
        assert codec.encode(values).error(values) < 0.5
    assert tributary.Codec("casq-4").propose(gradients[0]) is None


def test_errors_of_encode_and_decode_give_the_reason() -> None:
    with pytest.raises(ValueError, match="casq-4-ef"):
        tributary.Codec("zip")
    codec = tributary.Codec("f16")
    values = gradient()
    values[17] = np.nan
    with pytest.raises(tributary.CodecError, match="value 17 of the gradient"):
        codec.encode(values)
    with pytest.raises(TypeError, match="cannot encode i32: give float32, float16 or bfloat16"):
        codec.encode(np.ones(4, dtype=np.int32))
    code = codec.encode(np.ones(10, dtype=np.float32)).data
    with pytest.raises(tributary.CodecError, match="10 values where 9"):
        tributary.decode(code, 9)
    with pytest.raises(tributary.CodecError, match="cut short"):
        tributary.decode(code[:-1], 10)
    out = np.zeros(10, dtype=np.float32)
    assert tributary.decode(code, 10, out) is out
    assert (out == 1).all()
    with pytest.raises(ValueError, match="out"):
        tributary.decode(code, 10, np.zeros(10))


def test_a_lack_of_memory_raises_an_error() -> None:
    # The test runs in a separate process, whose address space is limited to little more than its present size.
    script = """
import resource
import numpy as np
import tributary

out = np.empty(1 << 28, dtype=np.float32)
pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + (256 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
try:
    tributary.decode(b"", out.size, out)
except MemoryError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "there is no memory for 268435456 values\n"), done.stderr
