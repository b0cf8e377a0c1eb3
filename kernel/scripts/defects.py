#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run the plans of configurations in which the series once failed, stock beside ample.

usage: defects.py [--build DIR] [--out DIR] [--kernels stock,off,on] [PLAN ...]

off and on are the ample kernel without and with contiguitas=. Writes OUT/results.json: for each
plan and kernel what the guest reported. Exit 1 if an expectation of a plan fails with "on".
"""
import json
import subprocess
import sys

import runs

HERE = runs.ROOT / "kernel/scripts"
# name: plan, options of the guest, what follows contiguitas=, more of the command line
PLANS = {
    "device_read": ("device_read", "--mem 2G --raw 3072", "on", ""),
    "device_memory": ("device_memory", "--mem 2G --device-mib 896", "on", ""),
    "splice": ("splice", "--mem 6G --disk 6000", "on", ""),
    "gigantic": ("gigantic", "--mem 3400M", "1G", ""),
    "cycles": ("cycles", "--mem 2G --smp 4 --disk 1024", "on",
               "page_owner=on ample.cycles=200 ample.user=75 ample.storm=64"),
}
PLANS |= {f"sources-{seed}": ("sources", "--mem 2G", "on", f"ample.seed={seed}")
          for seed in (1, 2, 3)}
PLANS |= {f"hotpath-{hold}": ("hotpath", "--mem 6G --smp 1 --timeout 580", "4352M",
                              f"ample.hold={hold}") for hold in (64, 400)}
PLANS |= {f"kaslr-{boot}": ("kaslr", "--mem 6G", "on", "") for boot in range(1, 6)}


def run(args, name, kernel):
    """What the guest reported, and whether all that the plan expects came true."""
    plan, options, sizes, append = PLANS[name]
    tree = args.build / ("stock" if kernel == "stock" else "ample")
    where = args.out / f"{name}-{kernel}"
    runs.begin(where, runs.kernel_id(tree))
    if kernel == "on":
        append += f" contiguitas={sizes}"
    command = [HERE / "guest.sh", tree, plan, where, "--timeout", "400", *options.split(),
               "--append", append]
    if plan == "hotpath":
        command += ["--qemu", "-accel tcg,thread=single -icount shift=0,sleep=off"]
    met = subprocess.run(command).returncode == 0
    for image in where.glob("*.img"):
        image.unlink()
    lines = where / "results.jsonl"
    objects = lines.read_text().splitlines() if lines.exists() else []
    return met, [o for o in map(json.loads, objects) if o["what"] != "guest"]


def main():
    parser = runs.parser(__doc__, "kernel-defects", "")
    parser.add_argument("--kernels", default="stock,on")
    parser.add_argument("plans", nargs="*", default=list(PLANS))
    args = parser.parse_args()
    found, failed = {}, []
    for name in args.plans:
        for kernel in args.kernels.split(","):
            met, found[f"{name} {kernel}"] = run(args, name, kernel)
            print(f"{name:<14} {kernel:<6} {'as expected' if met else 'NOT as expected'}")
            if kernel == "on" and not met:
                failed.append(name)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "results.json").write_text(json.dumps(found, indent=1))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
