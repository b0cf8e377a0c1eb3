#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run the own test suites of redis, sqlite and CPython under libample_malloc and under glibc.

Both sides run the same parts with the same time limit, so that what fails with any allocator (as
root, without a network, under load) is told from what fails with ours alone. A part that fails only
under ours is run three times more, one side after the other, before it counts. redis and sqlite are
built from the sources of the distribution, which apt-get fetches into build/; sqlite twice: by a
compiler under ours and by one without, and the two programs must be equal byte for byte.

Needs: apt-get install gcc make tcl-dev python3 libpython3.11-testsuite, a source list of the
distribution, 1 GB below build/, and about an hour on two idle processors. Exit: 0 nothing fails
only under ours, 1 something does, 2 something is missing.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from suites import cpython, fetch, process, redis, sqlite

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SUITES = {"redis": redis, "sqlite": sqlite, "cpython": cpython}
REPEATS = 3


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compiled(places, sides):
    """Builds sqlite's tests on both sides: equal or not, and the seconds each took."""
    digests, seconds = {}, {}
    for side, env in sides.items():
        started = time.monotonic()
        digests[side] = digest(sqlite.build(places, side, env))
        seconds[side] = round(time.monotonic() - started, 1)
        print(f"sqlite built under {side} in {seconds[side]} s", file=sys.stderr)
    return {"equal": len(set(digests.values())) == 1, "build_s": seconds}


def run_parts(suite, parts, sides, places, arguments, jobs):
    """Outcome by part and side. Parts run side by side, `jobs` at a time."""
    outcomes = {part: {} for part in parts}
    module = SUITES[suite]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = {}
        for at, (part, side) in enumerate((part, side) for part in parts for side in sides):
            job = pool.submit(module.run, places, side, sides[side], part, at, arguments.limit_s)
            waiting[job] = (part, side)
        for job in concurrent.futures.as_completed(waiting):
            part, side = waiting[job]
            outcome = job.result()
            outcomes[part][side] = outcome
            print(f"{suite} {part} {side}: {outcome}", file=sys.stderr, flush=True)
    return outcomes


def worse(outcome):
    """Whether a part failed under ours and not under glibc, by the names of what failed."""
    ours, theirs = outcome["ample"], outcome["glibc"]
    if ours["verdict"] in ("passed", "nothing to run"):
        return False
    if theirs["verdict"] != ours["verdict"]:
        return True
    return not set(ours["failed"]) <= set(theirs["failed"])


def confirm(suite, outcomes, sides, places, arguments):
    """Repeats what failed only under ours: the parts that do so again, of REPEATS. One process
    at a time: two sides of a part may want the same port."""
    confirmed = {}
    for part in [part for part, outcome in outcomes.items() if worse(outcome)]:
        again = [run_parts(suite, [part], sides, places, arguments, 1)[part]
                 for _ in range(REPEATS)]
        confirmed[part] = {"first": outcomes[part], "again": again,
                           "again_only_ours": sum(map(worse, again))}
    return confirmed


def summary(outcomes, side):
    """Sums over the parts of a suite on one side."""
    mine = [outcome[side] for outcome in outcomes.values()]
    verdicts = [outcome["verdict"] for outcome in mine]
    return {"parts_passed": verdicts.count("passed"), "parts_failed": verdicts.count("failed"),
            "parts_out_of_time": verdicts.count("out of time"),
            "parts_with_nothing_to_run": verdicts.count("nothing to run"),
            "tests": sum(outcome["tests"] for outcome in mine),
            "tests_failed": sum(len(outcome["failed"]) for outcome in mine)}


