#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Times ample fleet at size: 10,000 snapshots converted, and the study of 100,000 made hosts with
one scan each and with one a day for thirty days. Prints each command's wall and processor seconds
and its peak memory as JSON: lowest, median and highest of the rounds. Needs 1 GB of disk below
TMPDIR, and 10,000 times the size of SNAPSHOT (default: a scan of this machine, or those of small
guests where that takes root).

usage: fleet-bench.py [AMPLE [ROUNDS [SNAPSHOT]]]
"""

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOTS, HOSTS, SCANS, EVERY_HOURS = 10_000, 100_000, 30, 24


def run(*command):
    """Wall seconds, processor seconds and peak MiB of a command that succeeds."""
    begin = time.monotonic()
    pid = os.posix_spawn(command[0], [str(word) for word in command], os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status, used = os.wait4(pid, 0)
    if status:
        sys.exit(f"fleet-bench.py: {' '.join(map(str, command))} failed")
    return time.monotonic() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def rounds(name, count, command):
    """Lowest, median and highest of each figure; `command` gives the command of a round."""
    found = list(zip(*(run(*command(number)) for number in range(count))))
    names = ("wall_s", "cpu_s", "peak_mib")
    ranges = {key: [round(of(own), 2) for of in (min, statistics.median, max)]
              for key, own in zip(names, found)}
    print(json.dumps({"what": name, "load": round(os.getloadavg()[0], 1), **ranges}), flush=True)


def main():
    ample = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/ample")
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    real = sorted((ROOT / "kernel/tests/courses").glob("*.snap"))
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        (work / "snaps").mkdir()
        snapshots = [Path(sys.argv[3])] if len(sys.argv) > 3 else real
        if len(sys.argv) <= 3 and os.geteuid() == 0:
            snapshots = [work / "own.snap"]
            run(ample, "scan", "--format", "snapshot", "-o", snapshots[0])
        print(json.dumps({"snapshots": [path.stat().st_size for path in snapshots]}), flush=True)
        for number in range(SNAPSHOTS):
            source = snapshots[number % len(snapshots)]
            (work / f"snaps/{number}.snap").write_bytes(source.read_bytes())
        rounds(f"convert {SNAPSHOTS} snapshots", count, lambda number: (
            ample, "fleet", "convert", work / "snaps", "-o", work / f"converted{number}"))
        for scans in (1, SCANS):
            lake = work / f"lake{scans}"
            run(ample, "fleet", "generate", *real, "-o", lake, "--hosts", HOSTS, "--scans", scans,
                "--every", EVERY_HOURS)
            rounds(f"report {HOSTS} hosts x {scans} scans", count,
                   lambda _, lake=lake: (ample, "fleet", "report", lake))


if __name__ == "__main__":
    main()
