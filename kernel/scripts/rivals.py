#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What keeps memory contiguous on Linux 7.3, compared in guests, each run to its plateau.

usage: rivals.py [--build DIR] [--out DIR] [--mem 2G,4G] [--configs stock,defrag,...] [--seeds N]
                 [--rounds N] [--timeout SECONDS]

Runs of the configurations are interleaved; a run is not repeated unless the kernel was built anew,
also if its guest died. At the end writes OUT/results.json (schema ample.kernel-rivals/2, one object
a run) and prints a Markdown table of medians over the seeds with [least, most]. A guest of 2 GB has
no whole gigabyte for hugetlb_cma=1G.
"""
import json
import subprocess
import sys

import runs
from bench import lived_table

GUEST = runs.ROOT / "kernel/scripts/guest.sh"
# tree, command line; {mib} is a sixteenth of memory and 64 MB, what ample starts with; a quarter is
# the most that it may take
CONFIGS = {
    "stock": ("stock", ""),
    "defrag": ("stock", "ample.defrag=1"),
    "kernelcore": ("stock", "kernelcore={mib}M"),
    "kernelcore-quarter": ("stock", "kernelcore=25%"),
    "hugetlb_cma": ("stock", "hugetlb_cma=1G"),
    "ample": ("ample", "contiguitas=on"),
    "ample-defrag": ("ample", "contiguitas=on ample.defrag=1"),
}
# key: title, decimals
COLUMNS = {
    "rounds": ("rounds to the plateau", 0),
    "crossing": ("fallbacks across types", 0),
    "unmovable_pct": ("unmovable 2M blocks, %", 1),
    "thp_pct": ("THP, %", 0),
    "fault_p50_us": ("fault p50, us", 0),
    "fault_p99_us": ("fault p99, us", 0),
    "huge_1g": ("1G pages", 0),
    "scanned": ("pages scanned by reclaim", 0),
    "migrated": ("pages migrated", 0),
    "stalls": ("direct reclaims", 0),
    "compactions": ("direct compactions", 0),
    "oom_kills": ("OOM kills", 0),
    "http_per_s": ("HTTP requests a second", 0),
    "services_s": ("services, s", 0),
}


def figures(where):
    """The figures of the table from one run."""
    objects = runs.objects(where)
    r = {o["what"]: o.get("value", o) for o in objects}
    blocks, counters = r["plateau"]["order9"], r["counters"]
    return {
        "curve": [o["unmovable_blocks"] for o in objects if o["what"] == "round"],
        "rounds": sum(o["what"] == "round" for o in objects),
        "crossing": r["extfrag_end"]["crossing_events"],
        "unmovable_pct": 100 * blocks["unmovable_blocks"] / blocks["blocks"],
        "thp_pct": 100 * r["thp"]["thp_got"] / r["thp"]["thp_wanted"],
        "fault_p50_us": r["thp"]["fault_p50_ns"] / 1000,
        "fault_p99_us": r["thp"]["fault_p99_ns"] / 1000,
        "huge_1g": (r["huge_1g"] or {}).get("got", 0),
        "scanned": counters["pgscan_direct"] + counters["pgscan_kswapd"],
        "migrated": counters["pgmigrate_success"],
        "stalls": sum(n for key, n in counters.items() if key.startswith("allocstall")),
        "compactions": counters["compact_stall"],
        "oom_kills": counters["oom_kill"],
        "http_per_s": r["services"]["http_per_s"],
        "services_s": r["services"]["seconds"],
    }


def run(args, mem, config, seed):
    """The row of one guest, which is run unless it was with this kernel. Its figures are None if it
    did not live to its end, which is a result too."""
    tree, append = CONFIGS[config]
    kernel = runs.kernel_id(args.build / tree)
    where = args.out / f"{config}-{mem}-{seed}"
    mib = int(mem[:-1]) * 64 + 64
    words = [GUEST, args.build / tree, "rivals", where, "--mem", mem, "--smp", "1",
             "--disk", "2048", "--timeout", str(args.timeout), "--append",
             f"{append.format(mib=mib)} ample.seed={seed} ample.rounds={args.rounds}"]
    found = runs.outcome(where, kernel, lambda: subprocess.run(words, check=False), figures)
    return {"schema": "ample.kernel-rivals/2", "mem": mem, "config": config, "seed": seed,
            "kernel": kernel, "figures": found}


def table(args, rows):
    """The Markdown table of all rows."""
    groups = [((mem, config), [row for row in rows if (row["mem"], row["config"]) == (mem, config)])
              for mem in args.mem.split(",") for config in args.configs.split(",")]
    return lived_table(("guest", "configuration"), COLUMNS, groups)


def main():
    parser = runs.parser(__doc__, "kernel-rivals", "2G,4G")
    parser.set_defaults(build=runs.ROOT / "build/kernel-7.3")
    parser.add_argument("--configs", default=",".join(CONFIGS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=30, help="at most")
    parser.add_argument("--timeout", type=int, default=1800, help="seconds a run may take")
    args = parser.parse_args()
    for name in args.configs.split(","):
        if name not in CONFIGS:
            sys.exit(f"rivals.py: no configuration {name}; there are {', '.join(CONFIGS)}")
    rows = []
    for seed in range(1, args.seeds + 1):
        for mem in args.mem.split(","):
            for config in args.configs.split(","):
                rows.append(run(args, mem, config, seed))
                print(f"{mem} {config} seed {seed}: {rows[-1]['figures']}", file=sys.stderr)
    (args.out / "results.json").write_text(json.dumps(rows, indent=1))
    print("\n".join(table(args, rows)))


if __name__ == "__main__":
    main()
