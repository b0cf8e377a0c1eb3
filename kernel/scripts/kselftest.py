#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run the kernel's own selftests of mm/ on stock and on ample, and compare.

usage: kselftest.py [--build DIR] [--out DIR] [--mem 4G] [--timeout SECONDS]

A guest of two nodes with four CPUs for each kernel. Exit 1 if a test, or a part
of one, fails on ample that does not fail on stock, if one could not be built, or
if either kernel complains.
"""
import json
import pathlib
import subprocess
import sys

import runs

HERE = pathlib.Path(__file__).resolve().parent
KERNELS = {"stock": "", "ample": "contiguitas=on"}
SKIPPED, NOT_THERE = 4, 127


def run(build, out, kernel, mem, timeout):
    """What each test said, by its command: {"status": exit status, "failed": parts of it}."""
    where = out / f"kselftest-{mem}-{kernel}"
    subprocess.run([HERE / "guest.sh", build / kernel, "kselftest", where, "--mem", mem,
                    "--nodes", "2", "--smp", "4", "--disk", "512", "--timeout", str(timeout),
                    "--append", KERNELS[kernel]], check=True)
    (where / "disk.img").unlink(missing_ok=True)
    objects = map(json.loads, (where / "results.jsonl").read_text().splitlines())
    return {o["test"]: o for o in objects if o["what"] == "kselftest"}


def verdict(test):
    """One word or more for a table."""
    if test["status"] == 0:
        return "passes"
    if test["status"] == SKIPPED:
        return "ends with skips"
    if test["status"] == NOT_THERE:
        return "not built"
    return f"fails (status {test['status']}): {', '.join(test['failed']) or 'the whole'}"


def worse(stock, ample):
    """Does ample fail, in whole or in a part, where stock does not?"""
    if ample["status"] in (0, SKIPPED):
        return False
    if ample["status"] == NOT_THERE:
        return True
    return stock["status"] in (0, SKIPPED) or bool(set(ample["failed"]) - set(stock["failed"]))


def main():
    parser = runs.parser(__doc__, "kernel-runs", "4G")
    parser.add_argument("--timeout", type=int, default=1200)
    args = parser.parse_args()
    try:
        stock, ample = (run(args.build, args.out, kernel, args.mem, args.timeout)
                        for kernel in KERNELS)
    except subprocess.CalledProcessError:
        sys.exit(1)
    print("| test | stock | ample |\n|---|---|---|")
    for name in stock:
        print(f"| {name} | {verdict(stock[name])} | {verdict(ample[name])} |")
    sys.exit(1 if any(worse(stock[name], ample[name]) for name in stock) else 0)


if __name__ == "__main__":
    main()
