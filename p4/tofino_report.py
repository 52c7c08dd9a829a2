"""Prints the resources that `tna/` uses on a Tofino, as a page in Markdown.

python3 tofino_report.py TARGET SOURCES.sha256 resources.json phv.json
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

NAMES = {"tofino": "Tofino, with slices of 32 values", "tofino2": "Tofino 2, with slices of 64 values"}

COLUMNS = (
    "stateful ALUs of 4",
    "statistics ALUs of 4",
    "SRAMs of 80",
    "TCAMs of 24",
    "gateways of 16",
    "tables of 16",
)


def main() -> None:
    """Prints the page."""
    target = sys.argv[1]
    sources, resources, phv = (Path(argument).read_text(encoding="utf-8") for argument in sys.argv[2:5])
    used = json.loads(resources)["resources"]
    print(f"# Resources of the program on a {NAMES[target]}\n")
    print("`make -C p4 tofino` made this page from p4c's figures, after its assembler had accepted the program. The")
    print("figures of a stage are for ingress and egress together. A test compares the hash with the sources.\n")
    print(f"Sources: `{hashlib.sha256(tofino_sources(sources).encode()).hexdigest()}`\n")
    print("| stage |", " | ".join(COLUMNS), "|")
    print("|---|---|---|---|---|---|---|")
    for stage in used["mau"]["mau_stages"]:
        print("|", " | ".join(str(figure) for figure in (stage["stage_number"], *stage_figures(stage))), "|")
    print("\n| parser | rows of 256 |\n|---|---|")
    for gress in ("ingress", "egress"):
        rows = [len(parser["states"]) for parser in used["parser"]["parsers"] if parser["gress"] == gress]
        print(f"| {gress} | {max(rows, default=0)} |")
    print("\n| containers of the packet header vector | used | available |\n|---|---|---|")
    for kind, groups in used["phv_containers"].items():
        for group in groups:
            width, available = group["width"], group["units"]
            print(f"| {width} bits, {kind} | {len(containers_in_use(json.loads(phv), width, kind))} | {available} |")


def containers_in_use(header: dict, width: int, kind: str) -> set[int]:
    """Returns the containers in use. A container that ingress and egress both use counts once."""
    used = header["containers"]
    return {one["phv_number"] for one in used if one["bit_width"] == width and one["container_type"] == kind}


def tofino_sources(sources: str) -> str:
    """Returns the lines of SOURCES.sha256 for the sources of the program."""
    return "".join(
        line for line in sources.splitlines(keepends=True) if line.split("  ")[1].startswith(("include/", "tna/"))
    )


def stage_figures(stage: dict) -> tuple[int, ...]:
    """Returns the columns of a stage after its number."""
    stateful = [meter for meter in stage["meter_alus"]["meters"] if used_for(meter) == "stateful_ram"]
    return (
        len(stateful),
        len(stage["statistic_alus"]["stats"]),
        len(stage["rams"]["srams"]),
        len(stage["tcams"]["tcams"]),
        len(stage["gateways"]["gateways"]),
        len(stage["logical_tables"]["ids"]),
    )


def used_for(unit: dict) -> str:
    """Returns the purpose of a unit's first user."""
    return unit["usages"][0]["used_for"]


if __name__ == "__main__":
    main()
