#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Real traffic: a server and its clients, two guests that a cable joins.

usage: traffic.py [--build DIR] [--out DIR] [--mem 2G] [--configs stock,defrag,ample] [--seeds N]
                  [--rounds N] [--timeout SECONDS]

The server runs the plan traffic under each configuration, the clients always the stock kernel. The
cable is a socket of this machine: no packet leaves it. Runs of the configurations are interleaved;
a run is not repeated unless the kernel was built anew. At the end writes OUT/results.json (schema
ample.kernel-traffic/1, one object a run) and prints a Markdown table of medians over the seeds with
[least, most].
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import runs
from bench import lived_table

GUEST = runs.ROOT / "kernel/scripts/guest.sh"
# tree, command line of the server; vm.defrag_mode is not there before 6.15
CONFIGS = {
    "stock": ("stock", ""),
    "defrag": ("stock", "ample.defrag=1"),
    "ample": ("ample", "contiguitas=on"),
}
SINCE_7 = ("defrag",)
# key: title, decimals
COLUMNS = {
    "crossing": ("fallbacks across types", 0),
    "unmovable_pct": ("unmovable 2M blocks under load, %", 1),
    "left_pct": ("between two rounds, %", 1),
    "region_mib": ("region, MiB", 0),
    "thp_pct": ("THP, %", 0),
    "huge_1g": ("1G pages", 0),
    "networking_pct": ("networking, % of unmovable pages", 0),
    "slab_pct": ("slab, %", 0),
    "tcp_mib_most": ("TCP, MiB at most", 0),
    "fill_stalls": ("direct reclaims until memory is full", 0),
    "movable_stalls": ("of movable requests since", 0),
    "other_stalls": ("of others", 0),
    "requests_s": ("requests of a round, s", 0),
    "stream_s": ("streams of a round, s", 0),
    "oom_kills": ("OOM kills", 0),
}


def figures(where):
    """The figures of the table from one run."""
    objects = runs.objects(where)
    r = {o["what"]: o.get("value", o) for o in objects}
    rounds = [o for o in objects if o["what"] == "round"]
    served = [o for o in objects if o["what"] == "served"]
    blocks = r["after"]["order9"]["blocks"]
    curve = [o["loaded_blocks"] for o in rounds]
    # what users and files have can move
    sources = {of: n for of, n in r["sources"].items()
               if of in ("networking", "slab", "page_tables", "other")}
    pages = sum(sources.values())
    counters = r["counters"]

    def mean(key):
        return sum(o[key] for o in served) / len(served)
    return {
        "curve": curve,
        "crossing": r["extfrag"]["crossing_events"],
        "left_curve": [o["unmovable_blocks"] for o in rounds],
        "unmovable_pct": 100 * curve[-1] / blocks,
        "left_pct": 100 * rounds[-1]["unmovable_blocks"] / blocks,
        "region_mib": rounds[-1]["region_mib"],
        "thp_pct": 100 * r["thp"]["thp_got"] / r["thp"]["thp_wanted"],
        "huge_1g": (r["huge_1g"] or {}).get("got", 0),
        "sources_pages": sources,
        "networking_pct": 100 * sources.get("networking", 0) / pages,
        "slab_pct": 100 * sources.get("slab", 0) / pages,
        "tcp_mib_most": max(o["tcp_pages_most"] for o in rounds) / 256,
        "movable_stalls": rounds[-1]["movable_stalls"] - rounds[0]["movable_stalls"],
        "fill_stalls": rounds[0]["movable_stalls"] + rounds[0]["other_stalls"],
        "other_stalls": rounds[-1]["other_stalls"] - rounds[0]["other_stalls"],
        "requests_s": mean("requests_s"),
        "stream_s": mean("seconds"),
        "oom_kills": counters["oom_kill"],
    }


def card(cable, end):
    """QEMU's options for one end of the cable: the first is there before the second."""
    return (f"-netdev stream,id=cable,server={'on' if end == 1 else 'off'},addr.type=unix,"
            f"addr.path={cable} "
            f"-device virtio-net-pci,netdev=cable,romfile=,mac=52:54:00:00:00:0{end}")


def pair(args, where, tree, append):
    """One server and its clients, which end together; a server that dies ends both."""
    with tempfile.TemporaryDirectory(prefix="ample-cable-") as folder:
        cable = pathlib.Path(folder) / "cable"
        limit = ["--smp", "1", "--timeout", str(args.timeout)]
        server = subprocess.Popen(
            [GUEST, args.build / tree, "traffic", where, "--mem", args.mem, "--disk", "2048",
             *limit, "--qemu", card(cable, 1), "--append", append])
        while server.poll() is None and not cable.exists():
            time.sleep(0.2)
        clients = subprocess.Popen(
            [GUEST, args.build / "stock", "traffic_client", f"{where}-clients", "--mem", "1G",
             *limit, "--qemu", card(cable, 2), "--append", f"ample.scale={int(args.mem[:-1])}"])
        failed = server.wait()
        # Its clients get word before it ends; without it they would wait for their time limit.
        try:
            clients.wait(timeout=1 if failed else 60)
        except subprocess.TimeoutExpired:
            subprocess.run(["pkill", "-TERM", "-P", str(clients.pid)], check=False)
            clients.wait()


def run(args, config, seed):
    """The row of one pair of guests, which is run unless it was with this kernel. Its figures are
    None if the server did not live to its end, which is a result too."""
    tree, append = CONFIGS[config]
    kernel = runs.kernel_id(args.build / tree)
    where = args.out / f"{config}-{args.mem}-{seed}"
    append = f"page_owner=on {append} ample.seed={seed} ample.rounds={args.rounds}"
    found = runs.outcome(where, kernel, lambda: pair(args, where, tree, append), figures)
    return {"schema": "ample.kernel-traffic/1", "release": runs.RELEASE, "mem": args.mem,
            "config": config, "seed": seed, "kernel": kernel, "figures": found}


def table(args, rows):
    """The Markdown table of all rows."""
    groups = [((config,), [row for row in rows if row["config"] == config])
              for config in args.configs.split(",")]
    return lived_table(("configuration",), COLUMNS, groups)


def main():
    parser = runs.parser(__doc__, "kernel-traffic", "2G")
    known = [name for name in CONFIGS if runs.RELEASE != "6.12" or name not in SINCE_7]
    parser.add_argument("--configs", default=",".join(known))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--timeout", type=int, default=1800, help="seconds a run may take")
    args = parser.parse_args()
    for name in args.configs.split(","):
        if name not in known:
            sys.exit(f"traffic.py: no configuration {name}; there are {', '.join(known)}")
    rows = []
    for seed in range(1, args.seeds + 1):
        for config in args.configs.split(","):
            rows.append(run(args, config, seed))
            print(f"{config} seed {seed}: {rows[-1]['figures']}", file=sys.stderr)
    (args.out / "results.json").write_text(json.dumps(rows, indent=1))
    print("\n".join(table(args, rows)))


if __name__ == "__main__":
    main()
