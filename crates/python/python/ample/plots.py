# SPDX-License-Identifier: MIT OR Apache-2.0
"""The paper's figures 4, 5, 6 and 11 with matplotlib, from tables of a fleet and from results.

Each function takes a `Table` (or several by name), draws into `axes` (new ones without) and gives
the axes back, so that a notebook can go on with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from . import AmpleError, Table

Tables = Union[Table, Mapping[str, Table]]

SIZES = {2 << 20: "2 MB", 4 << 20: "4 MB", 32 << 20: "32 MB", 1 << 30: "1 GB"}


def _axes(axes: Optional[Any]) -> Any:
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise AmpleError("matplotlib is not installed; pip install matplotlib") from error
    return pyplot.figure().subplots()


def _named(tables: Tables) -> Mapping[str, Table]:
    return {"": tables} if isinstance(tables, Table) else tables


def _rows(table: Table, kind: str, **wanted: Any) -> list[dict[str, Any]]:
    rows = [
        row
        for row in table.to_dicts()
        if row.get("kind") == kind and all(row[name] == value for name, value in wanted.items())
    ]
    if not rows:
        what = ", ".join(f"{name}={value}" for name, value in wanted.items())
        raise AmpleError(f"the table has no row of kind {kind} with {what}: is it one of a fleet?")
    return rows


def cdf(axes: Any, values: Iterable[float], label: str) -> None:
    """The share of values up to each, in per cent of both."""
    held = sorted(values)
    shares = [100 * (at + 1) / len(held) for at in range(len(held))]
    axes.step([100 * value for value in held], shares, where="post", label=label)


def _finish(axes: Any, across: str, up: str) -> Any:
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.legend()
    return axes


def free_contiguity(tables: Tables, axes: Optional[Any] = None) -> Any:
    """Figure 4: free memory in wholly free blocks, of all free memory, over the servers."""
    axes = _axes(axes)
    for name, table in _named(tables).items():
        free = {r["host"]: r["free_bytes"] for r in _rows(table, "machine")}
        for size, title in SIZES.items():
            rows = _rows(table, "size", size_bytes=size, definition="K")
            shares = [r["free_blocks"] * size / max(1, free[r["host"]]) for r in rows]
            cdf(axes, shares, f"{name} {title}".strip())
    return _finish(axes, "free memory in free blocks, %", "servers, %")


def unmovable(
    tables: Tables, definition: str = "P", size_bytes: int = 2 << 20, axes: Optional[Any] = None
) -> Any:
    """Figure 5: blocks with an unmovable page, of all blocks, over the servers."""
    axes = _axes(axes)
    for name, table in _named(tables).items():
        rows = _rows(table, "size", size_bytes=size_bytes, definition=definition)
        shares = [r["unmovable_blocks_high"] / max(1, r["blocks"]) for r in rows]
        cdf(axes, shares, name or f"definition {definition}")
    return _finish(axes, "blocks with an unmovable page, %", "servers, %")


def sources(table: Table, axes: Optional[Any] = None) -> Any:
    """Figure 6: unmovable pages of the fleet by source."""
    axes = _axes(axes)
    pages: Counter[str] = Counter()
    for row in _rows(table, "source"):
        pages[row["source"]] += row["source_pages"]
    whole = max(1, sum(pages.values()))
    names = [name for name, held in pages.most_common() if held]
    bars = axes.bar(names, [100 * pages[name] / whole for name in names])
    axes.bar_label(bars, fmt="%.0f")
    axes.tick_params(axis="x", rotation=30)
    axes.set_ylabel("unmovable pages, %")
    return axes


def policies(rows: Table, axes: Optional[Any] = None) -> Any:
    """Figure 11: unmovable 2 MB blocks by workload and policy, from `run("fig11").tables()`."""
    axes = _axes(axes)
    held: dict[str, dict[str, float]] = {}
    for row in rows.to_dicts():
        try:
            mean = row["unmovable_2m_ratio.mean"]
            held.setdefault(row["policy"], {})[row["workload"]] = 100 * mean
        except KeyError as error:
            raise AmpleError(f"the table has no column {error}: give a table of fig11") from error
    workloads = list(next(iter(held.values())))
    width = 0.8 / len(held)
    for at, (policy, values) in enumerate(held.items()):
        places = [place + at * width for place in range(len(workloads))]
        axes.bar(places, [values[workload] for workload in workloads], width, label=policy)
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(workloads))], workloads)
    return _finish(axes, "workload", "2 MB blocks with an unmovable page, %")
