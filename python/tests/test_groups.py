"""Process groups that are made again, and processes that are forked."""

from __future__ import annotations

import pytest
from conftest import Run

pytest.importorskip("torch", reason="PyTorch is not installed")


def said(lines: list[str], host: str, how: str) -> list[str]:
    prefix = f"{host}: {how}: "
    return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]


def test_a_group_may_be_made_again_while_all_reduces_of_the_last_one_are_under_way(run: Run) -> None:
    lines = run("groups.py", "again")
    assert [said(lines, host, "again") for host in ("w0", "w1")] == [["2.0 1.0"] * 2] * 2, lines


def test_a_rank_that_may_not_join_is_an_exception_on_every_rank(run: Run) -> None:
    lines = run("groups.py", "refused")
    (own,), (other,) = said(lines, "w1", "told"), said(lines, "w0", "told")
    assert own.startswith("PermissionDeniedError"), lines
    assert "rank 1: " in other, lines
    assert "token" in other, lines


def test_who_waits_for_a_rank_that_does_not_join_is_told_which(run: Run) -> None:
    (message,) = said(run("groups.py", "missing"), "w0", "told")
    words = ("DeadlineError", "the job has not begun in the group's timeout", "the controller waits for", "w1")
    assert all(word in message for word in words), message


def test_a_forked_process_is_told_so_and_harms_nobody(run: Run) -> None:
    lines = run("groups.py", "fork")
    for host in ("w0", "w1"):
        told = said(lines, host, "child told")
        assert len(told) == 3, lines
        assert all("this process was forked" in one and "spawn" in one for one in told), lines
        assert said(lines, host, "child ended") == ["0"], lines
        assert said(lines, host, "loaded") == ["198.0"], lines


def test_copies_of_time_points_can_be_evaluated_alone_and_trained_together(run: Run) -> None:
    lines = run("groups.py", "copies")
    assert said(lines, "w0", "alone") == ["True"], lines
    assert [said(lines, host, "averaged") for host in ("w0", "w1")] == [["1.5"] * 3] * 2, lines


def test_collectives_of_the_same_memory_come_one_after_the_other(run: Run) -> None:
    lines = run("groups.py", "twice")
    assert [said(lines, host, "twice") for host in ("w0", "w1")] == [["4.0 8.0 1.0 6.0"]] * 2, lines


def test_what_was_given_to_an_all_reduce_that_was_given_up_is_in_no_sum_of_the_next_group(run: Run) -> None:
    lines = run("groups.py", "given_up")
    (told,) = said(lines, "w1", "told")
    assert "it was given 2s" in told, "the timeout that was set last counts"
    for host in ("w0", "w1"):
        assert not said(lines, host, "summed"), lines
        assert len(said(lines, host, "refused")) == 1, lines


def test_a_rank_that_aborts_its_group_has_left_for_the_others(run: Run) -> None:
    (told,) = said(run("groups.py", "aborted"), "w0", "told")
    assert told.startswith("True"), told
    assert "rank 1 has left" in told


def test_a_callback_that_waits_for_another_collective_is_told_so_and_nobody_hangs(run: Run) -> None:
    lines = run("groups.py", "in_callback")
    for host in ("w0", "w1"):
        (told,) = said(lines, host, "told")
        assert "chain callbacks" in told, lines
        assert (said(lines, host, "called"), said(lines, host, "summed")) == (["True"], ["2.0"]), lines


def test_no_thread_of_gloo_outlives_its_group_or_meets_the_end_of_the_interpreter(run: Run) -> None:
    lines = run("groups.py", "ends")
    for host in ("w0", "w1"):
        beside = [int(count) for count in said(lines, host, "beside")]
        assert len(beside) == 2, lines
        assert min(beside) > 0, lines
        assert (said(lines, host, "after"), said(lines, host, "at the end")) == (["0"], ["0"]), lines
