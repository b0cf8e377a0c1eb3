#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""First-level TLB misses of real programs in Ample and in ChampSim, at equal geometry.

    scripts/translation-peer.py AMPLE CHAMPSIM [PROGRAM]...
    scripts/translation-peer.py --ends AMPLE CHAMPSIM

CHAMPSIM is a binary of the default configuration with 1,024 physical registers (the programs' loads
keep them) and no penalty for a page fault. With --ends it is one of the default configuration as it
is, and what is shown is that it comes to the end of our traces: two million instructions of each
recorded program, and 200,000 of programs that Ample makes.

Programs are recorded under qemu-user and written in ChampSim's format, of which both read the same
instructions: 2 million warm up, 10 million count.
Compared are look-ups of the second level for data: what missed in the first and was not on its way.
Prints one row a program and setting, and with all programs the object that the result is made of.
"""

import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

WARM_UP, COUNTED = 2_000_000, 10_000_000
RECORD = struct.Struct("<Q8s2Q4Q")
MADE = ["gups", "graph500", "mcf", "omnetpp", "redis", "memcached"]
SQL = """create table t(a integer primary key, b text, c integer);
with recursive n(i) as (select 1 union all select i+1 from n where i<40000)
  insert into t select i, hex(i*7919), (i*48271)%65537 from n;