def print_tables(results):
    print("\n| suite, side | parts: passed, failed, out of time, nothing to run | tests run "
          "| tests failed |\n|---|---|---|---|")
    for suite, result in results.items():
        for side, sums in result["sums"].items():
            parts = [sums[f"parts_{what}"] for what in
                     ("passed", "failed", "out_of_time", "with_nothing_to_run")]
            print(f"| {suite}, {side} | {', '.join(map(str, parts))} | {sums['tests']:,} "
                  f"| {sums['tests_failed']} |")
    for suite, result in results.items():
        if "compiled" in result:
            equal = "equal byte for byte" if result["compiled"]["equal"] else "DIFFERENT"
            print(f"\n{suite}: the programs that gcc built under ample and under glibc are {equal}")
        for part, why in result["left_out"].items():
            print(f"\n{suite}: {part} left out: {why}")
        late = [part for part, outcome in result["parts"].items()
                if any(side["verdict"] == "out of time" for side in outcome.values())]
        if late:
            print(f"\n{suite}: out of time on a side: {', '.join(late)}")
        for part, found in result["only_ours"].items():
            print(f"\n{suite}: {part} failed only under ample: {found['first']['ample']['failed']}"
                  f"; again {found['again_only_ours']} times of {REPEATS}")


def run_suite(suite, sides, arguments):
    module = SUITES[suite]
    places = module.prepare(ROOT / "build/malloc-suites", sides)
    result = {}
    if suite == "sqlite":
        result["compiled"] = compiled(places, sides)
    parts, left_out = module.parts(places)
    if arguments.parts:
        parts = [part for part in parts if part in arguments.parts.split(",")]
    outcomes = run_parts(suite, parts, sides, places, arguments, arguments.jobs)
    only_ours = confirm(suite, outcomes, sides, places, arguments)
    return {**result, "parts": outcomes, "left_out": left_out, "only_ours": only_ours,
            "sums": {side: summary(outcomes, side) for side in sides}}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE",
                        help=f"of {', '.join(SUITES)}; default: all")
    parser.add_argument("--library", default=str(ROOT / "target/malloc/libample_malloc.so"))
    parser.add_argument("--options", default="", help="AMPLE_MALLOC for the runs")
    parser.add_argument("--parts", help="comma-separated; default: all of the suite")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="parts at a time")
    parser.add_argument("--limit-s", type=int, default=180,
                        help="seconds that a part may take; the one part of sqlite: ten times that")
    parser.add_argument("--json", metavar="FILE", help="write everything there, too")
    arguments = parser.parse_args()
    unknown = set(arguments.suites) - set(SUITES)
    if unknown:
        parser.error(f"no suite {unknown.pop()}; there are {', '.join(SUITES)}")
    return arguments


def main():
    arguments = parse_arguments()
    # A shell starts what it does not wait for with interrupts ignored; tests of them would fail.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not os.path.exists(arguments.library):
        print(f"{arguments.library} is missing: cargo build --profile malloc -p ample-malloc",
              file=sys.stderr)
        return 2
    base = ROOT / "build/malloc-suites"
    base.mkdir(parents=True, exist_ok=True)
    results, status = {}, 0
    with tempfile.TemporaryDirectory(dir=base) as folder:
        # A copy: the library may be built anew while the suites run.
        library = shutil.copy(arguments.library, folder)
        # Some tests run children as other users.
        os.chmod(folder, 0o755)
        sides = process.sides(library, arguments.options)
        for suite in arguments.suites or SUITES:
            try:
                results[suite] = run_suite(suite, sides, arguments)
            except fetch.Missing as missing:
                print(f"{suite}: left out: {missing}", file=sys.stderr)
                status = 2
    print_tables(results)
    for result in results.values():
        built_other = not result.get("compiled", {"equal": True})["equal"]
        if built_other or any(found["again_only_ours"] for found in result["only_ours"].values()):
            status = 1
    if arguments.json:
        pathlib.Path(arguments.json).write_text(
            json.dumps({"schema": "ample.malloc-suites/1", "limit_s": arguments.limit_s,
                        "jobs": arguments.jobs, "suites": results}))
    return status


if __name__ == "__main__":
    sys.exit(main())
