"""Figures and the table they are printed in."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

KEPT, BROKEN = "kept", "NOT KEPT"


def median(samples: Sequence[float]) -> float:
    """The middle one; 0 when there is none."""
    return statistics.median(samples) if samples else 0.0


def p95(samples: Sequence[float]) -> float:
    """The value that 95 of 100 samples do not exceed; 0 when there is none."""
    ordered = sorted(samples)
    return ordered[max(0, -(-len(ordered) * 95 // 100) - 1)] if ordered else 0.0


def ms(seconds: float) -> str:
    """Seconds as milliseconds for people."""
    return f"{seconds * 1000:.1f}" if seconds < 0.1 else f"{seconds * 1000:.0f}"


@dataclass(slots=True)
class Row:
    """One line of a table. ``facts`` are its numbers for programs; ``kept`` is None where nothing was promised."""

    what: str
    cells: dict[str, str]
    promise: str = ""
    kept: bool | None = None
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Report:
    """What one section measured."""

    section: str
    title: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(
        self, what: str, *, promise: str = "", kept: bool | None = None, facts: Any = None, **cells: object
    ) -> None:
        """One more line; cells are shown in the order of their first mention."""
        shown = {name.replace("_", " "): str(value) for name, value in cells.items()}
        self.rows.append(Row(what, shown, promise, kept, dict(facts or {})))

    def timed(
        self, what: str, samples: Sequence[float], *, at_most: float | None = None, promise: str = "", **cells: object
    ) -> None:
        """A line of durations in seconds, with the promise that their p95 is at most ``at_most`` seconds."""
        self.add(
            what,
            promise=promise or (f"p95 <= {at_most * 1000:.0f} ms" if at_most is not None else ""),
            kept=p95(samples) <= at_most if at_most is not None else None,
            facts={"median": median(samples), "p95": p95(samples), "count": len(samples)},
            n=len(samples),
            median_ms=ms(median(samples)),
            p95_ms=ms(p95(samples)),
            **cells,
        )

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return dataclasses.asdict(self)

    def text(self) -> str:
        """The table for people."""
        columns: list[str] = []
        for row in self.rows:
            columns += [name for name in row.cells if name not in columns]
        lines = [["", *columns, "promise", ""]]
        for row in self.rows:
            verdict = "" if row.kept is None else KEPT if row.kept else BROKEN
            lines.append([row.what, *(row.cells.get(name, "") for name in columns), row.promise, verdict])
        widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
        left = {0, len(widths) - 2, len(widths) - 1}
        shown = [
            "  ".join(
                cell.ljust(width) if place in left else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        rule = "-" * max(len(line) for line in shown)
        return "\n".join([f"## {self.title}", shown[0], rule, *shown[1:], *(f"   {note}" for note in self.notes), ""])
