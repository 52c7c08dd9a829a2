"""Runs an example over the fabric and over gloo in one lab, and compares them.

    python examples/compare.py cnn.py --rate "100 Mbit/s" --rounds 3 --out results -- --epochs 4
    python examples/compare.py cnn.py --how ddp,bf16,hook,zero,sharded

It needs root, and `tributary` on the PATH. It prints a table, and writes compare.json and compare.svg (or another
picture, with --picture). The picture has a row for each way to train, with both loss curves and the step times.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
BACKENDS = ("tributary", "gloo")
COLOURS = {"tributary": "#0072b2", "gloo": "#d55e00"}


@dataclass(frozen=True)
class Comparison:
    """The figures of the table."""

    script: str
    how: str
    topology: str
    rate: str
    ranks: int
    parameters: int
    milliseconds: dict[str, list[float]]
    """The median step time of each round, by backend."""
    ratio: float
    """The fabric's step time relative to gloo's: the median of the rounds' ratios."""
    apart: float
    """The largest distance between the loss curves, relative to the largest loss."""
    accuracies: dict[str, float]
    """The final accuracy, by backend."""


def main() -> None:
    """Runs the script in a lab, and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", help="a script of this folder, or another one with the options of loop.py")
    parser.epilog = "Arguments after -- are options of the script."
    parser.add_argument("--topology", type=Path, default=HERE.parent / "topologies" / "two-leaves-4.toml")
    parser.add_argument("--rate", default="100 Mbit/s", help="rate of all links without their own rate")
    parser.add_argument("--how", default="ddp", help="ways to train, with commas between them: see the script's --how")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each backend [default: %(default)s]")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of results [default: %(default)s]")
    parser.add_argument("--picture", default="compare.svg", help="file in there: .svg, .png [default: %(default)s]")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    chosen = parser.parse_args(words[:end])
    chosen.options = words[end + 1 :]
    chosen.out.mkdir(parents=True, exist_ok=True)
    script = Path(chosen.script) if Path(chosen.script).exists() else HERE / chosen.script
    ways = run_all(chosen, script)
    comparisons = [compare(chosen, script, how, rounds) for how, rounds in ways.items()]
    found = [asdict(comparison) for comparison in comparisons]
    (chosen.out / "compare.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    for comparison in comparisons:
        print(table(comparison))
    draw(comparisons, list(ways.values()), chosen.out / chosen.picture)
    print(f"wrote {chosen.out / 'compare.json'} and {chosen.out / chosen.picture}")


Rounds = dict[str, list[dict[str, Any]]]
"""The curves of all runs, by backend."""


def run_all(chosen: argparse.Namespace, script: Path) -> dict[str, Rounds]:
    """Runs the script for all ways and rounds; returns the curves by the way to train."""
    ways: dict[str, Rounds] = {how: {backend: [] for backend in BACKENDS} for how in chosen.how.split(",")}
    name = f"compare{os.getpid()}"
    binary = os.environ.get("TRIBUTARY_BINARY", "tributary")
    # Otherwise PyTorch warns at each connection that a lab's hosts have no names.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    with tempfile.TemporaryDirectory() as folder:
        text = chosen.topology.read_text(encoding="utf-8")
        topology = Path(folder) / chosen.topology.name
        topology.write_text(re.sub(r"(?m)^rate = .*", f'rate = "{chosen.rate}"', text, count=1), encoding="utf-8")
        subprocess.run([binary, "lab", "up", topology, "--name", name], check=True, stdout=subprocess.DEVNULL)
        try:
            for number, (how, rounds) in product(range(chosen.rounds), ways.items()):
                # The first backend of a round alternates, so that disturbances on the machine affect both.
                for backend in BACKENDS[:: 1 if number % 2 == 0 else -1]:
                    curve = chosen.out / f"{how}-{backend}-{number + 1}.json"
                    command = [sys.executable, script, "--how", how, "--backend", backend, "--json", curve.resolve()]
                    print(f"round {number + 1}, {how}, {backend}", flush=True)
                    command = [binary, "lab", "run", "--name", name, "--", *command, *chosen.options]
                    subprocess.run(command, check=True)
                    rounds[backend].append(json.loads(curve.read_text(encoding="utf-8")))
        finally:
            subprocess.run([binary, "lab", "down", name], check=True, stdout=subprocess.DEVNULL)
    return ways


def compare(chosen: argparse.Namespace, script: Path, how: str, rounds: Rounds) -> Comparison:
    """Compares the measurements of the two backends."""
    milliseconds = {backend: [median(run["steps"]) * 1e3 for run in runs] for backend, runs in rounds.items()}
    ours, gloo = (rounds[backend][0] for backend in BACKENDS)
    pairs = zip(ours["losses"], gloo["losses"], strict=True)
    return Comparison(
        script=script.name,
        how=how,
        topology=chosen.topology.stem,
        rate=chosen.rate,
        ranks=ours["ranks"],
        parameters=ours["parameters"],
        milliseconds=milliseconds,
        ratio=median(a / b for a, b in zip(*(milliseconds[backend] for backend in BACKENDS), strict=True)),
        apart=max(abs(a - b) for a, b in pairs) / max(gloo["losses"]),
        accuracies={backend: rounds[backend][0]["accuracies"][-1] for backend in BACKENDS},
    )


def table(found: Comparison) -> str:
    """Formats a comparison for users."""
    lines = [
        f"{found.script}, {found.how}: {found.parameters:,} parameters; {found.ranks} workers of {found.topology}, "
        f"{found.rate}",
        f"{'backend':12}{'step (median of each round)':32}accuracy",
    ]
    for backend in BACKENDS:
        steps = ", ".join(f"{step:.1f}" for step in found.milliseconds[backend])
        lines.append(f"{backend:12}{steps + ' ms':32}{found.accuracies[backend]:.1%}")
    lines.append(f"a step takes {found.ratio:.2f} of gloo's time; the loss curves differ by at most {found.apart:.1e}")
    return "\n".join(lines)


def draw(comparisons: list[Comparison], ways: list[Rounds], file: Path) -> None:
    """Draws a row for each way to train, with both loss curves and the step times."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    size = (10, 0.5 + 3.5 * len(ways))
    figure, axes = pyplot.subplots(len(ways), 2, figsize=size, layout="constrained", squeeze=False)
    for found, rounds, row in zip(comparisons, ways, axes, strict=True):
        draw_one(found, rounds, *row)
    first = comparisons[0]
    figure.suptitle(f"{first.script}: {first.parameters:,} parameters, {first.ranks} workers, {first.rate}")
    figure.savefig(file, dpi=150)


def draw_one(found: Comparison, rounds: Rounds, losses: Any, steps: Any) -> None:
    """Draws one way to train on these axes."""
    for backend, style in zip(BACKENDS, ("-", "--"), strict=True):
        curve = rounds[backend][0]["losses"]
        losses.plot(range(1, len(curve) + 1), curve, style, color=COLOURS[backend], label=backend, linewidth=2)
    title = f"{found.how}: loss (differs by at most {found.apart:.0e})"
    losses.set(title=title, xlabel="step", ylabel="cross entropy", ylim=(0, None))
    losses.legend()
    values = [[step * 1e3 for run in rounds[backend] for step in run["steps"]] for backend in BACKENDS]
    boxes = steps.boxplot(values, widths=0.5, showfliers=False, patch_artist=True, medianprops={"color": "black"})
    steps.set_xticks([1, 2], BACKENDS)
    for box, backend in zip(boxes["boxes"], BACKENDS, strict=True):
        box.set_facecolor(COLOURS[backend])
    steps.set(title=f"{found.how}: time of a step ({found.ratio:.2f} of gloo's)", ylabel="ms", ylim=(0, None))


if __name__ == "__main__":
    main()
