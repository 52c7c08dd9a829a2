"""Tests that need no fabric."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from threading import Thread

import numpy as np
import pytest

import tributary
from tributary.values import Elements


def test_the_error_names_a_missing_agent(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with pytest.raises(tributary.AgentUnreachableError, match=r"agent\.sock: is `tributary agent` running"):
        tributary.join("job", token=b"secret", socket=path)
    with pytest.raises(ConnectionError):
        tributary.join("job", token=b"secret", socket=path)


def test_the_report_of_a_wait_names_a_silent_agent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, waits = tmp_path / "agent.sock", Queue[str]()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        # The thread waits as long as the socket exists.
        joining = Thread(target=fail_to_join, args=(path, waits.put))
        joining.start()
        what = waits.get(timeout=60)
    joining.join()
    assert what.startswith(f"the agent at {path}, which has said nothing for 2 s"), what
    assert f"waiting for {what}" in caplog.messages


def fail_to_join(path: Path, waits: Callable[[str], None]) -> None:
    with pytest.raises(tributary.AgentUnreachableError):
        tributary.join("job", token=b"secret", socket=path, waits=waits)


def test_the_error_of_a_missing_argument_names_its_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("TRIBUTARY_JOB", "TRIBUTARY_TOKEN_FILE"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ValueError, match="TRIBUTARY_JOB"):
        tributary.join()
    with pytest.raises(ValueError, match="TRIBUTARY_TOKEN_FILE"):
        tributary.join("job")
    file = tmp_path / "token"
    file.write_text("not hexadecimal\n")
    monkeypatch.setenv("TRIBUTARY_TOKEN_FILE", str(file))
    with pytest.raises(ValueError, match="not a token"):
        tributary.join("job")


def test_elements_are_the_array_itself_or_a_copy_that_is_stored_back() -> None:
    array = np.zeros((3, 4), dtype=np.float32)
    whole = Elements.of(array)
    whole.data.view(np.float32)[:] = 7
    assert (whole.type, whole.count, whole.store) == ("f32", 12, None)
    assert (array == 7).all()
    part = Elements.of(array[:, ::2])
    part.data.view(np.float32)[:] = 8
    assert (array == 7).all()
    assert part.store is not None
    part.store()
    assert (array == [8, 7, 8, 7]).all()


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        (np.zeros(3, dtype=np.uint16), TypeError, "uint16"),
        ([1.0, 2.0], TypeError, "list"),
        (np.frombuffer(bytes(8), dtype=np.float32), ValueError, "read-only"),
    ],
)
def test_values_that_cannot_be_reduced_are_refused(values: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Elements.of(values)


def test_tensors_that_cannot_be_reduced_are_refused() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with pytest.raises(TypeError, match="int16"):
        Elements.of(torch.zeros(3, dtype=torch.int16))
    transposed = torch.arange(6, dtype=torch.int32).reshape(2, 3).T
    elements = Elements.of(transposed)
    elements.data.view(np.int32)[:] = 5
    assert elements.store is not None
    elements.store()
    assert (transposed == 5).all()
