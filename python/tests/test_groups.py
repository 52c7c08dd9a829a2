"""Tests of process groups that are made again, and of processes that are forked."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Run

pytest.importorskip("torch", reason="PyTorch is not installed")


def printed(lines: list[str], host: str, label: str) -> list[str]:
    prefix = f"{host}: {label}: "
    return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]


def test_a_new_group_can_follow_a_group_with_all_reduces_in_flight(run: Run) -> None:
    lines = run("groups.py", "again")
    assert [printed(lines, host, "again") for host in ("w0", "w1")] == [["2.0 1.0"] * 2] * 2, lines


def test_a_refused_rank_raises_an_error_on_every_rank(run: Run) -> None:
    lines = run("groups.py", "refused")
    (own,), (other,) = printed(lines, "w1", "raised"), printed(lines, "w0", "raised")
    assert own.startswith("PermissionDeniedError"), lines
    assert "rank 1: " in other, lines
    assert "token" in other, lines


def test_the_error_names_a_rank_that_does_not_come_or_join(run: Run) -> None:
    lines = run("groups.py", "missing")
    (joining,), (coming,) = printed(lines, "w0", "raised"), printed(lines, "w1", "raised")
    words = ("DeadlineError", "the job has not begun in the group's timeout", "the controller waits for", "w1")
    assert all(word in joining for word in words), joining
    assert "w1: rank 1: init_process_group waits for rank 0 of 2" in lines, lines
    assert coming.startswith("DeadlineError rank 0 of 2 have not called init_process_group"), coming


def test_ranks_of_one_host_need_no_job(run: Run) -> None:
    lines = run("groups.py", "one_host")
    assert printed(lines, "w0", "sum") == ["[3.0]"] * 2, lines
    assert any("all 2 ranks are on one host: gloo sums the gradients" in line for line in lines), lines


def test_hosts_may_have_several_ranks(run: Run) -> None:
    lines = run("groups.py", "several")
    assert not [line for line in lines if "wrong" in line], lines
    for host, rank in (("w0", 0), ("w0", 1), ("w0", 2), ("w1", 3)):
        (outcome,) = printed(lines, host, f"rank {rank}")
        # 15 all-reduces, then 30, a reduce-scatter and a barrier.
        assert outcome == "True 47", lines


def test_broadcasts_go_over_the_fabric_bit_for_bit(run: Run) -> None:
    lines = run("groups.py", "broadcasts")
    assert not [line for line in lines if "wrong" in line], lines
    for rank in range(4):
        assert printed(lines, f"w{rank % 2}", f"rank {rank}") == ["22"], lines
    assert any("fabric: broadcast, " in line for line in lines), lines
    assert any("gloo: broadcast" in line and "a small tensor" in line for line in lines), lines


def test_ranks_may_be_in_another_order_than_the_hosts(run: Run) -> None:
    lines = run("groups.py", "order")
    for host, rank in (("w0", 0), ("w1", 1), ("w0", 2), ("w1", 3)):
        assert printed(lines, host, f"rank {rank}") == ["[10.0]"], lines
    assert any("messages have its numbers: 0 is 0, 1 is 2, 2 is 1, 3 is 3" in line for line in lines), lines


def test_the_error_of_a_host_that_gloo_cannot_connect_names_the_variable(run: Run) -> None:
    lines = run("groups.py", "interface")
    for host in ("w0", "w1"):
        loopback, missing = printed(lines, host, "raised")
        words = (
            "localhost",
            "127.0.0.1",
            "interface lo",
            "set GLOO_SOCKET_IFNAME to the interface of the hosts' network",
        )
        assert all(word in loopback for word in words), loopback
        assert "GLOO_SOCKET_IFNAME names nosuch0, and this host has lo, " in missing, missing


def test_a_barrier_takes_no_longer_than_it_was_given(run: Run) -> None:
    (error,) = printed(run("groups.py", "late"), "w0", "raised")
    assert error.startswith("True"), error
    assert "it was given 1s" in error, error


def test_a_forked_process_gets_an_error_and_its_parent_continues(run: Run) -> None:
    lines = run("groups.py", "fork", own_interpreter=True)
    for host in ("w0", "w1"):
        errors = printed(lines, host, "child raised")
        assert len(errors) == 3, lines
        assert all("this process was forked" in one and "spawn" in one for one in errors), lines
        assert printed(lines, host, "child ended") == ["0"], lines
        assert printed(lines, host, "loaded") == ["198.0"], lines


def test_copies_of_time_points_can_be_evaluated_alone_and_trained_together(run: Run) -> None:
    lines = run("groups.py", "copies")
    assert printed(lines, "w0", "alone") == ["True"], lines
    assert [printed(lines, host, "averaged") for host in ("w0", "w1")] == [["1.5"] * 3] * 2, lines


def test_collectives_of_the_same_memory_come_one_after_the_other(run: Run) -> None:
    lines = run("groups.py", "twice")
    assert [printed(lines, host, "twice") for host in ("w0", "w1")] == [["4.0 8.0 1.0 6.0"]] * 2, lines


def test_a_contribution_that_timed_out_is_in_no_sum_of_the_next_group(run: Run) -> None:
    lines = run("groups.py", "given_up")
    (error,) = printed(lines, "w1", "raised")
    assert "it was given 2s" in error, "the last timeout that was set applies"
    # The sum must not contain the 1000. A rank may also get an error, if it joins before it knows that the other ended.
    summed, refused = ([printed(lines, host, label) for host in ("w0", "w1")] for label in ("summed", "refused"))
    assert summed == [["2.0"], ["2.0"]] or (summed == [[], []] and [len(each) for each in refused] == [1, 1]), lines


def test_a_rank_that_aborts_its_group_leaves_the_job(run: Run) -> None:
    (error,) = printed(run("groups.py", "aborted"), "w0", "raised")
    assert error.startswith("True"), error
    assert "rank 1 has left" in error


def test_a_callback_that_waits_for_another_result_gets_an_error(run: Run) -> None:
    lines = run("groups.py", "in_callback")
    for host in ("w0", "w1"):
        (error,) = printed(lines, host, "raised")
        assert "chain callbacks" in error, lines
        assert printed(lines, host, "summed") == ["2.0"], lines


def test_other_threads_run_while_pytorchs_own_checks_wait(run: Run) -> None:
    lines = run("groups.py", "checked", environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
    assert [printed(lines, host, "summed") for host in ("w0", "w1")] == [["2.0"], ["2.0"]], lines


def test_threads_of_gloo_end_with_their_group_and_before_the_interpreter(run: Run) -> None:
    lines = run("groups.py", "ends", own_interpreter=True)
    for host in ("w0", "w1"):
        beside = [int(count) for count in printed(lines, host, "beside")]
        assert len(beside) == 2, lines
        assert min(beside) > 0, lines
        assert (printed(lines, host, "after"), printed(lines, host, "at the end")) == (["0"], ["0"]), lines


def test_a_training_that_torchrun_restarts_continues_with_its_job(run: Run, tmp_path: Path) -> None:
    deaths = ["exit:1", "exit:0", "exception:1", "killed:1"]
    lines = run("restarted.py", str(tmp_path), *deaths)
    runs = len(deaths)
    last = [line.split(": ", 1)[1] for line in lines if f": run {runs} " in line]
    expected = [f"run {runs} step {step} sum {1 + 2 * step} {1 + 2 * step}" for step in range(4)]
    assert sorted(last) == sorted(2 * expected), lines
    assert len(list(tmp_path.iterdir())) == runs, "each death has happened"
