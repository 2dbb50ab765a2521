"""The table by which `faults.py` recognises what went wrong at a provider: data only.

Rows are read from the top and the first that fits wins, so the order is: what never came to a status, structured
codes, wording within the statuses in which it counts, statuses. Wording is anchored to the whole phrase of a known
server: a word such as "quota" or "forbidden" alone says nothing. `example` is a text that the row must recognise; it is
a test. Sources: W1 to W3 and B numbers are rows of the project's case list (public bug reports, read in November 2026);
vendors' names stand for their public API references, read at the same time.
"""

from __future__ import annotations

from hermes.kernel.fault_rows.access import ACCESS
from hermes.kernel.fault_rows.first import FIRST
from hermes.kernel.fault_rows.last import LAST
from hermes.kernel.fault_rows.pictures import PICTURES
from hermes.kernel.fault_rows.row import FaultRow
from hermes.kernel.fault_rows.shapes import SHAPES
from hermes.kernel.fault_rows.sizes import SIZES

ROWS: tuple[FaultRow, ...] = (*FIRST, *SIZES, *PICTURES, *SHAPES, *ACCESS, *LAST)
"""Sizes before shapes: a text that says how large the output may be also names its parameter."""

__all__ = ["ROWS", "FaultRow"]
