#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measure libample_malloc beside other allocators, interleaved, on one machine.

Each round runs every load once under every allocator, in an order that rotates, so that a change of
the machine's state hits all alike. The tables show medians with the lowest and highest run.

The suite `all` runs speed, threads, drift (in both modes of transparent hugepages), redis and
memcached one after the other, each for as many rounds as asked or as its share of --minutes allows,
but one at least.

Peers come from the package registries: apt-get install libjemalloc2 libmimalloc2.0
libtcmalloc-minimal4 redis-server memcached, and google/tcmalloc by
cargo build --release in bench/malloc/peers. A peer that is not installed is left out and said so.

The designs on trial (designs/) are measured when --allocators names them: `owned`, pages owned by a
CPU, and `stacked`, the same behind short stacks.
"""

import argparse
import getpass
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LOADS = {
    "server": ["loads", "server", "2"],
    "handover": ["loads", "handover", "2"],
    "batches": ["loads", "batches", "2"],
    "mixed": ["loads", "mixed", "2"],
    "numbers": ["loads", "numbers"],
    "tree": ["loads", "tree"],
    "strings": ["loads", "strings"],
}
# The work of a thread is fixed, so the processor time of a thread should not change.
THREADED = ("server", "batches", "mixed")
# Written after the allocator was, and measured as they were first written.
HELDOUT = {kind: ["heldout", kind] for kind in ("lru", "parser", "graph")}
# Suite -> its share of the time of `all`.
ALL = {"speed": 0.25, "threads": 0.1, "drift": 0.25, "redis": 0.3, "memcached": 0.1}
# The tables of `all`, for results/data; everything else is in the JSON.
SHOWN = {"speed": ["cpu_s", "pair_ns", "stack_pair_ns", "peak_mib"],
         "threads": ["cpu_s_a_thread", "wall_s"]}
# Designs on trial -> what they are compiled with.
DESIGNS = {"owned": "-DSTACK=0", "stacked": "-DSTACK=64"}
PYTHON = "import json\nd=[{'k%d'%i: list(range(20))} for i in range(60000)]\n" \
         "for _ in range(3): d=json.loads(json.dumps(d))"
THP = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")


def find_library(*names):
    """The path of the first library that the dynamic linker knows by one of the names."""
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"):
        for name in names:
            path = pathlib.Path(folder) / name
            if path.exists():
                return str(path)
    return None


def allocators(wanted, folder):
    """Name -> (library or None, extra environment); designs are built in the folder."""
    found = {
        "ample": (str(ROOT / "target/malloc/libample_malloc.so"), {}),
        "glibc": (None, {}),
        "jemalloc": (find_library("libjemalloc.so.2"), {}),
        "mimalloc": (find_library("libmimalloc.so.2"), {}),
        "gperftools": (find_library("libtcmalloc_minimal.so.4"), {}),
        "google": (str(HERE / "peers/target/release/libample_malloc_peers.so"),
                   {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}),
    }
    for name in set(DESIGNS).intersection(wanted or []):
        found[name] = (str(folder / f"{name}.so"), {})
        subprocess.run(["cc", "-O2", "-pthread", "-fno-builtin-malloc", "-shared", "-fPIC",
                        DESIGNS[name], "-o", found[name][0], str(HERE / "designs/owned.c")],
                       check=True)
    result = {}
    for name, (library, extra) in found.items():
        if wanted and name not in wanted:
            continue
        if name != "glibc" and (library is None or not os.path.exists(library)):
            print(f"{name}: not installed, left out", file=sys.stderr)
            continue
        result[name] = (library, extra)
    return result


def environment(allocator, extra_options=""):
    library, extra = allocator
    result = dict(os.environ, **extra)
    result.pop("LD_PRELOAD", None)
    if library:
        result["LD_PRELOAD"] = library
    if extra_options:
        result["AMPLE_MALLOC"] = extra_options
    return result


def build(folder):
    """Compile the load programs."""
    for source in sorted((HERE / "programs").glob("*.c")):
        subprocess.run(["cc", "-O2", "-pthread", "-fno-builtin-malloc", "-o",
                        str(folder / source.stem), str(source)], check=True)


def output_of(command, env):
    """The JSON object that a command prints, or None if it failed."""
    run = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         check=False)
    return json.loads(run.stdout) if run.returncode == 0 else None


def measured(programs, allocator, command, count=1, extra=None):
    """Wall and CPU seconds and peak RSS of a command; the measuring program runs on glibc."""
    library, variables = allocator
    env = dict(os.environ, **variables, **(extra or {}))
    return output_of([str(programs / "measure"), str(count), library or "-", *command], env)


def speed_case(name, programs, allocator, options):
    """One run of one case: a dictionary of figures, or None if it failed."""
    extra = {"AMPLE_MALLOC": options} if options else {}
    if name == "pairs":
        return output_of([str(programs / "pairs"), "64", "30"], environment(allocator, options))
    if name == "true":
        return measured(programs, allocator, ["/bin/true"], 100, extra)
    if name == "python":
        extra["PYTHONMALLOC"] = "malloc"
        return measured(programs, allocator, ["/usr/bin/python3", "-c", PYTHON], 1, extra)
    if name == "gcc":
        source = str(HERE / "programs/loads.c")
        return measured(programs, allocator,
                        ["cc", "-O2", "-x", "c", "-c", "-o", "/dev/null", source], 1, extra)
    load, _, threads = name.partition(" x")
    command = ["loads", load, threads] if threads else LOADS.get(name) or HELDOUT[name]
    figures = measured(programs, allocator, [str(programs / command[0])] + command[1:], 1, extra)
    if figures and threads:
        figures["cpu_s_a_thread"] = figures["cpu_s"] / int(threads)
    return figures


def drift_case(programs, env, mode):
    before = THP.read_text().split("[")[1].split("]")[0]
    try:
        if mode != before:
            THP.write_text(mode)
        return output_of([str(programs / "drift")], env)
    finally:
        if mode != before:
            THP.write_text(before)


class Server:
    """A server on a socket of its own, for one measurement."""

    def __init__(self, env, folder, command):
        self.socket = os.path.join(folder, "socket")
        self.server = subprocess.Popen(
            [word.replace("SOCKET", self.socket) for word in command], env=env,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            if os.path.exists(self.socket):
                break
            time.sleep(0.05)

    def cpu_s(self, user=True):
        """Processor seconds so far; without `user` those in the kernel."""
        fields = pathlib.Path(f"/proc/{self.server.pid}/stat").read_text().split(") ")[1].split()
        ticks = int(fields[12]) + (int(fields[11]) if user else 0)
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory(self):
        text = pathlib.Path(f"/proc/{self.server.pid}/smaps_rollup").read_text()
        kib = {line.split(":")[0]: int(line.split()[1])
               for line in text.splitlines()[1:] if "kB" in line}
        return kib["Rss"] / 1024, kib["AnonHugePages"] / max(kib["Rss"], 1)

    def spent(self, command):
        """The server's processor seconds while a client's command runs."""
        before = self.cpu_s()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        return self.cpu_s() - before

    def close(self):
        self.server.terminate()
        self.server.wait(timeout=20)


class Redis(Server):
    """redis-server and its own load generator."""

    def __init__(self, env, folder):
        super().__init__(env, folder, ["redis-server", "--port", "0", "--unixsocket", "SOCKET",
                                       "--save", "", "--appendonly", "no", "--disable-thp", "no"])

    def load(self, *arguments):
        return self.spent(["redis-benchmark", "-s", self.socket, "-P", "16", "-q", *arguments])

    def command(self, *words):
        subprocess.run(["redis-cli", "-s", self.socket, *words], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)


def redis_case(env, folder):
    server = Redis(env, folder)
    try:
        figures = {"lpush_cpu_s": server.load("-n", "1000000", "lpush", "list", *"12345")}
        figures["lrange_cpu_s"] = server.load("-n", "1000000", "lrange", "list", "0", "4")
        server.command("flushall")
        time.sleep(3)
        before = server.cpu_s(user=False)
        figures["set_cpu_s"] = sum(
            server.load("-n", "466667", "-r", "400000", "-d", str(bytes_), "-t", "set")
            for bytes_ in (48, 220, 700))
        figures["set_kernel_s"] = server.cpu_s(user=False) - before
        figures["rss_mib"], figures["thp"] = server.memory()
        figures["get_cpu_s"] = server.load("-n", "1000000", "-r", "400000", "-t", "get")
        server.command("flushall")
        time.sleep(4)
        figures["flushed_mib"], _ = server.memory()
        return figures
    finally:
        server.close()


def memcached_case(env, folder, programs):
    server = Server(env, folder, ["memcached", "-u", getpass.getuser(), "-s", "SOCKET", "-t", "2",
                                  "-m", "1024"])
    try:
        figures = {}
        for kind, requests in (("set", 800000), ("get", 1000000), ("connect", 20000)):
            figures[f"{kind}_cpu_s"] = server.spent(
                [str(programs / "memload"), server.socket, kind, str(requests)])
        figures["rss_mib"], figures["thp"] = server.memory()
        return figures
    finally:
        server.close()


def medians(runs):
    keys = runs[0].keys()
    return {key: (statistics.median(run[key] for run in runs), min(run[key] for run in runs),
                  max(run[key] for run in runs)) for key in keys}


def cell(figure):
    """A median with the lowest and highest run."""
    if figure is None:
        return "failed"
    median, low, high = (f"{value:.3g}" if value < 1000 else f"{value:.0f}" for value in figure)
    return f"{median} ({low}-{high})"


def table(title, key, results):
    """A Markdown table of one figure: a row per case, a column per allocator."""
    cases = [case for case, by in results.items() if any(key in by[name] for name in by)]
    if not cases:
        return
    names = list(dict.fromkeys(name for case in cases for name in results[case]))
    print(f"\n{title}: median (lowest-highest)\n")
    print("| | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for case in cases:
        cells = []
        for name in names:
            cells.append(cell(results[case].get(name, {}).get(key)))
        print(f"| {case} | " + " | ".join(cells) + " |")
    complete = [case for case in cases if all(key in results[case].get(name, {})
                                              for name in names)]
    if len(complete) > 1 and "ample" in names:
        cells = []
        for name in names:
            logs = [math.log(results[case][name][key][0] / results[case]["ample"][key][0])
                    for case in complete if results[case]["ample"][key][0] > 0]
            cells.append(f"{math.exp(sum(logs) / len(logs)):.3f}")
        print("| geometric mean, ample = 1 | " + " | ".join(cells) + " |")


def figures_table(title, by):
    """A Markdown table of one case: a row per figure, a column per allocator."""
    names = list(by)
    print(f"\n{title}: median (lowest-highest)\n")
    print("| | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for key in dict.fromkeys(key for figures in by.values() for key in figures):
        cells = [cell(by[name].get(key)) for name in names]
        print(f"| {key} | " + " | ".join(cells) + " |")


def cases_of(suite, counts):
    if suite == "speed":
        return ["pairs", "true", *LOADS, "python", "gcc"]
    threads = [f"{load} x{count}" for load in THREADED for count in counts]
    return {"threads": threads, "heldout": list(HELDOUT),
            "drift": ["madvise", "always"]}.get(suite, [suite])


def one_run(suite, case, programs, allocator, arguments):
    """The figures of one run of one case under one allocator, or None if it failed."""
    env = environment(allocator, arguments.options)
    if not arguments.cold:
        large = suite in ("drift", "redis", "memcached")
        subprocess.run([str(programs / "warm"), "512" if large else "128"], check=False)
    if suite == "drift":
        return drift_case(programs, env, case)
    if suite in ("redis", "memcached"):
        if not shutil.which("redis-server" if suite == "redis" else suite):
            print(f"{suite} is not installed, left out", file=sys.stderr)
            return None
        with tempfile.TemporaryDirectory(prefix="ample-server-") as folder:
            return (redis_case(env, folder) if suite == "redis" else
                    memcached_case(env, folder, programs))
    if suite == "forks":
        return output_of([str(programs / "forks"), "300"], env)
    return speed_case(case, programs, allocator, arguments.options)


def run_suite(suite, cases, programs, chosen, arguments, seconds):
    """Results by case and allocator, and the rounds that the time was enough for."""
    runs = {case: {name: [] for name in chosen} for case in cases}
    start, rounds = time.monotonic(), 0
    for round_ in range(arguments.rounds):
        for case in cases:
            order = list(chosen)
            order = order[round_ % len(order):] + order[:round_ % len(order)]
            for name in order:
                figures = one_run(suite, case, programs, chosen[name], arguments)
                if figures:
                    runs[case][name].append(figures)
                print(f"round {round_ + 1} {case} {name}: {figures}", file=sys.stderr)
        rounds = round_ + 1
        taken = time.monotonic() - start
        if seconds and taken + taken / rounds > seconds:
            break
    return {case: {name: medians(all_) for name, all_ in by.items() if all_}
            for case, by in runs.items()}, rounds


def show(suite, results, rounds, shown):
    if suite in ("drift", "redis", "memcached", "forks"):
        for case, by in results.items():
            figures_table(f"{suite}{'' if case == suite else ', ' + case}, {rounds} rounds", by)
        return
    keys = dict.fromkeys(key for by in results.values() for figures in by.values()
                         for key in figures)
    for key in keys:
        if shown is None or key in shown:
            table(f"{suite}, {key}, {rounds} rounds", key, results)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("suite", choices=[*ALL, "heldout", "forks", "all"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=15, help="the time that `all` may take")
    parser.add_argument("--allocators", help="comma-separated; default all that are installed")
    parser.add_argument("--cases", help="comma-separated; default all of the suite")
    parser.add_argument("--threads", metavar="N,N...", default="1,2,4",
                        help="numbers of threads of the suite threads (default %(default)s)")
    parser.add_argument("--options", default="", help="AMPLE_MALLOC for the runs")
    parser.add_argument("--cold", action="store_true",
                        help="do not touch hugepages before each run (see programs/warm.c)")
    parser.add_argument("--json", metavar="FILE", help="write all figures there, too")
    arguments = parser.parse_args()
    counts = arguments.threads.split(",")
    if not all(count.isdigit() and 1 <= int(count) <= 64 for count in counts):
        parser.error("--threads: give numbers from 1 to 64, with commas between")
    arguments.threads = [int(count) for count in counts]
    if arguments.cases:
        there = cases_of(arguments.suite, arguments.threads)
        unknown = set(arguments.cases.split(",")) - set(there)
        if unknown:
            parser.error(f"no case {unknown.pop()}; there are " + ", ".join(there))
    return arguments


def main():
    arguments = parse_arguments()
    wanted = arguments.allocators.split(",") if arguments.allocators else None
    everything = arguments.suite == "all"
    written = {}
    print(f"Load at the start: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="ample-bench-") as folder:
        programs = pathlib.Path(folder)
        build(programs)
        chosen = allocators(wanted, programs)
        for suite in ALL if everything else [arguments.suite]:
            cases = arguments.cases.split(",") if arguments.cases else (
                cases_of(suite, arguments.threads))
            seconds = arguments.minutes * 60 * ALL[suite] if everything else None
            results, rounds = run_suite(suite, cases, programs, chosen, arguments, seconds)
            show(suite, results, rounds, SHOWN.get(suite) if everything else None)
            written[suite] = {"rounds": rounds, "median_min_max": results}
    print(f"\nLoad at the end: {os.getloadavg()[0]:.1f}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(
            {"schema": "ample.malloc-bench/3", "cold": arguments.cold, "suites": written}))


if __name__ == "__main__":
    main()
