#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Record the allocations of real programs for `ample sim lifetime`.

Each program runs twice: `train` with one input, `judge` with another. The recordings (NAME.train,
NAME.judge, 100 to 400 MB each; lifetimes.c has the format) go into a folder,
build/lifetimes by default. A program that is not installed is left out and said so. Exit: 0 done,
1 a program failed, 2 no compiler.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RECORD_BYTES = 32
RUNS = ("train", "judge")

# Syntax trees of the standard library in a cache of which most is dropped.
PYTHON = """
import ast, os, random, sys
half, folder = sys.argv[1], os.path.dirname(os.__file__)
random.seed(1 if half == "train" else 2)
names = sorted(n for n in os.listdir(folder) if n.endswith(".py"))
names = [n for n in names if (n.lower() < "m") == (half == "train")]
trees, index = {}, {}
for number in range(110):
    name = random.choice(names)
    text = open(os.path.join(folder, name), errors="replace").read()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            index.setdefault(node.name, set()).add((name, node.lineno))
    trees[number % 80] = tree
    if half == "judge" and number % 8 == 0:
        index[name] = {word.strip("().:,") for word in text.split()}
for number in random.sample(sorted(trees), 64):
    del trees[number]
for name in names[:40]:
    compile(open(os.path.join(folder, name), errors="replace").read(), name, "exec")
os._exit(0)
"""

# Words of files with the lines where they are; then most words are forgotten.
PERL = """
use POSIX; my ($half, @files) = @ARGV; srand($half eq "train" ? 1 : 2); my (%lines, %seen, $n);
for my $file (@files) {
    open(my $in, "<", $file) or next;
    while (my $line = <$in>) {
        chomp $line; $n++;
        my @words = $half eq "train" ? split(/[^A-Za-z_]+/, $line) : split(/[ \\t]+/, $line);
        for my $word (@words) { push @{$lines{$word}}, "$file:$n" if length $word; }
        $seen{$line}++ if $half eq "judge";
        delete $lines{$words[0]} if @words and rand() < 0.02;
    }
}
for my $word (keys %lines) { delete $lines{$word} if rand() < 0.8; }
my $sum = 0;
for (1..100000) { my @parts = map { $_ * 2 } 1..5; $sum += length(join(",", @parts)); }
POSIX::_exit(0);
"""

SQLITE = {
    "train": """
create table orders(id integer primary key, name text, amount real, note text);
with recursive n(i) as (select 1 union all select i+1 from n where i < 400000)
insert into orders select i, hex(randomblob(8 + i % 20)), i * 1.5, 'note ' || i from n;
create index by_name on orders(name);
select count(*), sum(length(group_concat)) from
    (select group_concat(note) as group_concat from orders group by substr(name, 1, 3));
update orders set note = note || name where id % 3 = 0;
delete from orders where id % 10 > 1;
vacuum;
select name, count(*) from orders group by substr(name, 1, 1) order by 2;
""",
    "judge": """
create table events(at integer, kind text, body blob);
create table kinds(kind text primary key, seen integer) without rowid;
with recursive n(i) as (select 1 union all select i+1 from n where i < 250000)
insert into events select i, 'kind' || (i * 7919 % 5000), randomblob(i % 250) from n;
create index by_kind on events(kind, at);
insert into kinds select kind, count(*) from events group by kind;
select count(*) from events join kinds using (kind) where seen > 40 and hex(body) like '%AB%';
delete from events where at > 50000;
vacuum;
select json_group_array(kind) from kinds where seen % 2 = 0;
""",
}

