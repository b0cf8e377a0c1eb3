#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Guests whose pages move while they are in use, by an engine that their emulator has.

usage: engine.py [--build DIR] [--out DIR] [--mem 512M] [--moves N] [--kernel ample] [--again]

Runs the plan mover (pinned memory, direct I/O, registered buffers, zero-copy sends, bad commands)
for several numbers of CPUs and designs of the engine, mover_service (redis and memcached), and
mover_border (a region that shrinks over pinned pages) with the engine and without. Writes
OUT/engine.json; exit 1 if a byte was not as written. A run of the same kernel is not repeated
unless --again asks for it.
"""
import json
import subprocess
import sys

import runs

AMPLE = runs.ROOT / "target/release/ample"
# CPUs, design, entries of the table, divisor of the moves: the host's CPUs are shared
LOADS = ((1, "cacheable", 16, 1), (2, "cacheable", 16, 1), (4, "non-cacheable", 64, 20))
SERVICES = ("redis", "memcached")
KINDS = ("pinned", "reset", "disk", "uring", "anew", "send", "short", "stay", "bad")


def run(args, name, plan, cpus, design, table, append):
    """The report of one guest, which has an empty disk."""
    disk, tree = args.out / "disk.img", args.build / args.kernel

    def empty_disk():
        disk.unlink(missing_ok=True)
        with disk.open("wb") as image:
            image.truncate(256 << 20)
        subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", disk], check=True)

    return runs.report(args, name, args.kernel, [
        AMPLE, "system", "engine", "--json", "--kernel", tree, "--plan", plan, "--memory", args.mem,
        "--cpus", cpus, "--design", design, "--table", table, "--append", append, "--limit", 3600,
        "--console", args.out / f"{name}.console", "--", "-drive",
        f"file={disk},if=virtio,format=raw,cache=unsafe"], empty_disk)


def said(report, what):
    """What the plan printed under that name."""
    return next(o.get("value", o) for o in report["guest"] if o["what"] == what)


def loads(args):
    """One row a guest and load."""
    rows = []
    guests = [("mover", KINDS, *load) for load in LOADS]
    guests.append(("mover_service", SERVICES, 2, "cacheable", 64, 10))
    for plan, kinds, cpus, design, table, divisor in guests:
        report = run(args, f"{plan}-{cpus}-{design}-{table}", plan, cpus, design, table,
                     f"contiguitas=on ample.moves={args.moves // divisor} ample.threads={cpus}")
        for kind in kinds:
            told = said(report, kind)
            rows.append({"cpus": cpus, "design": design, "table": table, "load": kind,
                         "moves": told["moves"], "operations": told["operations"],
                         "wrong": told["wrong"], "seconds": told["seconds"]})
        rows.append({"cpus": cpus, "design": design, "table": table, "load": "all",
                     "moves": report["moved"], "operations": None,
                     "wrong": report["installed"] - report["moved"] - report["aborted"],
                     "seconds": report["wall_s"], "most_entries": report["most_entries"],
                     "full": report["records"].get("TableFull", 0)})
    return rows


def borders(args):
    """The region before and after it has been asked to shrink."""
    rows = []
    for out_of in (4, 16):
        for idle in (1, 0):
            report = run(args, f"border-{out_of}-{idle}", "mover_border", 2, "cacheable", 64,
                         f"contiguitas=256M ample.idle={idle} ample.out_of={out_of}")
            held, after, block = (said(report, what) for what in ("held", "after", "block"))
            rows.append({"out_of": out_of, "engine": not idle,
                         "pinned_bytes": said(report, "spread")["operations"] * 4096,
                         "held_bytes": held["bytes"], "after_bytes": after["bytes"],
                         "moved": report["moved"], "wrong": said(report, "spread")["wrong"],
                         "block": block})
    return rows


def main():
    parser = runs.parser(__doc__, "system", "512M")
    parser.add_argument("--moves", type=int, default=20000)
    parser.add_argument("--kernel", default="ample", help="tree below --build: ample, debug")
    parser.add_argument("--again", action="store_true")
    args = parser.parse_args()
    found = {"loads": loads(args), "borders": borders(args)}
    (args.out / "engine.json").write_text(json.dumps(found, indent=1))
    wrong = sum(row["wrong"] for rows in found.values() for row in rows)
    for rows in found.values():
        for row in rows:
            print("  ".join(f"{key} {value}" for key, value in row.items()))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
