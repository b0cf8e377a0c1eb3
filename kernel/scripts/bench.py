#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run the bench matrix in guests and tabulate it.

usage: bench.py [--build DIR] [--out DIR] [--workloads A,B] [--mem 2G,6G]
                [--configs stock,kernelcore,ample] [--seeds N] [--timeout S]
                [--smp N]

Writes OUT/results.json (schema ample.kernel-bench/1, one object a run) and
prints a Markdown table: medians over the seeds, with [min, max].
Runs of the configurations are interleaved. Finished runs are not repeated.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
WORKLOADS = ["fragmenter", "creep", "churn", "web", "build", "mixed", "restart", "full"]
# The static confinement that stock Linux offers gets what ample starts with.
CONFIGS = {
    "stock": ("stock", lambda mem: ""),
    "kernelcore": ("stock", lambda mem: f"kernelcore={mem * 1024 // 16 + 64}M"),
    "ample": ("ample", lambda mem: "contiguitas=on"),
}


def run(args, config, mem, workload, seed):
    """One guest; returns its result objects by name."""
    tree, append = CONFIGS[config]
    where = args.out / f"{workload}-{mem}-{config}-{seed}"
    done = where / "results.jsonl"
    if not done.exists() or '"what": "counters"' not in done.read_text():
        subprocess.run(
            [HERE / "guest.sh", args.build / tree, "bench", where, "--mem", mem,
             "--smp", str(args.smp), "--disk", "2048", "--timeout", str(args.timeout), "--append",
             f"{append(int(mem[:-1]))} ample.workload={workload} ample.seed={seed}"],
            check=False)
        (where / "disk.img").unlink(missing_ok=True)
        (where / "initramfs.gz").unlink(missing_ok=True)
    if not done.exists():
        return None
    objects = [json.loads(line) for line in done.read_text().splitlines()]
    return {o["what"]: o.get("value", o) for o in objects}


def figures(r):
    """The figures of the table from one run, None where there is none."""
    after = r.get("after")
    if not after or "counters" not in r:
        return None
    two_mb, big = after["order9"], after["order18"]
    region_2m = (r["region"]["unmovable_bytes"] >> 21) if "region" in r else 0
    wide = after["order13"]
    return {
        "crossing": r["extfrag"]["crossing_events"],
        "above": after["above_border_unmovable_pages"],
        "unmovable_share_pct": 100 * two_mb["unmovable_blocks"] / two_mb["blocks"],
        "potential_2m_pct": 100 * two_mb["potential_blocks"] / two_mb["blocks"],
        "potential_32m_pct": 100 * wide["potential_blocks"] / wide["blocks"],
        "potential_1g": big["potential_blocks_max"],
        "outside_2m_pct": 100 * min(1, two_mb["potential_blocks"] /
                                    max(1, two_mb["blocks"] - region_2m)),
        "region_mib": region_2m * 2,
        "inner_free_pct": 100 * two_mb["free_pages_in_unmovable_blocks"] /
                          max(1, 512 * two_mb["unmovable_blocks"]),
        "module_pages": (r.get("module") or {}).get("kept_pages", 0),
        "module_failed": (r.get("module") or {}).get("failed", 0),
        "thp_pct": 100 * r["thp"]["thp_got"] / r["thp"]["thp_wanted"],
        "huge_1g": (r["huge_1g"] or {}).get("got", 0),
        "oom_kill": r["counters"]["oom_kill"],
    }


def spread(values, digits=1):
    values = [v for v in values if v is not None]
    if not values:
        return "-"
    mid = statistics.median(values)
    text = f"{mid:.{digits}f}"
    if min(values) != max(values):
        text += f" [{min(values):.{digits}f}, {max(values):.{digits}f}]"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build/kernel")
    parser.add_argument("--out", type=pathlib.Path,
                        default=HERE.parents[1] / "build/kernel-bench")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--mem", default="2G,6G")
    parser.add_argument("--configs", default=",".join(CONFIGS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--timeout", type=int, default=1200, help="seconds a run may take")
    parser.add_argument("--smp", type=int, default=1,
                        help="CPUs of a guest; on a busy host two wait for each other a lot")
    args = parser.parse_args()
    for name in args.workloads.split(","):
        if name not in WORKLOADS:
            sys.exit(f"bench.py: no workload {name}; there are {', '.join(WORKLOADS)}")
    for name in args.configs.split(","):
        if name not in CONFIGS:
            sys.exit(f"bench.py: no configuration {name}; there are {', '.join(CONFIGS)}")

    table, runs = {}, []
    for mem in args.mem.split(","):
        for workload in args.workloads.split(","):
            for seed in range(1, args.seeds + 1):
                for config in args.configs.split(","):
                    r = run(args, config, mem, workload, seed)
                    f = figures(r) if r else None
                    print(f"{mem} {workload} {config} seed {seed}: {f}", file=sys.stderr)
                    runs.append({"schema": "ample.kernel-bench/1", "mem": mem,
                                 "workload": workload, "config": config, "seed": seed,
                                 "figures": f, "raw": r})
                    table.setdefault((mem, workload, config), []).append(f or {})
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "results.json").write_text(json.dumps(runs, indent=1))
    print("| guest | workload | kernel | runs | crossing events | unmovable pages above the border "
          "(kpageflags) | unmovable 2M blocks, % | "
          "potential 2M, % | potential 32M, % | outside the region 2M, % | region, MiB | "
          "free in unmovable blocks, % | THP, % | 1G pages got (blocks free of unmovable) | "
          "OOM kills |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for (mem, workload, config), rows in table.items():
        def col(key, digits=1):
            return spread([row.get(key) for row in rows], digits)
        got = sum(1 for row in rows if row)
        above = col("above", 0) if config == "ample" else "-"
        print(f"| {mem} | {workload} | {config} | {got} | {col('crossing', 0)} | {above} | "
              f"{col('unmovable_share_pct')} | {col('potential_2m_pct')} | "
              f"{col('potential_32m_pct')} | {col('outside_2m_pct')} | {col('region_mib', 0)} | "
              f"{col('inner_free_pct')} | {col('thp_pct')} | "
              f"{col('huge_1g', 0)} ({col('potential_1g', 0)}) | "
              f"{col('oom_kill', 0)} |")


if __name__ == "__main__":
    main()
