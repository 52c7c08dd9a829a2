"""Tests of process groups that are made again, and of processes that are forked."""

from __future__ import annotations

from pathlib import Path

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


def test_who_waits_for_a_rank_that_does_not_come_or_join_is_told_which(run: Run) -> None:
    lines = run("groups.py", "missing")
    (joining,), (coming,) = said(lines, "w0", "told"), said(lines, "w1", "told")
    words = ("DeadlineError", "the job has not begun in the group's timeout", "the controller waits for", "w1")
    assert all(word in joining for word in words), joining
    assert "w1: rank 1: init_process_group waits for rank 0 of 2" in lines, lines
    assert coming.startswith("DeadlineError rank 0 of 2 have not called init_process_group"), coming


def test_two_ranks_on_a_host_are_told_that_a_host_has_one(run: Run) -> None:
    told = said(run("groups.py", "shared"), "w0", "told")
    assert len(told) == 2, told
    assert all("ranks 0, 1 are processes on one host, and a job has one rank on each host" in one for one in told), told


def test_a_host_that_gloo_cannot_connect_is_told_which_variable_to_set(run: Run) -> None:
    lines = run("groups.py", "interface")
    for host in ("w0", "w1"):
        loopback, missing = said(lines, host, "told")
        words = (
            "localhost",
            "127.0.0.1",
            "interface lo",
            "set GLOO_SOCKET_IFNAME to the interface of the hosts' network",
        )
        assert all(word in loopback for word in words), loopback
        assert "GLOO_SOCKET_IFNAME names nosuch0, and this host has lo, " in missing, missing


def test_a_barrier_takes_no_longer_than_it_was_given(run: Run) -> None:
    (told,) = said(run("groups.py", "late"), "w0", "told")
    assert told.startswith("True"), told
    assert "it was given 1s" in told, told


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
    assert "it was given 2s" in told, "the last timeout that was set applies"
    # The sum must not contain the 1000. A rank may also get an error, if it joins before it knows that the other ended.
    summed, refused = ([said(lines, host, how) for host in ("w0", "w1")] for how in ("summed", "refused"))
    assert summed == [["2.0"], ["2.0"]] or (summed == [[], []] and [len(each) for each in refused] == [1, 1]), lines


def test_a_rank_that_aborts_its_group_has_left_for_the_others(run: Run) -> None:
    (told,) = said(run("groups.py", "aborted"), "w0", "told")
    assert told.startswith("True"), told
    assert "rank 1 has left" in told


def test_a_callback_of_a_job_that_waits_for_another_result_is_told_so_and_nobody_hangs(run: Run) -> None:
    lines = run("groups.py", "in_callback")
    for host in ("w0", "w1"):
        (told,) = said(lines, host, "told")
        assert "chain callbacks" in told, lines
        assert said(lines, host, "summed") == ["2.0"], lines


def test_other_threads_go_on_while_pytorchs_own_checks_wait(run: Run) -> None:
    lines = run("groups.py", "checked", environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
    assert [said(lines, host, "summed") for host in ("w0", "w1")] == [["2.0"], ["2.0"]], lines


def test_no_thread_of_gloo_outlives_its_group_or_meets_the_end_of_the_interpreter(run: Run) -> None:
    lines = run("groups.py", "ends")
    for host in ("w0", "w1"):
        beside = [int(count) for count in said(lines, host, "beside")]
        assert len(beside) == 2, lines
        assert min(beside) > 0, lines
        assert (said(lines, host, "after"), said(lines, host, "at the end")) == (["0"], ["0"]), lines


@pytest.mark.parametrize("deaths", [["exit", "exit"], ["exception"], ["killed"]])
def test_a_training_that_torchrun_restarts_takes_its_job_up_again(run: Run, deaths: list[str], tmp_path: Path) -> None:
    said = run("restarted.py", str(tmp_path), *deaths, topology="two-workers")
    runs = len(deaths)
    last = [line.split(": ", 1)[1] for line in said if f": run {runs} " in line]
    expected = [f"run {runs} step {step} sum {1 + 2 * step} {1 + 2 * step}" for step in range(4)]
    assert sorted(last) == sorted(2 * expected), said
