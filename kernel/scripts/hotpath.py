#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Count instructions of hot paths on the stock and the ample kernel.

usage: hotpath.py [BUILD_DIR [OUT_DIR]]

QEMU's -icount shift=0 lets an instruction take one virtual nanosecond, so that
a time measured in the guest is a count, the same at each run. Prints a table
of the least of three rounds, and writes OUT/results.json.
"""
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
KERNELS = [("stock", "stock", ""), ("ample, off", "ample", ""),
           ("ample, on", "ample", "contiguitas=on")]


def least(objects):
    """Instructions per operation: the least of the rounds."""
    found = {}
    for o in objects:
        value = o.get("value")
        if o["what"] == "alloc_free":
            rows = {"alloc + free, per-CPU list": (value["pair_ns"], value["pairs"]),
                    "alloc + free, batches of 512": (value["batch_ns"],
                                                     value["pairs"] // 512 * 512)}
        elif o["what"] == "fault":
            rows = {"map, fault, unmap": (value["ns"], value["rounds"])}
        elif o["what"] == "send":
            rows = {"64 KB send, loopback": (value["ns"], value["rounds"])}
        else:
            continue
        for name, (ns, n) in rows.items():
            found[name] = min(found.get(name, ns / n), ns / n)
    return found


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parents[1] / "build/kernel")
    out = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else HERE.parents[1] / "build/hotpath")
    table = {}
    for mem in ("2G", "6G"):
        for name, tree, append in KERNELS:
            where = out / f"{tree}-{'on' if append else 'off'}-{mem}"
            subprocess.run([HERE / "guest.sh", build / tree, "hotpath", where, "--smp", "1",
                            "--mem", mem, "--timeout", "580", "--append", append,
                            "--qemu", "-accel tcg,thread=single -icount shift=0,sleep=off"],
                           check=True)
            lines = (where / "results.jsonl").read_text().splitlines()
            table[mem, name] = least([json.loads(line) for line in lines])
    (out / "results.json").write_text(json.dumps(
        {f"{mem} {name}": row for (mem, name), row in table.items()}, indent=1))
    print("| guest | path | stock | ample, off | ratio | ample, on | ratio |")
    print("|---|---|---|---|---|---|---|")
    for mem in ("2G", "6G"):
        for path, base in table[mem, "stock"].items():
            off, on = table[mem, "ample, off"][path], table[mem, "ample, on"][path]
            print(f"| {mem} | {path} | {base:.1f} | {off:.1f} | {off / base:.4f} | {on:.1f} | "
                  f"{on / base:.4f} |")


if __name__ == "__main__":
    main()
