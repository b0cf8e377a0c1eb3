#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run the bench matrix in guests and tabulate it.

usage: bench.py [--build DIR] [--out DIR] [--workloads A,B] [--mem 2G,6G]
                [--configs stock,kernelcore,ample] [--seeds N] [--timeout S]
                [--smp N]

Runs of the configurations are interleaved. A finished run is not repeated
unless the kernel was built anew. At the end writes OUT/results.json (schema
ample.kernel-bench/1, one object a run) and prints a Markdown table (medians
over the seeds, with [min, max]), both of all runs in OUT of these kernels.
"""
import json
import pathlib
import statistics
import subprocess
import sys

import runs

HERE = pathlib.Path(__file__).resolve().parent
WORKLOADS = ["fragmenter", "creep", "churn", "web", "build", "mixed", "restart", "full"]
# The static confinement that stock Linux offers gets what ample starts with.
CONFIGS = {
    "stock": ("stock", lambda mem: ""),
    "kernelcore": ("stock", lambda mem: f"kernelcore={mem * 1024 // 16 + 64}M"),
    "ample": ("ample", lambda mem: "contiguitas=on"),
}


def place(args, mem, workload, config, seed):
    """Where that run lies."""
    return args.out / f"{workload}-{mem}-{config}-{seed}"


def run(args, kernels, mem, workload, config, seed):
    """One guest, unless this kernel's run is there; returns its result objects by name."""
    tree, append = CONFIGS[config]
    where = place(args, mem, workload, config, seed)
    r = runs.finished(where, kernels[config], "counters")
    if r is None:
        runs.begin(where, kernels[config])
        subprocess.run(
            [HERE / "guest.sh", args.build / tree, "bench", where, "--mem", mem,
             "--smp", str(args.smp), "--disk", "2048", "--timeout", str(args.timeout), "--append",
             f"{append(int(mem[:-1]))} ample.workload={workload} ample.seed={seed}"],
            check=False)
        (where / "disk.img").unlink(missing_ok=True)
        (where / "initramfs.gz").unlink(missing_ok=True)
        r = runs.finished(where, kernels[config], "counters")
    return r


def collect(args, kernels):
    """Rows of all runs in OUT that are of these kernels, by guest, workload and kernel."""
    rows = []
    for where in args.out.iterdir():
        name = where.name.split("-")
        if len(name) != 4 or name[0] not in WORKLOADS or name[2] not in kernels:
            continue
        workload, mem, config, seed = name[0], name[1], name[2], int(name[3])
        noted = (where / "kernel").read_text().strip() if (where / "kernel").exists() else "none"
        if noted != kernels[config]:
            print(f"bench.py: {where.name} is of another kernel ({noted}): left out",
                  file=sys.stderr)
            continue
        r = runs.finished(where, noted, "counters")
        rows.append({"schema": "ample.kernel-bench/1", "mem": mem, "workload": workload,
                     "config": config, "seed": seed, "kernel": noted,
                     "figures": figures(r) if r else None, "raw": r})
    rows.sort(key=lambda row: (int(row["mem"][:-1]), WORKLOADS.index(row["workload"]),
                               list(CONFIGS).index(row["config"]), row["seed"]))
    return rows


def figures(r):
    """The figures of the table from one run, None where there is none."""
    after = r["after"]
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


def lived_table(heads, columns, groups):
    """
    The lines of a Markdown table of medians. A group is its cells under `heads` and its runs, of
    which those without figures did not live to their end; `columns` have a title and decimals.
    """
    titles = [*heads, "lived to the end", *(title for title, _ in columns.values())]
    yield f"| {' | '.join(titles)} |"
    yield "|---" * len(titles) + "|"
    for cells, all_of in groups:
        of = [row["figures"] for row in all_of if row["figures"]]
        medians = [spread([f[key] for f in of], digits) for key, (_, digits) in columns.items()]
        yield f"| {' | '.join([*cells, f'{len(of)} of {len(all_of)}', *medians])} |"


def main():
    parser = runs.parser(__doc__, "kernel-bench", "2G,6G")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
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

    kernels = {name: runs.kernel_id(args.build / tree) for name, (tree, _) in CONFIGS.items()}
    for mem in args.mem.split(","):
        for workload in args.workloads.split(","):
            for seed in range(1, args.seeds + 1):
                for config in args.configs.split(","):
                    r = run(args, kernels, mem, workload, config, seed)
                    print(f"{mem} {workload} {config} seed {seed}: {figures(r) if r else None}",
                          file=sys.stderr)
    rows = collect(args, kernels)
    (args.out / "results.json").write_text(json.dumps(rows, indent=1))
    table = {}
    for row in rows:
        key = row["mem"], row["workload"], row["config"]
        table.setdefault(key, []).append(row["figures"] or {})
    print_table(table)


def print_table(table):
    """Medians over the seeds as Markdown."""
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
