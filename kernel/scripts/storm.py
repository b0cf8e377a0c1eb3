#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compare stock and ample where memory runs out: atomic storms, OOM kills.

usage: storm.py [--build DIR] [--out DIR] [--mem 2G] [--seeds N]

Runs the plan "storm" on both kernels, interleaved, and prints the median of
the failed requests, [min, max]. A finished run is not repeated unless the
kernel was built anew. Exit 1 if ample fails more often than stock in a median,
kills more or holds less.
"""
import pathlib
import statistics
import subprocess
import sys

import runs

HERE = pathlib.Path(__file__).resolve().parent
KERNELS = {"stock": "", "ample": "contiguitas=on"}


def run(build, out, kernel, mem, seed):
    """Counts of one guest by name."""
    where = out / f"storm-{mem}-{kernel}-{seed}"
    built = runs.kernel_id(build / kernel)
    r = runs.finished(where, built, "region_end")
    if r is None:
        runs.begin(where, built)
        subprocess.run([HERE / "guest.sh", build / kernel, "storm", where, "--mem", mem,
                        "--disk", "3072", "--timeout", "580", "--append", KERNELS[kernel]],
                       check=True)
        (where / "disk.img").unlink(missing_ok=True)
        r = runs.finished(where, built, "region_end")
    found = {}
    for what, value in r.items():
        if what.startswith("storm_"):
            found[f"of {value['storm_want_pages']} atomic pages, failed"] = value["storm_failed"]
        elif what == "held":
            found["kernel pages held (module asks for a fifth of memory)"] = value["kept_pages"]
        elif what in ("after_storms", "after_hold", "after_oom"):
            found[f"OOM kills {what.replace('_', ' ')}"] = value["oom_kill"]
    return found


def main():
    parser = runs.parser(__doc__, "kernel-runs", "2G")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    rows = {}
    for seed in range(1, args.seeds + 1):
        for kernel in KERNELS:
            for name, value in run(args.build, args.out, kernel, args.mem, seed).items():
                rows.setdefault(name, {}).setdefault(kernel, []).append(value)
    print("| what | stock | ample |\n|---|---|---|")
    worse = False
    for name, by_kernel in rows.items():
        cells = [f"{statistics.median(v):g} [{min(v)}, {max(v)}]" for v in by_kernel.values()]
        print(f"| {name} | {' | '.join(cells)} |")
        ample, stock = (statistics.median(by_kernel[k]) for k in ("ample", "stock"))
        worse |= ample < stock if "held" in name else ample > stock
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