create index x on t(c);
select count(*), sum(length(b)) from t where c between 100 and 30000;
select c%100, count(*), max(b) from t group by 1 order by 2 limit 5;
update t set c=c+1 where a%3=0;
"""
PERL = (
    "my %h; for my $i (1..300000) { $h{($i*7919)%100003} .= chr(65+$i%26); } "
    "my @k = sort { $h{$a} cmp $h{$b} } keys %h; print scalar(@k)"
)
PYTHON = (
    "import json, re\n"
    "rows = [{'a': i, 'b': str(i * 7919), 'c': [i % 7] * 5} for i in range(9000)]\n"
    "text = json.dumps(rows)\n"
    "print(len(re.findall(r'\\d+', text)), len(json.loads(text)))\n"
)
C = """#include <stdio.h>
#include <stdlib.h>
struct node { struct node *l, *r; int key; char text[40]; };
static struct node *insert(struct node *t, int key) {
  if (!t) { t = calloc(1, sizeof *t); t->key = key; sprintf(t->text, "%d", key); return t; }
  if (key < t->key) t->l = insert(t->l, key); else if (key > t->key) t->r = insert(t->r, key);
  return t;
}
int main(void) {
  struct node *t = 0;
  unsigned x = 1;
  for (int i = 0; i < 200000; i++) { x = x * 1664525 + 1013904223; t = insert(t, x >> 8); }
  return !t;
}
"""


def output(command: list[str], **more: object) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, **more)
    return done.stdout


def programs(at: Path, ample: Path) -> dict[str, list[str]]:
    """Commands that read nothing but what is written here."""
    (at / "p.sql").write_text(SQL)
    (at / "p.c").write_text(C)
    compiler = output(["gcc", "-print-prog-name=cc1"]).strip()
    return {
        "sqlite3": ["sqlite3", ":memory:", f".read {at / 'p.sql'}"],
        "cc1": [compiler, "-O2", "-quiet", str(at / "p.c"), "-o", str(at / "p.s")],
        "perl": ["perl", "-e", PERL],
        "python3": ["python3", "-S", "-c", PYTHON],
        "xz": ["xz", "-T1", "-6", "-c", str(ample)],
        "gzip": ["gzip", "-9", "-c", str(ample)],
    }


def accesses(trace: Path) -> int:
    """Cuts a trace to what is used, and counts the accesses of the warm-up as Ample has them:
    operands in memory, and a fetch where another line of code begins."""
    with trace.open("r+b") as file:
        head = file.read(WARM_UP * RECORD.size)
        file.truncate((WARM_UP + COUNTED) * RECORD.size)
    count, line = 0, None
    for ip, _, *operands in RECORD.iter_unpack(head):
        count += (ip >> 6 != line) + sum(1 for operand in operands if operand)
        line = ip >> 6
    return count


def look_ups(champsim: Path, trace: Path, at: Path) -> int:
    report = at / "champsim.json"
    lengths = [f"--warmup-instructions={WARM_UP}", f"--simulation-instructions={COUNTED}"]
    output([str(champsim), *lengths, f"--json={report}", str(trace)])
    data = json.loads(report.read_text())[0]["roi"]["cpu0_DTLB"]["LOAD"]
    return data["miss"][0] - data["mshr_merge"][0]


def compare(ample: Path, champsim: Path, name: str, command: list[str], at: Path) -> list:
    recorded, trace = at / "trace.ample", at / "trace.champsim"
    limit = str(3 * (WARM_UP + COUNTED))
    record = [str(ample), "record", "--program", "-o", str(recorded), "--limit", limit, "--"]
    output(record + command, stderr=subprocess.DEVNULL)
    output([str(ample), "trace", "convert", str(recorded), str(trace)])
    warm_up = str(accesses(trace))
    theirs = look_ups(champsim, trace, at)
    rows = []
    for when in ("commit", "address"):
        machine = ["--machine", "champsim-default", "--set", f"core.stores_translate={when}"]
        run = [str(ample), "trace", "run", str(trace), *machine, "--warm-up", warm_up, "--json"]
        ours = json.loads(output(run))["model"]["l1d_misses"]
        rows.append([name, when, ours, theirs, round(100 * (ours / theirs - 1), 2)])
        print(*rows[-1], sep="\t", file=sys.stderr, flush=True)
    return rows


def ends(ample: Path, champsim: Path, at: Path) -> list[list]:
    """Instructions and cycles that the default simulator counts; it stops itself when it stands
    still, and so does this."""
    rows = []
    for name, command in [*programs(at, ample).items(), *((made, None) for made in MADE)]:
        recorded, trace = at / "trace.ample", at / "trace.champsim"
        if command:
            record = [str(ample), "record", "--program", "-o", str(recorded)]
            output([*record, "--limit", "9000000", "--", *command], stderr=subprocess.DEVNULL)
            output([str(ample), "trace", "convert", str(recorded), str(trace)])
        else:
            output([str(ample), "trace", "make", name, str(trace), "--limit", "300000"])
        report, counted = at / "champsim.json", 2_000_000 if command else 200_000
        lengths = [f"--warmup-instructions={counted // 10}", f"--simulation-instructions={counted}"]
        output([str(champsim), *lengths, f"--json={report}", str(trace)])
        core = json.loads(report.read_text())[0]["roi"]["cores"][0]
        rows.append([name, core["instructions"], core["cycles"]])
        print(*rows[-1], sep="\t", file=sys.stderr, flush=True)
        trace.unlink()
    return rows


def main() -> int:
    only_ends = "--ends" in sys.argv
    if only_ends:
        sys.argv.remove("--ends")
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    for program in [*sys.argv[1:3], "qemu-x86_64", "gcc"]:
        if not shutil.which(program):
            print(f"translation-peer: no program {program}: build or install it", file=sys.stderr)
            return 2
    ample, champsim = (Path(path).resolve() for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as directory:
        at = Path(directory)
        if only_ends:
            print(json.dumps({"schema": "ample.trace-ends/1", "rows": ends(ample, champsim, at)}))
            return 0
        known = programs(at, ample)
        wanted = sys.argv[3:] or list(known)
        if unknown := [name for name in wanted if name not in known]:
            names = f"{', '.join(unknown)}; there are {', '.join(known)}"
            print(f"translation-peer: no program named {names}", file=sys.stderr)
            return 2
        missing = [known[name][0] for name in wanted if not shutil.which(known[name][0])]
        if missing:
            print(f"translation-peer: install {', '.join(missing)}", file=sys.stderr)
            return 2
        rows = [row for name in wanted for row in compare(ample, champsim, name, known[name], at)]
    print(json.dumps({"schema": "ample.translation-peer/1", "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
