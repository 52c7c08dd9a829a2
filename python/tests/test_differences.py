"""Tests of ranks that differ from the others: all ranks get an error with the rank and the difference."""

from __future__ import annotations

import pytest
from conftest import Run

pytest.importorskip("torch", reason="PyTorch is not installed")


def told(said: list[str], host: str, how: str = "told") -> list[str]:
    prefix = f"{host}: {how}: "
    return [line.removeprefix(prefix) for line in said if line.startswith(prefix)]


@pytest.mark.parametrize(
    ("what", "odd", "others"),
    [
        ("size", "with 999 elements of f32", "with 1000 elements of f32"),
        ("empty", "with 0 elements of f32", "with 1000 elements of f32"),
        ("type", "with 1000 elements of bf16", "with 1000 elements of f32"),
        ("operator", ' AVG of torch.float32" with', ' SUM of torch.float32" with'),
        ("call", ' of (1,), SUM of torch.int32" with 1 elements of i64', '"barrier 2" with 1 elements of i32'),
        ("order", '"bias" with 50 elements of f32', '"weight" with 50 elements of f32'),
        ("ddp", "with 7 elements of f32", "with 110 elements of f32"),
    ],
)
def test_every_rank_is_told_which_one_gave_what(run: Run, what: str, odd: str, others: str) -> None:
    said = run("differs.py", what)
    for host in ("w0", "w1"):
        (message,) = told(said, host)
        # A future raises an exception of PyTorch, which has the text of ours.
        through = "RuntimeError Got the following error when running the callback: SumError: "
        is_future = what == "type" or (what, host) == ("ddp", "w0")
        assert message.startswith(through if is_future else "SumError "), said
        assert message.replace("SumError: ", "SumError ").partition("SumError ")[2].startswith("all-reduce of "), said
        gave = [part for part in message.split("; ") if " gave " in part]
        assert "rank 1 (w1) gave" in gave[1], said
        assert "rank 0 (w0) gave" in gave[0], said
        # Both all-reduces are in flight, in different orders, and either may be reported first.
        differences = [(others, odd), (odd, others)] if what == "order" else [(others, odd)]
        assert any(first in gave[0] and second in gave[1] for first, second in differences), said
        assert "same order, with the same names, sizes and types" in message, said
        if what != "order":
            (later,) = told(said, host, "told later")
            # A rank gets the error in the answer to its own report, possibly before the notification that the job is
            # over. An all-reduce that it starts in between ends with a SumError.
            assert later.startswith(("JobOverError ", "SumError ")), said
            assert odd in later, said


def test_of_several_ranks_the_one_that_differs_is_named_first(run: Run) -> None:
    said = run("differs.py", "size", topology="plain-middle-4")
    for host in ("w0", "w1", "w2", "w3"):
        (message,) = told(said, host)
        assert "rank 3 (w3) gave" in message.split(";")[0], said
        assert "ranks 0 (w0), 1 (w1), 2 (w2) gave" in message.split(";")[1], said


def test_an_agent_that_dies_is_an_exception_on_every_rank(run: Run) -> None:
    said = run("agent_dies.py", topology="plain-middle-4")
    own = told(said, "w3")
    assert len(own) == 3, said
    words = ("AgentUnreachableError", "all-reduce of", "rank 3 (w3)", "connection to this host's agent broke")
    assert all(word in line for line in own for word in words), said
    for host in ("w0", "w1", "w2"):
        others = told(said, host)
        assert len(others) == 3, said
        assert all(words in line for line in others for words in ("SumError", "all-reduce", "rank 3 has left")), said


def test_a_rank_that_has_ended_its_part_is_named_to_those_who_go_on(run: Run) -> None:
    # The host is still a member, because another process on it may continue.
    (message,) = told(run("goes.py"), "w0")
    words = ("DeadlineError", "second", "not waiting for a result", "rank 1 (w1)")
    assert all(word in message for word in words), message


def test_a_rank_that_does_something_else_is_named_when_the_time_is_over(run: Run) -> None:
    said = run("late.py")
    message, again = told(said, "w0")
    words = ("DeadlineError", "all-reduce 2", "not waiting for a result", "rank 1 (w1)")
    assert all(word in message for word in words), said
    assert again.startswith("TributaryError all-reduce 2 of (1000,), SUM of torch.float32 was given up"), said
    assert len(told(said, "w1")) == 1, said


def test_who_is_cut_off_is_named_to_the_others_with_the_dead_link(run: Run) -> None:
    (message,) = told(run("cut_off.py", topology="plain-middle-4"), "w0")
    words = ("SumError", "3 of 4 ranks", "rank 3 has left the job (the link between", "and w3 is dead)")
    assert all(word in message for word in words), message


@pytest.mark.parametrize("argument", ["", "handled"])
def test_who_ends_its_group_before_its_collectives_have_is_told_which(run: Run, argument: str) -> None:
    said = run("ends.py", argument)
    # A new exception does not hide one that is already being handled.
    message = told(said, "w0", "WARNING: rank 0" if argument else "told")[-1]
    words = ("before 1 of its collectives", "all-reduce 3 of (2000,), SUM", "Wait for each collective")
    assert all(word in message for word in words), said
    # The group and its collective have the same timeout, and either may end first.
    assert "not ended in 5 s" in message or "it was given 5s" in message, said
    assert argument or message.startswith(("DeadlineError", "TributaryError")), said
    assert len(told(said, "w0")) == (0 if argument else 1), said
    assert "w0: summed to: 2.0" in said, said
    assert [line for line in said if "destroyed" in line] == ["w0: destroyed: True", "w1: destroyed: True"], said
