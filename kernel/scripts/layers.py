#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Kernel and allocator under one service, in guests whose CPU counts instructions.

usage: layers.py [--build DIR] [--out DIR] [--mem 1G] [--seeds N] [--timeout SECONDS]

A guest for each kernel and seed runs the plan layers: redis under glibc's malloc, under ours and
under ours without its sight of native pages. A finished run is not repeated unless the kernel was
built anew. Writes OUT/results.json: one object for each kernel, allocator, state and seed.
"""
import json
import subprocess
import sys

import runs

GUEST = runs.ROOT / "kernel/scripts/guest.sh"
# name: command line; the tree has the same name
KERNELS = {"stock": "", "ample": "contiguitas=on"}
STATES = ("full", "later")


def rows(where, kernel, seed):
    """The rows of one guest."""
    objects = [json.loads(line) for line in (where / "results.jsonl").read_text().splitlines()]
    blocks = next(o["value"]["order9"] for o in objects if o["what"] == "fragmented")
    own = {o["malloc"]: o["value"] for o in objects if o["what"] == "stats"}
    counts = ("found_native_hugepages", "collapsed_hugepages")
    for o in objects:
        if o["what"] in STATES:
            stats = own.get(o["malloc"], {}) if o["what"] == STATES[-1] else {}
            yield {"kernel": kernel, "seed": seed, "state": o.pop("what"), **o,
                   "unmovable_ratio": blocks["unmovable_blocks"] / blocks["blocks"],
                   **{name: stats.get(name) for name in counts}}


def run(args, kernel, seed):
    """The rows of one guest, which is run unless it was with this kernel."""
    tree, where = args.build / kernel, args.out / f"{kernel}-{seed}"
    build = runs.kernel_id(tree)
    if runs.finished(where, build, "counters") is None:
        runs.begin(where, build)
        subprocess.run(
            [GUEST, tree, "layers", where, "--mem", args.mem, "--smp", "1", "--disk", "1024",
             "--timeout", str(args.timeout), "--append", f"{KERNELS[kernel]} ample.seed={seed}",
             "--qemu", "-accel tcg,thread=single -icount shift=0,sleep=off"], check=False)
        for left in ("disk.img", "initramfs.gz"):
            (where / left).unlink(missing_ok=True)
    if runs.finished(where, build, "counters") is None:
        sys.exit(f"layers.py: the guest {where} did not end well")
    return list(rows(where, kernel, seed))


def main():
    parser = runs.parser(__doc__, "kernel-layers", "1G")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--timeout", type=int, default=1800, help="seconds a run may take")
    args = parser.parse_args()
    found = []
    for seed in range(1, args.seeds + 1):
        for kernel in KERNELS:
            found += run(args, kernel, seed)
            print(f"{kernel} seed {seed}: done", file=sys.stderr)
    (args.out / "results.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
