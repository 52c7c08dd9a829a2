"""The command line: `python -m tributary.profile [options] script.py [arguments of the script]`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from tributary.profile.predict import Network, PlanError, Prediction, plan, predict
from tributary.profile.watch import NothingWatchedError, Watched, watch


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tributary.profile",
        description="Runs some steps of a training script on this machine alone, and predicts the time of a step "
        "with the workers of a topology: over gloo, over the fabric, and with gradients that are sent at time points. "
        "It needs neither an agent nor a second machine.",
    )
    parser.add_argument("--topology", metavar="FILE", help="topology file [default: as for `tributary plan`]")
    parser.add_argument("--steps", type=_positive, default=10, metavar="N", help="steps to time [default: 10]")
    parser.add_argument("--skip", type=_positive, default=3, metavar="N", help="steps before these [default: 3]")
    parser.add_argument(
        "--start-up", type=float, default=1.0, metavar="MS", help="time of a small all-reduce there [default: 1]"
    )
    parser.add_argument("--tributary", default="tributary", metavar="PROGRAM", help="the binary [default: on the PATH]")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("script", help="the script, unchanged")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    return parser.parse_args()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("give at least 1")
    return number


def main() -> int:
    """Times the script, predicts the time of a step, and prints the result."""
    options = _arguments()
    try:
        watched = watch(options.script, options.arguments, skipped=options.skip, steps=options.steps)
        network = plan(options.tributary, options.topology, watched.size, options.start_up / 1e3)
    except (NothingWatchedError, PlanError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    prediction = predict(watched, network)
    if options.json:
        result = {**asdict(prediction), "gain": prediction.gain, "pays": prediction.pays}
        print(json.dumps({"watched": asdict(watched), "network": asdict(network), "seconds": result}))
    else:
        print(_text(watched, network, prediction))
    return 0


def _text(watched: Watched, network: Network, prediction: Prediction) -> str:
    lines = [
        f"one machine: a step takes {_time(watched.step)}, and has {len(watched.sizes)} gradients of "
        f"{watched.size / 1e6:.1f} MB, ready within {_time(watched.span)}",
        f"{network.workers} workers, where an all-reduce of them takes {_time(network.fabric * watched.size)} in the "
        f"fabric and {_time(network.ring * watched.size)} in a ring:",
        "",
    ]
    rows = [
        ("DistributedDataParallel over gloo", prediction.gloo),
        ("DistributedDataParallel over the fabric", prediction.fabric),
        (f"TimePoints over the fabric, {prediction.sets} sets", prediction.points),
    ]
    for name, seconds in rows:
        lines.append(f"  {name:42} {_time(seconds):>10}  {prediction.gloo / seconds:5.2f} x")
    return "\n".join([*lines, "", _verdict(prediction)])


def _verdict(prediction: Prediction) -> str:
    if prediction.pays:
        better = "DistributedDataParallel" if prediction.fabric <= prediction.points * 1.01 else "TimePoints"
        return f"It pays: a step is {prediction.gain:.2f} times as fast as over gloo, with {better}."
    waits = prediction.gloo - prediction.alone
    if waits < prediction.alone * 0.05:
        return f"Do not bother: over gloo a step waits only {_time(waits)} for the network."
    return f"Do not bother: a step would be only {prediction.gain:.2f} times as fast."


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


if __name__ == "__main__":
    sys.exit(main())
