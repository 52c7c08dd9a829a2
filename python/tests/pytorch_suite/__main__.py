"""Runs PyTorch's own tests of `torch.distributed` over gloo and over the fabric, and prints a table.

It fails if a test passes over gloo and not over the fabric, unless `exceptions.toml` has a reason.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from suite import PASSED, ROOT, SKIPPED, Result, Suite, in_lab

BACKENDS = ("gloo", "tributary")
CONFIGURATIONS = [(4, 1, "OFF"), (8, 1, "OFF"), (4, 1, "DETAIL"), (8, 2, "OFF")]
"""The number of ranks, of ranks on each host, and TORCH_DISTRIBUTED_DEBUG."""


def exceptions() -> dict[str, str]:
    """Returns the tests that need not pass over the fabric, with the reasons."""
    return tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text(encoding="utf-8"))


def passes_over_gloo_only(by_gloo: Result, over_fabric: Result) -> bool:
    """Returns true if a test passes over gloo and not over the fabric."""
    return by_gloo.outcome == PASSED and over_fabric.outcome != PASSED


def run_all(suite: Suite, tests: list[str], backends: Sequence[str], logs: Path | None) -> dict[str, dict[str, Result]]:
    """Runs tests over these backends, and reports each result at once."""
    results: dict[str, dict[str, Result]] = {}
    for index, test in enumerate(tests):
        results[test] = {}
        for backend in backends:
            result = results[test][backend] = suite.run(test, backend)
            if result.has_failed and logs:
                logs.mkdir(parents=True, exist_ok=True)
                (logs / f"{test}.{backend}.log").write_text(result.log, encoding="utf-8")
        both = ", ".join(f"{backend}: {one.outcome} ({one.seconds:.1f} s)" for backend, one in results[test].items())
        print(f"{index + 1}/{len(tests)} {test}: {both}", file=sys.stderr, flush=True)
    return results


def row(title: str, results: dict[str, dict[str, Result]], backend: str) -> str:
    """Returns a row of the table."""
    outcomes = [one[backend].outcome for one in results.values()]
    passed, skipped = outcomes.count(PASSED), outcomes.count(SKIPPED)
    return f"{title:24}{backend:12}{passed:>8}{skipped:>9}{len(outcomes) - passed - skipped:>8}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make test-pytorch", description=__doc__)
    parser.add_argument("tests", nargs="*", help="names of tests [default: all]")
    parser.add_argument("--ranks", type=int, choices=(4, 8), help="only with this number of ranks")
    parser.add_argument("--ranks-per-host", type=int, choices=(1, 2), help="only with this number of ranks a host")
    parser.add_argument("--debug", choices=("OFF", "DETAIL"), help="only with this TORCH_DISTRIBUTED_DEBUG")
    parser.add_argument("--backend", choices=BACKENDS, help="only over this backend, without a comparison")
    parser.add_argument("--logs", type=Path, help="folder for the logs of tests that fail")
    options = parser.parse_args()
    # The exception removes the lab.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    allowed = exceptions()
    binary = Path(os.environ.get("TRIBUTARY_BINARY", ROOT / "target" / "debug" / "tributary"))
    table, regressions = [f"{'':24}{'backend':12}{'passed':>8}{'skipped':>9}{'failed':>8}"], []
    for ranks, per_host, debug in CONFIGURATIONS:
        chosen = (options.ranks or ranks, options.ranks_per_host or per_host, options.debug or debug)
        if chosen != (ranks, per_host, debug):
            continue
        title = f"{ranks} ranks"
        title += f", {per_host} a host" if per_host > 1 else ""
        title += f", {debug}" if debug != "OFF" else ""
        backends = [options.backend] if options.backend else BACKENDS
        logs = options.logs and options.logs / f"{ranks}-{per_host}-{debug}"
        with in_lab(binary, ranks // per_host, ranks_per_host=per_host, debug=debug) as suite:
            results = run_all(suite, options.tests or suite.tests, backends, logs)
        table += [row(title, results, backend) for backend in backends]
        for test, by_backend in results.items():
            if options.backend or test in allowed:
                continue
            if passes_over_gloo_only(by_backend["gloo"], by_backend["tributary"]):
                regressions.append(f"{title}: {test}: {by_backend['tributary'].outcome}")
    print("\n".join(table))
    print("\nTests that pass over gloo only, with the reason:")
    print("\n".join(f"  {test}: {reason}" for test, reason in allowed.items()) or "  none")
    if regressions:
        print("\nTests that pass over gloo and have no exception:\n  " + "\n  ".join(regressions))
    return 1 if regressions else 0


if __name__ == "__main__":
    sys.exit(main())
