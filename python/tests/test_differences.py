"""Tests of ranks that differ from the others: all ranks get an error with the rank and the difference."""

from __future__ import annotations

import pytest
from conftest import Run

pytest.importorskip("torch", reason="PyTorch is not installed")


def errors(lines: list[str], host: str, label: str = "raised") -> list[str]:
    prefix = f"{host}: {label}: "
    return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]


@pytest.mark.parametrize(
    ("what", "odd", "others"),
    [
        ("size", "with 999 elements of f32", "with 1000 elements of f32"),
        ("empty", "with 0 elements of f32", "with 1000 elements of f32"),
        ("type", "with 1000 elements of bf16", "with 1000 elements of f32"),
        ("operator", ' AVG of torch.float32" with', ' SUM of torch.float32" with'),
        ("call", ' of (1,), SUM of torch.int32" with 1 elements of i64', '"barrier 2" with 0 elements of i32'),
        ("order", '"bias" with 50 elements of f32', '"weight" with 50 elements of f32'),
        ("ddp", "with 7 elements of f32", "with 110 elements of f32"),
    ],
)
def test_every_rank_gets_an_error_with_all_contributions(run: Run, what: str, odd: str, others: str) -> None:
    lines = run("differs.py", what)
    for host in ("w0", "w1"):
        (message,) = errors(lines, host)
        # A future raises an exception of PyTorch, which has the text of ours.
        through = "RuntimeError Got the following error when running the callback: SumError: "
        is_future = what == "type" or (what, host) == ("ddp", "w0")
        assert message.startswith(through if is_future else "SumError "), lines
        assert message.replace("SumError: ", "SumError ").partition("SumError ")[2].startswith("collective "), lines
        gave = [part for part in message.split("; ") if " gave " in part]
        assert "rank 1 (w1) gave" in gave[1], lines
        assert "rank 0 (w0) gave" in gave[0], lines
        # Both all-reduces are in flight, in different orders, and either may be reported first.
        differences = [(others, odd), (odd, others)] if what == "order" else [(others, odd)]
        assert any(first in gave[0] and second in gave[1] for first, second in differences), lines
        assert "same order, with the same names, sizes, types and precisions" in message, lines
        if what != "order":
            (later,) = errors(lines, host, "raised later")
            # A rank gets the error in the answer to its own report, possibly before the notification that the job is
            # over. An all-reduce that it starts in between ends with a SumError.
            assert later.startswith(("JobOverError ", "SumError ")), lines
            assert odd in later, lines


def test_the_error_names_the_rank_that_differs_first(run: Run) -> None:
    lines = run("differs.py", "size", topology="plain-middle-4")
    for host in ("w0", "w1", "w2", "w3"):
        (message,) = errors(lines, host)
        assert "rank 3 (w3) gave" in message.split(";")[0], lines
        assert "ranks 0 (w0), 1 (w1), 2 (w2) gave" in message.split(";")[1], lines


def test_a_dead_agent_raises_an_error_on_every_rank(run: Run) -> None:
    lines = run("agent_dies.py", topology="plain-middle-4")
    own = errors(lines, "w3")
    assert len(own) == 3, lines
    words = ("AgentUnreachableError", "collective", "rank 3 (w3)", "connection to this host's agent broke")
    assert all(word in line for line in own for word in words), lines
    for host in ("w0", "w1", "w2"):
        others = errors(lines, host)
        assert len(others) == 3, lines
        assert all(words in line for line in others for words in ("SumError", "all-reduce", "rank 3 has left")), lines


def test_the_error_names_a_rank_that_has_closed_its_job(run: Run) -> None:
    # The host is still a member, because another process on it may continue.
    (message,) = errors(run("closes.py"), "w0")
    words = ("DeadlineError", "second", "not waiting for a result", "rank 1 (w1)")
    assert all(word in message for word in words), message


def test_the_timeout_error_names_a_busy_rank(run: Run) -> None:
    lines = run("late.py")
    message, again = errors(lines, "w0")
    words = ("DeadlineError", "all-reduce 2", "not waiting for a result", "rank 1 (w1)")
    assert all(word in message for word in words), lines
    assert again.startswith("TributaryError all-reduce 2 of (1000,), SUM of torch.float32 was given up"), lines
    assert len(errors(lines, "w1")) == 1, lines


def test_the_error_names_an_unreachable_rank_and_the_dead_link(run: Run) -> None:
    (message,) = errors(run("cut_off.py", topology="plain-middle-4"), "w0")
    words = ("SumError", "3 of 4 ranks", "rank 3 has left the job (the link between", "and w3 is dead)")
    assert all(word in message for word in words), message


@pytest.mark.parametrize("argument", ["", "handled"])
def test_destroying_a_group_early_names_its_unfinished_collectives(run: Run, argument: str) -> None:
    lines = run("ends.py", argument)
    # A new exception does not hide one that is already being handled.
    message = errors(lines, "w0", "WARNING: rank 0" if argument else "raised")[-1]
    words = ("before 1 of its collectives", "all-reduce 3 of (2000,), SUM", "Wait for each collective")
    assert all(word in message for word in words), lines
    # The group and its collective have the same timeout, and either may end first.
    assert "not ended in 5 s" in message or "it was given 5s" in message, lines
    assert argument or message.startswith(("DeadlineError", "TributaryError")), lines
    assert len(errors(lines, "w0")) == (0 if argument else 1), lines
    assert "w0: summed to: 2.0" in lines, lines
    assert [line for line in lines if "destroyed" in line] == ["w0: destroyed: True", "w1: destroyed: True"], lines
