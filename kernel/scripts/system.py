#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Whole guests under simulated translation hardware: counts checked, walks of real programs.

usage: system.py check|walks|speed [--build DIR] [--out DIR] [--mem 1G] [--seeds N]
                 [--programs redis,...] [--again]

check  runs guests of which every count is known, or counted by the kernel itself, and compares
walks  runs services and compilers with timed cores, user and kernel apart, on 4 KB pages, and with
       huge pages in memory that is fresh, half and wholly fragmented, under both kernels. TLB
       entries are tagged: every processor of ten years has PCIDs, the emulator has none
speed  times a guest that is simulated, recorded, simulated again from its file, and sampled
A run of the same kernel is not repeated unless --again asks for it. Writes OUT/check.json,
OUT/walks.json or OUT/speed.json; exit 1 if a count is not what it has to be.
"""
import argparse
import json
import os
import subprocess
import sys

import runs

AMPLE = runs.ROOT / "target/release/ample"
# MiB of values or files, requests or objects
SIZES = {"redis": (128, 4000), "memcached": (128, 4000), "nginx": (64, 800), "gcc": (32, 1)}
# program's own process, by the name that the kernel has for it
NAMES = {"redis": "redis-server", "memcached": "memcached", "nginx": "nginx", "gcc": "cc1"}
# kernel, pages that may be huge, rounds of the hostile module: none, half of all 2 MB blocks with
# an unmovable page on stock Linux, nearly all of them
MEMORY = (("stock", "4k", 0), ("stock", "2m", 0), ("stock", "2m", 12), ("stock", "2m", 40),
          ("ample", "2m", 40))
# those whose memory is their own and lasts; nginx has files, a compiler is over too soon
FRAGMENTED = ("redis", "memcached")
# on the same accesses; the last two live on contiguity that the kernel has left
SCHEMES = "paging,colt,rmm"


def run(args, name, parameters, *options, kernel="stock", extra="", command="run"):
    """The report of one guest."""
    return runs.report(args, name, kernel, [
        AMPLE, "system", command, "--json", "--kernel", args.build / kernel, "--plan", "system",
        "--memory", args.mem, "--append", f"{parameters} {extra}", *options])


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
        huge = mib * 1024 if pages == "2m" else 0
        checks.equal("its memory on huge pages by smaps, KiB", name, huge, told["anon_huge_kib"])
        checks.equal("by kpageflags, which page-types reads, KiB", name, huge,
                     told["flagged_huge_kib"])
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


def captured(args, checks):
    """A program without a library, alone under user-mode emulation and in a whole machine."""
    name = "heapsort"
    report = run(args, name, "ample.load=heapsort", "--verify")
    checks.held(report, name)
    subprocess.run([runs.ROOT / "kernel/scripts/bare.sh", args.out], check=True)
    alone = json.loads(subprocess.check_output(
        [AMPLE, "record", "--program", "--json", "--", args.out / name], stderr=sys.stderr))
    own = next(s for s in report["schemes"][0]["spaces"] if s["name"] == name)["user"]
    for kind in ("loads", "stores"):
        checks.equal(f"{kind} of the program by itself", name, alone[kind], own[kind])
    # An instruction whose page is not there counts when it faults and when it is done. By itself
    # the program has one more, the first marker; a trace ends with the last access.
    checks.equal("its instructions, and page faults", name,
                 alone["instructions"] - 1 + report["events"]["interrupts"].get("14", 0),
                 own["instructions"])


def counted_again(args, checks):
    """TLB misses and walks of a recorded service, by a second model without code of ours."""
    name, file = "redis-recorded", args.out / "counts.sys"
    if not file.exists():
        (args.out / f"{name}.kernel").unlink(missing_ok=True)
    run(args, name, "ample.load=redis ample.mib=32 ample.rounds=1000", "-o", file, command="record")
    done = subprocess.run(
        ["cargo", "test", "--release", "--locked", "-q", "-p", "ample-system", "--test", "counts",
         "a_recorded_guest"], cwd=runs.ROOT, env={**os.environ, "AMPLE_SYSTEM_FILE": str(file)},
        stdout=sys.stderr, check=False)
    checks.equal("differences from a second model's misses and walks, of each CPU", name, 0,
                 done.returncode)


def twice(args, checks):
    """Two runs of the same."""
    digests = [run(args, f"twice-{n}", "ample.load=memcached ample.mib=8 ample.rounds=500")
               ["digests"] for n in (1, 2)]
    checks.equal("digests of all that two runs did", "memcached", digests[0], digests[1])


def check(args):
    checks = Checks()
    for part in (chases, faults, captured, service, counted_again, twice):
        part(args, checks)
    (args.out / "check.json").write_text(json.dumps(checks.rows, indent=1))
    for row in checks.rows:
        mark = "ok  " if row["holds"] else "FAIL"
        print(f"{mark} {row['guest']}: {row['what']}: {row['found']}"
              + ("" if row["holds"] else f", but {row['expected']} expected"))
    return all(row["holds"] for row in checks.rows)


def walks(args):
    rows = []
    for seed in range(1, args.seeds + 1):
        for program in args.programs:
            for kernel, pages, rounds in MEMORY:
                if rounds and program not in FRAGMENTED:
                    continue
                of_guest = walked(args, program, seed, kernel, pages, rounds)
                print_rows([row for row in of_guest if row["scheme"] == "paging"])
                rows += of_guest
                (args.out / "walks.json").write_text(json.dumps(rows, indent=1))
    return True


def walked(args, program, seed, kernel, pages, rounds):
    """The rows of one guest."""
    mib, requests = SIZES[program]
    on = "contiguitas=on" if kernel == "ample" else ""
    report = run(args, f"{program}-{kernel}-{pages}-{rounds}-{seed}",
                 f"ample.load={program} ample.mib={mib} ample.rounds={requests} "
                 f"ample.pages={pages} ample.fragment={rounds} ample.seed={seed}",
                 "--timed", "--pcid", "--scheme", SCHEMES, kernel=kernel, extra=on)
    blocks = said(report, "memory")[0]["order9"]
    huge = sum(o.get("anon_huge_kib", 0) + o.get("shmem_huge_kib", 0)
               for o in said(report, "process"))
    rss = sum(o["rss_kib"] for o in said(report, "process"))
    same = {"program": program, "kernel": kernel, "pages": pages, "rounds": rounds, "seed": seed,
            "requests": requests, "unmovable_blocks": blocks["unmovable_blocks"],
            "blocks": blocks["blocks"], "huge_kib": huge, "rss_kib": rss}
    return [{**same, "mode": mode, "scheme": scheme["scheme"], **counts,
             "direct_map_percent": scheme["kernel_areas"][0]["walk_percent"]}
            for scheme in report["schemes"] for mode, counts in modes(scheme, program)]


def modes(scheme, program):
    """The whole guest in user and in kernel mode, and the program's own process in user mode."""
    own = [s["user"] for s in scheme["spaces"] if NAMES[program] in (s["name"] or "")]
    own = max(own, key=lambda counts: counts["instructions"], default=None)
    kinds = (("user", scheme["user"]), ("kernel", scheme["kernel"]), (NAMES[program], own))
    return [(mode, counts) for mode, counts in kinds if counts]


