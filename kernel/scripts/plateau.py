#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run workloads round after round until what they spoil stops growing, stock and ample.

usage: plateau.py [--build DIR] [--out DIR] [--workloads A,B] [--mem 2G] [--seeds N]

One CPU, an instruction takes a nanosecond and idle time none, so that ten idle minutes take
seconds and the load of the host changes nothing but the wall time. Ample runs as many rounds as
stock did, so that there is a ratio for each. Writes OUT/results.json (a list, one object a pair
of runs) and prints one line a pair. The floor, in blocks: the unmovable pages in use after each
round, packed, which takes a placement that knows when each page is freed.
"""
import json
import subprocess
import sys

import bench
import runs

WORKLOADS = ["fragmenter", "creep", "full", "sources", "churn", "web", "build", "mixed", "restart"]
EMULATOR = "-accel tcg,thread=single -icount shift=0,sleep=off"
# The bar: a quarter of stock wherever that has spoiled more than this share of the blocks.
STOCK_SHARE = 0.15


def guest(args, config, kernel, workload, seed, more=""):
    """The states of one run by name, each a list, unless this kernel's run is there; or None."""
    tree, append = bench.CONFIGS[config]
    where = bench.place(args, args.mem, workload, config, seed)
    if runs.finished(where, kernel, "released_state") is None:
        runs.begin(where, kernel)
        subprocess.run(
            [bench.HERE / "guest.sh", args.build / tree, "plateau", where, "--mem", args.mem,
             "--smp", "1", "--disk", "2048", "--timeout", str(args.timeout), "--qemu", EMULATOR,
             "--append", f"{append(int(args.mem[:-1]))} ample.workload={workload} "
             f"ample.seed={seed} {more}"], check=False)
        (where / "disk.img").unlink(missing_ok=True)
    if runs.finished(where, kernel, "released_state") is None:
        return None
    states = {}
    for line in (where / "results.jsonl").read_text().splitlines():
        result = json.loads(line)
        states.setdefault(result["what"], []).append(result.get("value", result))
    return states


def pair(args, kernels, workload, seed):
    """One row: the courses of both kernels, and what is left afterwards."""
    stock = guest(args, "stock", kernels["stock"], workload, seed)
    rounds = len(stock["round_state"]) if stock else 0
    ample = stock and guest(args, "ample", kernels["ample"], workload, seed,
                            f"ample.rounds_min={rounds} ample.rounds_max={rounds}")
    if not ample:
        return None
    course = {name: [state["spoiled"] for state in run["round_state"]]
              for name, run in (("stock", stock), ("ample", ample))}
    floor = [-(-(pages["unmovable_pages"] + pages["bare_pages"]) // 512)
             for pages in ample["round"]]
    least = STOCK_SHARE * ample["round"][0]["order9"]["blocks"]
    ratios = [a / s for s, a in zip(course["stock"], course["ample"])]
    row = {"mem": args.mem, "workload": workload, "seed": seed, "kernels": kernels, **course,
           "floor": floor, "plateau_ratio": ratios[-1],
           "largest_ratio": max((r for r, s in zip(ratios, course["stock"]) if s > least),
                                default=None)}
    for moment in ("gone", "idle", "released"):
        state = ample[f"{moment}_state"][0]
        row[f"{moment}_region_mib"] = state["region_mib"]
        row[f"{moment}_free_pct"] = 100 * state["region_free_mib"] / state["region_mib"]
    return row


def main():
    parser = runs.parser(__doc__, "kernel-plateau", "2G")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--timeout", type=int, default=1200, help="seconds a run may take")
    args = parser.parse_args()
    for name in args.workloads.split(","):
        if name not in WORKLOADS:
            sys.exit(f"plateau.py: no workload {name}; there are {', '.join(WORKLOADS)}")
    kernels = {name: runs.kernel_id(args.build / name) for name in ("stock", "ample")}
    rows = []
    for seed in range(1, args.seeds + 1):
        for workload in args.workloads.split(","):
            row = pair(args, kernels, workload, seed)
            print(json.dumps(row) if row else f"{workload} seed {seed} did not finish")
            rows += [row] if row else []
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "results.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
