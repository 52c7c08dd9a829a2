"""Checks an assembly of `tna/` for the faults in `docs/tofino.md` that the assembler does not detect.

python3 tofino_check.py ASSEMBLY
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

DROP = "eg_intr_md_for_dprsr.drop_ctl"

# The bits of a field in the assembly, such as `B16(3..5)`, `H7(0)`, or `W3` for a whole container.
PLACE = re.compile(r"\b([DMT]?[BHW]\d+)(?:\((\d+)(?:\.\.(\d+))?\))?")
WIDTHS = {"B": 8, "H": 16, "W": 32}


class Slice(NamedTuple):
    """The bits `low` to `high` of a container, which a field occupies for at least one stage."""

    field: str
    container: str
    low: int
    high: int

    def meets(self, other: Slice) -> bool:
        """Returns true if the slices have a bit in common."""
        return self.container == other.container and self.low <= other.high and other.low <= self.high


def main() -> int:
    """Prints each fault to standard error; returns 1 if there are any."""
    assembly = Path(sys.argv[1]).read_text(encoding="utf-8")
    found = faults(assembly)
    for fault in found:
        print(f"{sys.argv[1]}: {fault}; see docs/tofino.md", file=sys.stderr)
    return 1 if found else 0


def faults(assembly: str) -> list[str]:
    """Returns a description of each fault."""
    slices = phv_slices(assembly, "egress")
    drops = [one for one in slices if one.field == DROP]
    if not drops:
        return [f"the egress PHV has no {DROP}: adapt this check to the compiler"]
    sharing = sorted({one.field for one in slices if one.field != DROP and any(map(one.meets, drops))})
    found = [f"{field} shares bits with {DROP}: frames are dropped" for field in sharing]
    if "min_parse_depth" in assembly:
        found.append("the parser counts its minimum depth in 8 bits, and loses 4 bytes of longer frames")
    return found


def phv_slices(assembly: str, gress: str) -> list[Slice]:
    """Returns the slices of the fields of `ingress` or `egress`, in all stages."""
    slices = []
    inside = False
    for line in assembly.splitlines():
        if not line.startswith(" "):
            inside = line.strip() == f"phv {gress}:"
        # Fields are indented by two spaces, and their details for the context file by more.
        elif inside and (entry := re.match(r"  (\S+): (.*)", line)):
            field = re.sub(r"\.\d+-\d+$", "", entry[1])
            slices += [place(field, found) for found in PLACE.finditer(entry[2])]
    return slices


def place(field: str, found: re.Match[str]) -> Slice:
    """Returns the bits that a match of `PLACE` names."""
    container, low, high = found.groups()
    if low is None:
        return Slice(field, container, 0, WIDTHS[container.lstrip("DMT")[0]] - 1)
    return Slice(field, container, int(low), int(high or low))


if __name__ == "__main__":
    sys.exit(main())