def print_rows(rows):
    for row in rows:
        print(f"{row['program']} {row['kernel']} {row['pages']} rounds {row['rounds']} "
              f"seed {row['seed']} {row['scheme']} {row['mode']}: "
              f"{row['instructions'] / 1e6:.1f} M instructions, walks in 1000 of them "
              f"{row['walks_data_per_kilo_instruction']:.3f} data "
              f"{row['walks_fetch_per_kilo_instruction']:.3f} code, "
              f"{row['walk_percent'] or 0:.2f} % of cycles, "
              f"{row['huge_kib'] / 1024:.0f} of {row['rss_kib'] / 1024:.0f} MiB huge", flush=True)


def speed(args):
    """Three rounds: a guest simulated, the same recorded, its file simulated; then one sampled."""
    rows, file = [], args.out / "speed.sys"
    load = "ample.load=redis ample.mib=64 ample.rounds={} ample.seed=1"
    args.again = True
    for turn in range(3):
        live = run(args, "speed-run", load.format(6000))
        recorded = run(args, "speed-record", load.format(6000), "-o", file, command="record")
        replay = json.loads(subprocess.check_output([AMPLE, "system", "replay", "--json", file]))
        rows += [row_of_speed(*kind, turn) for kind in
                 (("run", live), ("record", recorded), ("replay", replay))]
    file.unlink()
    sampled = run(args, "speed-sampled", load.format(32000), "--sample")
    windows = sampled["schemes"][0]["sampling"]
    rows.append({**row_of_speed("sampled", sampled, 0), "windows": windows["windows"],
                 "cycles_per_instruction": windows["cycles_per_instruction"]})
    for row in rows:
        print(row)
    (args.out / "speed.json").write_text(json.dumps(rows, indent=1))
    return True


def row_of_speed(kind, report, turn):
    return {"kind": kind, "turn": turn, "accesses_per_s": report["accesses_per_s"],
            "bytes_per_access": report["bytes_per_access"],
            "instructions": sum(report["instructions"]), "seconds": report["duration_ns"] / 1e9}


def programs(names):
    """A list of programs, from their names with commas between."""
    chosen = names.split(",")
    unknown = [name for name in chosen if name not in SIZES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no program {unknown[0]}: there are {', '.join(SIZES)}")
    return chosen


def main():
    parser = runs.parser(__doc__, "system", "1G")
    parser.add_argument("what", choices=("check", "walks", "speed"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--programs", type=programs, default=list(SIZES),
                        help=f"those whose walks are counted (all of {','.join(SIZES)})")
    parser.add_argument("--again", action="store_true", help="repeat runs that are there")
    args = parser.parse_args()
    sys.exit(0 if {"check": check, "walks": walks, "speed": speed}[args.what](args) else 1)


if __name__ == "__main__":
    main()
