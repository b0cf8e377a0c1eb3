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
# plans that have something to say about a border only
NO_STOCK = ("cycles", "hole")
# a configuration of its own: programs map the memory of a device
DEBUG = ("device_pin",)
# name: plan, options of the guest, what follows contiguitas=, more of the command line
PLANS = {
    "device_read": ("device_read", "--mem 2G --raw 3072", "on", ""),
    "device_memory": ("device_memory", "--mem 2G --device-mib 896", "on", ""),
    "device_pin": ("device_pin", "--mem 2G --device-mib 896 --timeout 600", "on", ""),
    "hole": ("hole", "--mem 6G", "2944M", ""),
    "lodgers": ("lodgers", "--mem 1G", "on", ""),
    "swap": ("swap", "--mem 1G --raw 320", "on", ""),
    "waits": ("waits", "--mem 2G --disk 2048", "on", ""),
    "splice": ("splice", "--mem 6G --disk 6000", "on", ""),
    "gigantic": ("gigantic", "--mem 3400M", "1G", ""),
    "pin_bulk": ("pin_bulk", "--mem 512M", "on", "ample.mib=128"),
    "cycles": ("cycles", "--mem 2G --smp 4 --disk 1024", "on",
               "page_owner=on ample.cycles=200 ample.user=75 ample.storm=64"),
}
PLANS |= {f"sources-{seed}": ("sources", "--mem 2G", "on", f"ample.seed={seed} ample.rounds=15")
          for seed in (1, 2, 3)}
PLANS |= {f"hotpath-{hold}": ("hotpath", "--mem 6G --smp 1 --timeout 580", "3328M",
                              f"ample.hold={hold}") for hold in (64, 400)}
PLANS |= {f"kaslr-{boot}": ("kaslr", "--mem 6G", "on", "") for boot in range(1, 6)}


def run(args, name, kernel):
    """What the guest reported, and whether all that the plan expects came true."""
    plan, options, sizes, append = PLANS[name]
    tree = args.build / ("stock" if kernel == "stock" else "debug" if plan in DEBUG else "ample")
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
            if (kernel != "on" and name in NO_STOCK) or (kernel == "stock" and name in DEBUG):
                continue
            met, found[f"{name} {kernel}"] = run(args, name, kernel)
            print(f"{name:<14} {kernel:<6} {'as expected' if met else 'NOT as expected'}")
            if kernel == "on" and not met:
                failed.append(name)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "results.json").write_text(json.dumps(found, indent=1))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
