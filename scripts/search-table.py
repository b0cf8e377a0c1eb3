#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Puts the front that a search found into results/data/predict/fleet-search.json.

usage: search-table.py SEARCH.json   (what `python -m ample.search --out` wrote)

Notes and bars stay as they are: look at them again. `ample-results` makes the page anew afterwards.
"""
import datetime
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "results/data/predict/fleet-search.json"
# Of each objective: column, title, unit, factor, digits.
OBJECTIVES = {
    "unmovable_2m_ratio": ("blocks", "unmovable 2 MB blocks", "%", 100, 2),
    "stall_unmovable_ms_per_h": ("kernel", "kernel stalls", "ms/h", 1, 1),
    "stall_movable_ms_per_h": ("user", "user stalls", "ms/h", 1, 1),
    "migrated_pages_per_h": ("moved", "pages moved", "1000/h", 0.001, 1),
}


def columns():
    weights = "weights (thousandths): c_ue, c_me, c_us, c_ms"
    title = f"threshold of kernel and user stalls (bp), {weights}"
    yield {"key": "setting", "title": title, "unit": ""}
    for key, what, unit, _, digits in OBJECTIVES.values():
        yield {"key": key, "title": f"searched: {what}", "unit": unit, "digits": digits}
    for key, what, unit, _, digits in OBJECTIVES.values():
        unit = "points" if unit == "%" else unit
        title = f"unseen, less the defaults: {what}"
        yield {"key": f"held_{key}", "title": title, "unit": unit, "digits": digits}


def row(name, one, base):
    """A setting: its means where it was searched, and its paired differences on what is unseen."""
    cells = [name]
    for objective, (_, _, _, factor, digits) in OBJECTIVES.items():
        cells.append(round(one["train"][objective] * factor, digits))
    for objective, (_, _, _, factor, digits) in OBJECTIVES.items():
        found = one["held_out"][objective]
        shown = {"value": found["difference"], "plus_minus": found["standard_error"]}
        shown = {key: round(value * factor, digits) + 0.0 for key, value in shown.items()}
        cells.append(0 if one is base else shown)
    return cells


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    found = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if found.get("schema") != "ample.search/1":
        print(f"search-table: {sys.argv[1]} is no result of ample.search", file=sys.stderr)
        return 2
    base = found["defaults"]
    rows = [row("defaults: " + ", ".join(str(v) for v in base["resize"].values()), base, base)]
    for one in found["front"]:
        if one["resize"] != base["resize"]:
            rows.append(row(", ".join(str(v) for v in one["resize"].values()), one, base))
    table = json.loads(FILE.read_text(encoding="utf-8"))
    seeds = found["seeds"] + found["held_out_seeds"]
    shapes = {key: len(found[key]) for key in ("seeds", "held_out_seeds")}
    table.update(
        command="scripts/python.sh search --trials {trials} --memory-gb {memory_gb:g} --hours "
        "{hours:g}".format(**found),
        parameters={
            "judged on": f"{', '.join(found['held_out'])} with {shapes['held_out_seeds']} seeds",
            "memory of each server": f"{found['memory_gb']:g} GB",
            "searched on": f"{', '.join(found['train'])} with {shapes['seeds']} seeds",
            "settings": found["trials"],
            "uptime": f"{found['hours']:g} h",
        },
        seeds=seeds,
        columns=list(columns()),
        rows=rows,
        date=datetime.date.today().isoformat(),
    )
    commit = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short", "HEAD"],
        check=True,
        capture_output=True,
        text=True,
    )
    table["versions"]["ample"] = commit.stdout.strip()
    FILE.write_text(json.dumps(table) + "\n", encoding="utf-8")
    print(f"{len(rows)} rows in {FILE.relative_to(ROOT)}; {found['better_in_all']} settings of the "
          "front are at least as good as the defaults in all four objectives")
    return 0


if __name__ == "__main__":
    sys.exit(main())
