"""How much went over the fabric, how much another way, and why."""

from __future__ import annotations

import logging
from collections import Counter

logger = logging.getLogger("tributary")


class Tally:
    """Counts collectives and their bytes, by their way."""

    def __init__(self) -> None:
        self.fabric: Counter[str] = Counter()
        """Bytes over the fabric, by collective."""
        self.gloo: Counter[tuple[str, str]] = Counter()
        """Bytes by gloo, by collective and reason."""
        self.calls: Counter[str] = Counter()
        """Collectives, by way."""

    def over_fabric(self, collective: str, size: int) -> None:
        """A collective of so many bytes has gone over the fabric."""
        self.fabric[collective] += size
        self.calls["fabric"] += 1

    def over_gloo(self, collective: str, size: int, reason: str) -> None:
        """A collective of so many bytes goes by gloo, for this reason."""
        if (collective, reason) not in self.gloo:
            logger.debug("%s goes by gloo: %s", collective, reason)
        self.gloo[collective, reason] += size
        self.calls["gloo"] += 1

    def report(self) -> str:
        """All of it, for people."""
        lines = [f"{self.calls['fabric']} collectives over the fabric, {self.calls['gloo']} by gloo"]
        lines += [f"  fabric: {name}, {size / 1e6:.1f} MB" for name, size in sorted(self.fabric.items())]
        lines += [
            f"  gloo: {name}, {size / 1e6:.1f} MB: {reason}" for (name, reason), size in sorted(self.gloo.items())
        ]
        return "\n".join(lines)
