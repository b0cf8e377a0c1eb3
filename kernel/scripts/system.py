#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Whole guests under simulated translation hardware: counts checked, walks of real programs.

usage: system.py check|walks [--build DIR] [--out DIR] [--mem 1G] [--seeds N] [--again]

check  runs guests of which every count is known, or counted by the kernel itself, and compares
walks  runs services and a compiler on 4 KB and 2 MB pages with timed cores, user and kernel apart
A run of the same kernel is not repeated unless --again asks for it. Writes OUT/check.json or
OUT/walks.json; exit 1 if a count is not what it has to be.
"""
import json
import subprocess
import sys

import runs

AMPLE = runs.ROOT / "target/release/ample"
PROGRAMS = ("redis", "memcached", "nginx", "build")
# MiB of values or files, requests or objects: a second or two of guest time each
SIZES = {"redis": (128, 8000), "memcached": (128, 8000), "nginx": (64, 1600), "build": (32, 6)}


def run(args, name, parameters, *options, kernel="stock", extra=""):
    """The report of one guest."""
    tree, out = args.build / kernel, args.out / f"{name}.json"
    build = f"{runs.kernel_id(tree)} {parameters} {options} {extra}"
    stamp = out.with_suffix(".kernel")
    if not args.again and stamp.exists() and stamp.read_text() == build:
        return json.loads(out.read_text())
    args.out.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    print(f"{name}: {parameters}", file=sys.stderr)
    command = [AMPLE, "system", "run", "--json", "--kernel", tree, "--plan", "system", "--memory",
               args.mem, "--append", f"{parameters} {extra}", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(f"system.py: {name} did not end well")
    out.write_bytes(done.stdout)
    stamp.write_text(build)
    return json.loads(done.stdout)


def said(report, what):
    """What the plan printed under that name: a list of objects."""
    return [o.get("value", o) for o in report["guest"] if o["what"] == what]


class Checks:
    """Counts that are equal, or are not."""

    def __init__(self):
        self.rows = []

    def equal(self, what, name, expected, found):
        self.rows.append({"what": what, "guest": name, "expected": expected, "found": found,
                          "holds": expected == found})

    def held(self, report, name):
        """What has to hold in every guest."""
        scheme, recorder = report["schemes"][0], report["recorder"]
        self.equal("accesses that the guest's page tables do not map", name, 0,
                   scheme["untranslated"] + scheme["malformed"] + recorder["unmapped"])
        self.equal("physical addresses that differ from the emulator's", name, 0,
                   recorder["mismatches"])
        self.equal("instructions of all modes", name, sum(report["instructions"]),
                   scheme["user"]["instructions"] + scheme["kernel"]["instructions"])


def chases(args, checks):
    """A pointer chase over more pages than the TLBs hold, over fewer, and over huge pages."""
    steps = 1_000_000
    for mib, pages, walks in ((64, "4k", steps), (4, "4k", 1024), (64, "2m", 32), (256, "2m", 128)):
        name = f"chase-{mib}-{pages}"
        report = run(args, name, f"ample.load=chase ample.mib={mib} ample.pages={pages} "
                     f"ample.steps={steps}", "--verify")
        user, told = report["schemes"][0]["user"], said(report, "chase")[0]
        checks.held(report, name)
        checks.equal("loads of the chase", name, steps, user["loads"])
        checks.equal("walks for its data", name, walks, user["walks_data"])
        checks.equal("its memory on huge pages, KiB", name,
                     mib * 1024 if pages == "2m" else 0, told["anon_huge_kib"])
        size = 1 if pages == "2m" else 0
        checks.equal("walks that found a page of that size", name, walks,
                     user["walks_by_size"][size] - user["walks_fetch"] * (size == 0))


def faults(args, checks):
    """Each page touched for the first time: exceptions as many as pages."""
    for pages, expected in (("4k", 64 * 256), ("2m", 32)):
        name = f"fault-{pages}"
        report = run(args, name, f"ample.load=fault ample.mib=64 ample.pages={pages}", "--verify")
        checks.held(report, name)
        checks.equal("minor faults that the kernel counts", name, expected,
                     said(report, "fault")[0]["minor_faults"])
        checks.equal("page-fault exceptions", name, expected,
                     report["events"]["interrupts"].get("14", 0))


def service(args, checks):
    """What the recorder sees of a service against the kernel's tracepoints and counters."""
    name = "redis-traced"
    report = run(args, name, "ample.load=redis ample.mib=32 ample.rounds=2000", "--verify",
                 extra="ample.trace=1")
    checks.held(report, name)
    flushes = said(report, "tlb_flush")
    local = [f for f in flushes if f["reason"] != "remote ipi send"]
    checks.equal("INVLPG", name, sum(f["pages"] for f in local), report["events"]["invlpg"])
    checks.equal("writes of CR3", name, sum(f["flushes_of_all"] for f in local),
                 report["events"]["cr3_writes"])
    vectors = report["events"]["interrupts"]
    outside = sum(count for vector, count in vectors.items() if int(vector) >= 32)
    counted = said(report, "interrupts")[0]
    timer_and_reschedule = [sum(counted.get(kind, [])) for kind in ("0", "LOC", "RES")]
    # Turning tracing on and off, right outside the region, raises interrupts of the kinds IWI and
    # CAL (code is patched), which the counters have and the region has not.
    calls = vectors.get("251", 0)
    checks.equal("interrupts of timer and rescheduling", name, sum(timer_and_reschedule),
                 outside - calls - vectors.get("246", 0))
    checks.equal("interrupts of function calls, to two more outside", name, True,
                 0 <= sum(counted["CAL"]) - calls <= 2)