CLANG = {
    "train": """
#include <map>
#include <regex>
#include <string>
#include <vector>
template <int N> struct Node {
    std::map<std::string, std::vector<Node<N - 1>>> children;
    std::string text() const {
        std::string all;
        for (auto &[name, list] : children) for (auto &child : list) all += name + child.text();
        return all;
    }
};
template <> struct Node<0> { std::string text() const { return "leaf"; } };
bool matches(const std::string &s) { return std::regex_match(s, std::regex("a+(b|c)*d?")); }
template struct Node<60>;
""",
    "judge": """
#include <algorithm>
#include <functional>
#include <future>
#include <iostream>
#include <random>
#include <tuple>
#include <unordered_map>
#include <variant>
template <int N> using Value = std::variant<std::tuple<int, char[N]>, std::string, double>;
template <int N> double folded(std::unordered_map<int, Value<N>> &values, std::mt19937 &random) {
    std::vector<Value<N>> all;
    for (auto &[key, value] : values) all.push_back(value);
    std::shuffle(all.begin(), all.end(), random);
    auto size = [](auto &value) { return double(sizeof value); };
    auto task = std::async([&] { return std::visit(size, all[0]); });
    std::function<double()> more = [&] {
        if constexpr (N > 1) {
            std::unordered_map<int, Value<N - 1>> m;
            return folded<N - 1>(m, random);
        } else {
            return 0.0;
        }
    };
    return task.get() + more();
}
int main() { std::unordered_map<int, Value<9>> m; std::mt19937 r; std::cout << folded(m, r); }
""",
}

# Buffers of requests in a session table; garbage collection ends most lives.
NODE = """
const train = process.argv[2] === 'train', sessions = new Map(); let seed = train ? 1 : 2;
const next = n => (seed = (seed * 48271) % 2147483647) % n;
for (let i = 0; i < 250000; i++) {
  const size = train ? 200 + next(6000) : 1000 + next(next(2) ? 500 : 12000);
  const body = Buffer.allocUnsafeSlow(size);
  body[0] = i;
  if (next(10) < (train ? 3 : 2)) sessions.set(next(train ? 12000 : 9000), body);
  if (!train && next(50) === 0) sessions.delete(next(9000));
}
for (const key of [...sessions.keys()]) if (next(10) < 8) sessions.delete(key);
if (global.gc) global.gc();
for (let i = 0; i < 5000; i++) Buffer.allocUnsafeSlow(4096);
process.kill(process.pid, 'SIGKILL');
"""


def json_text(run, seed):
    """About 15 MB of records, of another form in each run."""
    rng = random.Random(seed)
    rows = []
    for number in range(70000 if run == "train" else 40000):
        row = {"id": number, "user": "user%d" % rng.randrange(3000), "price": rng.random() * 100}
        if run == "train":
            row["tags"] = ["t%d" % rng.randrange(50) for _ in range(rng.randrange(6))]
        else:
            row["text"] = "x" * rng.randrange(200)
            row["items"] = [{"n": rng.randrange(9), "at": i} for i in range(rng.randrange(7))]
        rows.append(row)
    return json.dumps(rows)


JQ = {
    "train": "group_by(.user) | map({user: .[0].user, n: length, tags: (map(.tags[]) | unique)})",
    "judge": "map(select(.price > 20) | .items |= map(.n * .at) | .text |= length) | "
             "sort_by(.user)",
}


def command(*words):
    """One resp command."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


def redis_commands(run):
    """Values that stay, sessions that expire within seconds, lists and hashes; then four keys in
    five go, and readers are left."""
    rng = random.Random(run)
    train, keys = run == "train", 110000
    for number in range(350000):
        key, kind = rng.randrange(keys), rng.random()
        size = rng.randrange(20, 1000) if train else rng.choice((rng.randrange(2200), 64))
        if kind < (0.5 if train else 0.3):
            yield command("set", "v:%d" % key, b"v" * size)
        elif kind < 0.7:
            yield command("set", "s:%d" % number, b"s" * size, "px", rng.randrange(50, 3000))
        elif kind < 0.8:
            yield command("rpush", "l:%d" % (key % 9000), b"l" * (size // 4 + 1))
        elif kind < 0.9:
            field = "f%d" % rng.randrange(20)
            yield command("hset", "h:%d" % (key % 20000), field, b"h" * (size // 8))
        else:
            yield command("get", "v:%d" % key)
    for number in range(keys):
        if rng.random() < 0.8:
            yield command("del", "v:%d" % number, "l:%d" % number, "h:%d" % number)
    for _ in range(20000):
        yield command("get", "v:%d" % rng.randrange(keys))


def talk(path, commands):
    """Sends commands, 200 at a time, and waits for each batch's replies."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(path))
        batch = []
        for one in commands:
            batch.append(one)
            if len(batch) == 200:
                batch.append(command("echo", "end-of-batch"))
                link.sendall(b"".join(batch))
                batch, tail = [], b""
                while b"end-of-batch\r\n" not in tail:
                    tail = tail[-20:] + link.recv(1 << 20)


