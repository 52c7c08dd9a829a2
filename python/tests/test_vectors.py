"""The specification is enough to make the packets and the sums of `crates/protocol/vectors`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="the package cryptography is not installed")

from reference.numbers import TYPES, Operation
from reference.packets import ALL, GRADIENT, MAX, RESULT, RETRANSMIT, WORD, Packet, aggregate, hop, probe
from reference.tags import Generation, Slice, vouched

FOLDER = Path(__file__).parents[2] / "crates" / "protocol" / "vectors"
FILES = sorted(FOLDER.glob("*.json"))


def words(lines: list[str]) -> list[str]:
    return " ".join(lines).split()


class Job:
    """Makes the packets of a vector, one step after the other."""

    def __init__(self, vector: dict[str, Any]) -> None:
        self.vector = vector
        self.secret = bytes.fromhex(vector["secret"])
        self.generations = [Generation(vector["job"], tuple(vector["members"]))]
        self.operations: list[Operation] = []
        self.sent: set[tuple[int, int]] = set()
        self.open: dict[int, list[Packet]] = {}
        self.finished: dict[int, tuple[Generation, Packet]] = {}

    @property
    def generation(self) -> Generation:
        """The present generation."""
        return self.generations[-1]

    def operation(self, seq: int) -> Operation:
        """Returns the operation of a slice; it begins if its bounds are the next ones."""
        last = self.operations[-1] if self.operations else None
        if last is None or (len(last.results) >= last.max_slices and last.at(seq) >= last.slices()):
            facts = self.vector["operations"][len(self.operations)]
            width, number = self.vector["width"], self.vector["begun"] + len(self.operations)
            first_seq = last.seq(last.slices()) if last else self.vector["start"]
            name, kind, length = facts["name"], TYPES[facts["type"]], facts["length"]
            self.operations.append(Operation(width, number, first_seq, name, kind, length))
        return next(operation for operation in reversed(self.operations) if operation.at(seq) < 1 << 31)

    def slice(self, seq: int, generation: Generation) -> Slice:
        """Returns a slice in a generation."""
        return Slice(self.secret, self.operation(seq), generation, seq)

    def masked(self, part: Slice, values: Sequence[int], ranks: list[tuple[int, int]]) -> tuple[int, ...]:
        """Adds the streams of these ranks if the job is confidential."""
        return part.masked(values, ranks if self.vector["confidential"] else [])

    def hops(self, rank: int | None) -> tuple[bytes, ...]:
        """Returns the hop stack of a member, or of the switch."""
        tree, members = self.vector["tree"], self.generation.members
        server = hop(tree["server"], 0, 0, 1)
        if rank is None:
            return (server,)
        return hop(tree["switch"], tree["egress_port"], members.index(rank), len(members)), server

    def gradient(self, step: dict[str, Any]) -> Packet:
        """Makes a member's GRADIENT (sections 3.5, 10, 11.4 and 13)."""
        rank, seq = step["rank"], step["seq"]
        operation, generation = self.operation(seq), self.generation
        facts = self.vector["operations"][self.operations.index(operation)]["contributions"]
        part = next(part for part in facts if part["rank"] == rank)
        elements = [operation.kind.decode(digits) for digits in words(part["elements"])]
        values = operation.contribution(seq, part["weight"], elements, rank)
        this = self.slice(seq, generation)
        weight = 0 if this.is_rest else part["weight"]
        tag = this.tag(rank, values, weight)
        flags = MAX * this.is_max | RETRANSMIT * ((rank, seq) in self.sent)
        self.sent.add((rank, seq))
        masked = self.masked(this, values, generation.row(rank))
        packet = Packet(GRADIENT, flags, generation.job, rank, seq, 1, weight, tag, masked, self.hops(rank))
        self.open.setdefault(seq, []).append(packet)
        return packet

    def probe(self, step: dict[str, Any]) -> Packet:
        """Makes the PROBE that a switch makes of the last GRADIENT."""
        return probe(self.open[step["seq"]].pop())

    def sum(self, step: dict[str, Any]) -> Packet:
        """Makes the sum that a switch forwards; it finishes the slice."""
        total = aggregate(self.open.pop(step["seq"]))
        self.finished[step["seq"]] = (self.generation, total)
        return total

    def result(self, step: dict[str, Any]) -> Packet:
        """Makes a RESULT (sections 3.6 and 12), and verifies it as a worker does (sections 11.5 and 13)."""
        present = self.generation.job
        summed, total = self.finished[step["seq"]]
        rank = step["to"][0] if summed.job != present else ALL
        result = replace(total, kind=RESULT, flags=total.flags & MAX, job=present, rank=rank, hops=())
        result = vouched(result, self.secret, summed.job, present)
        self.verify(result)
        return result

    def verify(self, result: Packet) -> None:
        """Finds the generation that summed a result, and keeps the result; changed ones fit no generation."""
        operation = self.operation(result.seq)
        bit = replace(result, values=(result.values[0] ^ 1 << 9, *result.values[1:]))
        heavier = replace(result, weight=(result.weight + 1) % WORD)
        for changed in [heavier] if self.slice(result.seq, self.generation).is_max else [heavier, bit]:
            assert not any(self.opened(changed, generation)[1] for generation in self.generations)
        opened = [(generation, *self.opened(result, generation)) for generation in self.generations]
        [(generation, total)] = [(generation, total) for generation, total, fits in opened if fits]
        assert total.contributors == len(generation.members)
        operation.results[result.seq] = total

    def opened(self, result: Packet, generation: Generation) -> tuple[Packet, bool]:
        """Returns a result without voucher and masks, and true if its tag fits for a generation."""
        this = self.slice(result.seq, generation)
        total = vouched(result, self.secret, generation.job, result.job)
        total = replace(total, values=self.masked(this, total.values, [(generation.members[0], -1)]))
        return total, this.fits(total)

    def take(self, step: dict[str, Any]) -> None:
        """Takes a step, and compares its packet with the vector's."""
        if step["step"] == "generation":
            self.generations.append(Generation(step["job"], tuple(step["members"])))
            self.open.clear()
            return
        packet = getattr(self, step["step"])(step)
        assert packet.header().hex(" ", -4) == step["header"]
        assert " ".join(entry.hex() for entry in packet.hops) == step.get("hops", "")
        values = [f"{value:08x}" for value in packet.values]
        given = words(step.get("values", []))
        assert values == given + ["00000000"] * (len(values) - len(given))


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_the_specification_makes_the_packets_and_the_sums(file: Path) -> None:
    vector = json.loads(file.read_text())
    job = Job(vector)
    for number, step in enumerate(vector["steps"]):
        try:
            job.take(step)
        except AssertionError as error:
            error.add_note(f"step {number}: {step['step']} {step.get('seq')} of rank {step.get('rank')}")
            raise
    assert len(job.operations) == len(vector["operations"])
    for operation, facts in zip(job.operations, vector["operations"], strict=True):
        assert operation.sums() == words(facts["sums"])


def test_there_are_vectors() -> None:
    assert FILES