def twice(args, checks):
    """Two runs of the same."""
    digests = [run(args, f"twice-{n}", "ample.load=memcached ample.mib=8 ample.rounds=500")
               ["digests"] for n in (1, 2)]
    checks.equal("digests of all that two runs did", "memcached", digests[0], digests[1])


def check(args):
    checks = Checks()
    for part in (chases, faults, service, twice):
        part(args, checks)
    (args.out / "check.json").write_text(json.dumps(checks.rows, indent=1))
    for row in checks.rows:
        mark = "ok  " if row["holds"] else "FAIL"
        print(f"{mark} {row['guest']}: {row['what']}: {row['found']}"
              + ("" if row["holds"] else f", but {row['expected']} expected"))
    return all(row["holds"] for row in checks.rows)


def walks(args):
    rows = []
    for program in PROGRAMS:
        mib, rounds = SIZES[program]
        for pages in ("4k", "2m"):
            for seed in range(1, args.seeds + 1):
                report = run(args, f"{program}-{pages}-{seed}",
                             f"ample.load={program} ample.mib={mib} ample.rounds={rounds} "
                             f"ample.pages={pages} ample.seed={seed}", "--timed")
                rows += list(modes(report, program, pages, seed))
                print_rows(rows[-3:])
    (args.out / "walks.json").write_text(json.dumps(rows, indent=1))
    return True


def modes(report, program, pages, seed):
    """The whole guest in user and in kernel mode, and the program's own process in user mode."""
    scheme = report["schemes"][0]
    names = {"redis": "redis-server", "memcached": "memcached", "nginx": "nginx", "build": "tcc"}
    own = [s["user"] for s in scheme["spaces"] if names[program] in (s["name"] or "")]
    own = max(own, key=lambda counts: counts["instructions"], default=None)
    kinds = (("user", scheme["user"]), ("kernel", scheme["kernel"]), (names[program], own))
    for mode, counts in kinds:
        if counts:
            yield {"program": program, "pages": pages, "seed": seed, "mode": mode,
                   "accesses_per_s": report["accesses_per_s"], **counts}


def print_rows(rows):
    for row in rows:
        print(f"{row['program']:10} {row['pages']} seed {row['seed']} {row['mode']:14} "
              f"{row['instructions'] / 1e6:8.1f} M instructions, walks in 1000 of them "
              f"{row['walks_data_per_kilo_instruction']:.3f} data "
              f"{row['walks_fetch_per_kilo_instruction']:.3f} code, "
              f"{row['walk_percent'] or 0:.2f} % of cycles", flush=True)


def main():
    parser = runs.parser(__doc__, "system", "1G")
    parser.add_argument("what", choices=("check", "walks"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--again", action="store_true", help="repeat runs that are there")
    args = parser.parse_args()
    sys.exit(0 if (check if args.what == "check" else walks)(args) else 1)


if __name__ == "__main__":
    main()