def record_redis(scratch, run, environment):
    """Runs a server and its client."""
    path = scratch / "redis.socket"
    server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "",
                               "--appendonly", "no", "--dir", scratch],
                              env=environment, stdout=subprocess.DEVNULL)
    try:
        while not path.exists():
            if server.poll() is not None:
                return False
            time.sleep(0.05)
        talk(path, redis_commands(run))
    finally:
        server.kill()
        server.wait()
        path.unlink(missing_ok=True)
    return True


def commands_of(scratch, run):
    """Program, arguments, standard input, and exit codes, by name."""
    source, table = scratch / "source.cc", scratch / "table.json"
    source.write_text(CLANG[run])
    table.write_text(json_text(run, run))
    folder, ending = ("/usr/lib/python3", "*.py") if run == "train" else ("/usr/include", "*.h")
    files = sorted(str(path) for path in pathlib.Path(folder).rglob(ending) if path.is_file())
    sql = SQLITE[run] + "\n.shell kill -9 $PPID\n"
    return {
        "python": (["/usr/bin/python3", "-c", PYTHON, run], ""),
        "perl": (["perl", "-e", PERL, run, *files[:500]], ""),
        "sqlite": (["sqlite3", ":memory:"], sql),
        "clang": (["clang++", "-std=c++17", "-O1", "-g", "-c", source, "-o", scratch / "o"], ""),
        "jq": (["jq", JQ[run], table], ""),
        "node": (["node", "--expose-gc", "-e", NODE, "--", run], ""),
    }


def record(name, run, library, folder, scratch):
    """Records one run; false if the program failed."""
    out = folder / f"{name}.{run}"
    environment = {**os.environ, "LD_PRELOAD": str(library), "LIFETIMES": str(out),
                   "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0"}
    if name == "redis":
        succeeded = record_redis(scratch, run, environment)
    else:
        program, text = commands_of(scratch, run)[name]
        ended = subprocess.run(program, env=environment, input=text, text=True, check=False,
                               stdout=subprocess.DEVNULL)
        succeeded = ended.returncode in (0, -9)
    if succeeded:
        cut(out)
    return succeeded


def cut(path):
    """Cuts the file off after its last record."""
    blocks = path.stat().st_blocks * 512
    with open(path, "r+b") as file:
        low, high = 0, blocks // RECORD_BYTES
        while low < high:
            middle = (low + high) // 2
            file.seek(middle * RECORD_BYTES)
            low, high = (middle + 1, high) if any(file.read(8)) else (low, middle)
        file.truncate(low * RECORD_BYTES)


def main():
    """Records all that is installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "build/lifetimes")
    parser.add_argument("--only", help="one program")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    needed = {"redis": "redis-server", "python": "/usr/bin/python3", "perl": "perl",
              "sqlite": "sqlite3", "clang": "clang++", "jq": "jq", "node": "node"}
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        library = scratch / "liblifetimes.so"
        source = HERE / "lifetimes.c"
        build = ["cc", "-O2", "-shared", "-fPIC", "-I", HERE / "programs", "-o", library, source,
                 "-pthread"]
        if not shutil.which("cc") or subprocess.run(build, check=False).returncode:
            return 2
        for name, program in needed.items():
            if given.only not in (None, name):
                continue
            if not shutil.which(program):
                print(f"{name}: {program} is not installed, left out")
                continue
            for run in RUNS:
                start = time.monotonic()
                if not record(name, run, library, given.folder, scratch):
                    print(f"{name} {run}: failed")
                    failed = True
                    continue
                count = (given.folder / f"{name}.{run}").stat().st_size // RECORD_BYTES
                seconds = time.monotonic() - start
                print(f"{name} {run}: {count} calls in {seconds:.1f} s", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
