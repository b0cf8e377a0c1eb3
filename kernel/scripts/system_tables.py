#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Puts what system.py and engine.py have found into the results: results/data/show/system-*.json.

usage: system_tables.py check|walks|engine [--out DIR]

check  every row of OUT/check.json, into system-check
walks  the programs of OUT/walks.json, into system-walks and system-fragmented; rows of other
       programs stay. A figure of several seeds is their mean, with the lowest and the highest
engine every row of OUT/engine.json, into system-engine and system-engine-border
Dates the results and notes the version. `ample-results` makes their pages anew afterwards.
"""
import datetime
import json
import statistics
import subprocess
import sys

import runs
import system

DATA = runs.ROOT / "results/data/show"
PAGES = {"4k": "4 KB", "2m": "2 MB"}
ROUNDS = {0: "fresh", 12: "half spoiled", 40: "spoiled"}
TITLES = {"gcc": "gcc (cc1)"}
SPOILED = ("stock", "2m", 40)


def figure(values, digits):
    """Mean and range, or the one value."""
    rounded = [round(v, digits) if digits else round(v)
               for v in (statistics.fmean(values), min(values), max(values))]
    return rounded[0] if len(values) == 1 else dict(zip(("value", "low", "high"), rounded))


class Runs:
    """Rows of OUT/walks.json: by program, memory, seed, mode and scheme."""

    def __init__(self, rows):
        self.rows = {(r["program"], (r["kernel"], r["pages"], r["rounds"]), r["seed"], r["mode"],
                      r["scheme"].split(":")[0]): r for r in rows}
        self.programs = [p for p in system.SIZES if any(p == key[0] for key in self.rows)]

    def seeds(self, program, memory):
        return sorted({key[2] for key in self.rows if key[:2] == (program, memory)})

    def get(self, program, memory, seed, mode, scheme="paging"):
        mode = system.NAMES[program] if mode == "own" else mode
        return self.rows[program, memory, seed, mode, scheme]

    def both(self, program, memory, seed):
        return [self.get(program, memory, seed, mode) for mode in ("user", "kernel")]

    def over(self, program, memory, digits, value):
        """A figure over the seeds; `value` gets the seed."""
        return figure([value(seed) for seed in self.seeds(program, memory)], digits)


def share(rows, part, whole):
    """The sum of one count in percent of the sum of another."""
    return 100 * sum(row[part] for row in rows) / sum(row[whole] for row in rows)


def cycles_per_instruction(row):
    return row["cycles"] / row["instructions"]


def of_fresh(all_runs, program, pages):
    """A row of system-walks."""
    memory = ("stock", pages, 0)

    def over(digits, value):
        return all_runs.over(program, memory, digits, value)

    def counted(mode, key, digits):
        return over(digits, lambda seed: all_runs.get(program, memory, seed, mode)[key])

    return [TITLES.get(program, program), PAGES[pages], len(all_runs.seeds(program, memory)),
            over(0, lambda s: sum(r["instructions"] for r in all_runs.both(program, memory, s))
                 / 1e6),
            counted("own", "walks_data_per_kilo_instruction", 3),
            counted("own", "walks_fetch_per_kilo_instruction", 3),
            counted("own", "walk_percent", 2),
            counted("kernel", "walks_data_per_kilo_instruction", 3),
            counted("kernel", "walk_percent", 2),
            counted("kernel", "direct_map_percent", 3),
            over(2, lambda s: share(all_runs.both(program, memory, s), "walk_units",
                                    "time_units"))]


def of_spoiled(all_runs, program, memory):
    """A row of system-fragmented."""
    kernel, pages, rounds = memory
    seeds = all_runs.seeds(program, memory)

    def over(digits, value):
        return all_runs.over(program, memory, digits, value)

    def own(seed, scheme="paging", where=memory):
        return all_runs.get(program, where, seed, "own", scheme)

    def left(scheme):
        return over(0, lambda s: share([own(s, scheme)], "walks_data", "instructions")
                    / share([own(s)], "walks_data", "instructions") * 100)

    against = [s for s in seeds if s in all_runs.seeds(program, SPOILED)]
    faster = [100 * (cycles_per_instruction(own(s, where=SPOILED)) / cycles_per_instruction(own(s))
                     - 1) for s in against]
    return [TITLES.get(program, program), kernel, PAGES[pages], ROUNDS[rounds], len(seeds),
            over(0, lambda s: share([own(s)], "unmovable_blocks", "blocks")),
            over(0, lambda s: share([own(s)], "huge_kib", "rss_kib")),
            over(3, lambda s: own(s)["walks_data_per_kilo_instruction"]),
            over(2, lambda s: own(s)["walk_percent"]),
            over(3, lambda s: cycles_per_instruction(own(s))),
            figure(faster, 1) if faster and memory != SPOILED else None, left("colt"), left("rmm")]


def write(path, result):
    """Writes a result of today; ample-results gives it its form."""
    result["date"] = str(datetime.date.today())
    result["versions"]["ample"] = subprocess.check_output(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=runs.ROOT, text=True).strip()
    path.write_text(json.dumps(result, ensure_ascii=False))


def put(name, fresh, keys):
    """Replaces the rows of a result whose first cells are those of a fresh one, adds the rest."""
    if not fresh:
        return
    path = DATA / f"{name}.json"
    result = json.loads(path.read_text())
    rows = {tuple(row[:keys]): row for row in result["rows"]}
    rows.update({tuple(row[:keys]): row for row in fresh})
    order = [TITLES.get(program, program) for program in system.SIZES]
    result["rows"] = sorted(rows.values(), key=lambda row: order.index(row[0]))
    write(path, result)
    print(f"{path.relative_to(runs.ROOT)}: {len(fresh)} rows of {len(rows)} are new")


def replace(name, rows):
    """Replaces all rows of a result."""
    path = DATA / f"{name}.json"
    write(path, {**json.loads(path.read_text()), "rows": rows})


def shown(expected, found):
    """Both cells of a check: numbers as they are; of what is no number, whether it holds."""
    if isinstance(expected, bool):
        return "yes", "yes" if found else "no"
    if isinstance(expected, list):
        return "equal", "equal" if found == expected else "differ"
    return expected, found


def engine(found):
    """Both results of the migration engine."""
    mib = 1 << 20
    replace("system-engine", [
        [r["load"], r["cpus"], r["design"], r["table"], r["moves"], r["operations"], r["wrong"],
         round(r["moves"] / max(r["seconds"], 0.1))] for r in found["loads"]])
    replace("system-engine-border", [
        [f"1 in {r['out_of']}", "yes" if r["engine"] else "no", round(r["pinned_bytes"] / mib),
         round(r["held_bytes"] / mib), round(r["after_bytes"] / mib), r["moved"], r["wrong"],
         r["block"]["slab"] + r["block"]["page_tables"]] for r in found["borders"]])


def main():
    parser = runs.parser(__doc__, "system", "1G")
    parser.add_argument("what", choices=("check", "walks", "engine"))
    args = parser.parse_args()
    found = args.out / f"{args.what}.json"
    if not found.exists():
        sys.exit(f"system_tables.py: no {found}; make system-{args.what} writes it")
    rows = json.loads(found.read_text())
    if args.what == "check":
        replace("system-check", [[r["guest"], r["what"], *shown(r["expected"], r["found"])]
                                 for r in rows])
        return
    if args.what == "engine":
        engine(rows)
        return
    all_runs = Runs(rows)
    put("system-walks", [of_fresh(all_runs, program, pages) for program in all_runs.programs
                         for pages in PAGES if all_runs.seeds(program, ("stock", pages, 0))], 2)
    put("system-fragmented", [of_spoiled(all_runs, program, memory)
                              for program in all_runs.programs if program in system.FRAGMENTED
                              for memory in system.MEMORY if all_runs.seeds(program, memory)], 4)


if __name__ == "__main__":
    main()
