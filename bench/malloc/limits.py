#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Memory that a program keeps under libample_malloc and its peers.

`turnover`: the smallest limit of a memory control group under which a program that has 198 MiB live
ends, to 1 MiB, and its time there and without a limit. Needs root and a control group of its own
(version 1 or 2); swap is not used.
`creep`: resident memory of a program that has freed most of its heap, 3 s, 60 s and 300 s later,
with khugepaged as the machine has it; all allocators at once.
`waves`: resident memory between waves of demand and 3 s after the last, page faults and processor
time; not run unless asked for.

usage: limits.py [turnover] [creep] [waves] [--allocators NAMES] [--json FILE]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from run import allocators, build, environment

MIB = 1 << 20
LEAST_MIB, MOST_MIB = 190, 640
# Size of the objects, MiB of them, waves, ms between two, calls in each pause.
WAVES = {"20 of 200 MiB of 4,000 B, 0.5 s between": "4000 200 20 500 8",
         "6 of 200 MiB of 4,000 B, 5 s between": "4000 200 6 5000 8",
         "10 of 286 MiB of 64 KiB, 0.1 s between": "65536 286 10 100 0",
         "10 of 286 MiB of 64 KiB, 0.05 s between": "65536 286 10 50 0",
         "10 of 286 MiB of 64 KiB, no pause": "65536 286 10 0 0"}


class Group:
    """A control group whose processes together may use so much memory."""

    def __init__(self):
        v1 = Path("/sys/fs/cgroup/memory")
        self.v1 = v1.is_dir()
        self.path = (v1 if self.v1 else Path("/sys/fs/cgroup")) / f"ample-limits-{os.getpid()}"
        self.path.mkdir()

    def limit(self, mib):
        if self.v1:
            (self.path / "memory.limit_in_bytes").write_text(str(mib * MIB))
            return
        (self.path / "memory.max").write_text(str(mib * MIB))
        swap = self.path / "memory.swap.max"
        if swap.exists():
            swap.write_text("0")

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def close(self):
        for _ in range(50):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.1)


def seconds_within(command, env, mib):
    """Processor seconds of a command below a limit, or None when the kernel ended it."""
    group = Group()
    try:
        group.limit(mib)
        process = subprocess.Popen(command, env=env, preexec_fn=group.enter,
                                   stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        group.close()
    if process.returncode in (-signal.SIGKILL, -signal.SIGABRT):
        return None
    if process.returncode:
        sys.exit(f"limits.py: {command} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def turnover(programs, allocator):
    command, env = [str(programs / "kept"), "turnover"], environment(allocator)
    free = seconds_within(command, env, 4 * MOST_MIB)
    low, high, seconds = LEAST_MIB, MOST_MIB, None
    while high - low > 1:
        middle = (low + high) // 2
        now = seconds_within(command, env, middle)
        if now is None:
            low = middle
        else:
            high, seconds = middle, now
    return {"limit_mib": high, "cpu_s": round(seconds, 2), "cpu_s_without": round(free, 2)}


def creep(programs, wanted):
    """All at once: each waits nearly all of the time."""
    running = {name: subprocess.Popen([str(programs / "kept"), "creep"], stdout=subprocess.PIPE,
                                      env=environment(allocator))
               for name, allocator in wanted.items()}
    return {name: json.loads(process.communicate()[0]) for name, process in running.items()}


def waves(programs, wanted):
    """One after the other, in turns: processor times are compared."""
    found = {}
    wanted = {name: (allocator, "") for name, allocator in wanted.items()}
    if "ample" in wanted:
        wanted["ample, window=60"] = (wanted["ample"][0], "window=60")
    for case, words in WAVES.items():
        for name, (allocator, options) in wanted.items():
            run = subprocess.run([str(programs / "kept"), "waves", *words.split()], check=True,
                                 stdout=subprocess.PIPE, env=environment(allocator, options))
            found[f"{case}; {name}"] = json.loads(run.stdout)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("suites", nargs="*", help="turnover and creep (default: these two); waves")
    parser.add_argument("--allocators", type=lambda names: names.split(","), default=None)
    parser.add_argument("--json", help="write all figures to this file")
    options = parser.parse_args()
    suites = options.suites or ["turnover", "creep"]
    if set(suites) - {"turnover", "creep", "waves"}:
        parser.error(f"suites are turnover, creep and waves, not {' '.join(suites)}")
    wanted, result = allocators(options.allocators), {}
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder)
        build(programs)
        if "turnover" in suites:
            result["turnover"] = {}
            for name, allocator in wanted.items():
                result["turnover"][name] = turnover(programs, allocator)
                print(f"turnover {name}: {result['turnover'][name]}", flush=True)
        for suite, measure in (("creep", creep), ("waves", waves)):
            result[suite] = measure(programs, wanted) if suite in suites else {}
            for name, figures in result[suite].items():
                print(f"{suite} {name}: {figures}", flush=True)
    result["load"] = os.getloadavg()
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except PermissionError as error:
        sys.exit(f"limits.py: {error}: control groups need root")
