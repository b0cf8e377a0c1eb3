#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Change the code of the migration protocol mechanically, a place at a time, and see whether the
model checker notices.

The changes are those of cargo-mutants (operators, guards, arms, values of functions), and each
statement that sends, assigns or calls left out. Planted faults and assertions are not changed.

All mutants are built into one program, each as another body of its function, which a number chosen
at the start selects; those that do not fit so are built by themselves. With assertions, each is run
through the registers and the quick suite, small machines first, up to the first that does not hold.
The first 8,000 states of each machine come first, for all mutants; what survives them and has no
reason in crates/migration/mutants.toml why it changes nothing then goes through whole graphs. A
graph of a million states, twice those of the largest machine, counts as noticed (it has no end),
and so does a run of five minutes of processor time.

Verdicts are kept in target/mutants: a run that was ended goes on. They hold until the protocol
changes; what survived without a reason is judged again when the checker changes.

usage: protocol-mutants.py [--every N] [--from K] [--only TEXT] [--jobs N] [--minutes N]
                           [--json FILE]
Exit: 0 at least 95 % noticed or explained, 1 fewer, 2 cargo-mutants is missing, 3 not all judged.
"""

import argparse
import fnmatch
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOCOL = "crates/migration/src/protocol"
TREE = ROOT / "target/mutants/tree"
TARGET = ROOT / "target/mutants/target"
PROGRAM = TARGET / "release/ample-model-check"
PART_STATES, WHOLE_STATES = 8_000, 1_000_000
BUILT = ROOT / "target/mutants/built.json"
KNOWN = ROOT / "target/mutants/verdicts.jsonl"
CPU_SECONDS, MEMORY_BYTES = 300, 4 << 30
LEAST_SCORE = 0.95
# That the unchanged protocol holds on all machines is `make model-check`'s to say.
FIRST_MACHINES = 11
# Files whose code is no step of the protocol: the planted faults themselves, and names.
NOT_MUTATED = {"faults.rs", "mod.rs"}
STATEMENT = re.compile(r"^\s*(\*?[a-z_]+(\.[a-z_]+)*(\(| = | \+= | -= | &= )|\([a-z_.]+, )")
NO_STATEMENT = re.compile(r"^\s*(let|return|debug_assert|unreachable|use|if|match|for|while)\b")


def planted(text):
    """Numbers of the lines, from 0, that only run with a planted fault."""
    lines, inside = text.splitlines(), set()
    for at, line in enumerate(lines):
        if "PlantedFault::" not in line:
            continue
        # The condition may go on for a few lines before its block.
        begin = next((n for n in range(at, min(at + 4, len(lines)))
                      if lines[n].rstrip().endswith("{")), None)
        if begin is None or any(lines[n].rstrip().endswith(";") for n in range(at, begin)):
            continue
        depth = 1
        for number in range(begin + 1, len(lines)):
            for letter in lines[number]:
                depth += (letter == "{") - (letter == "}")
                if depth == 0:
                    break
            if depth == 0:
                break
            inside.add(number)
    return inside


def from_cargo_mutants():
    """(file, line, what, text of the whole file) of each."""
    command = ["cargo", "mutants", "-p", "ample-migration", "-f", f"{PROTOCOL}/*.rs",
               "--list", "--json"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        print("protocol-mutants.py: cargo-mutants is missing (cargo install cargo-mutants "
              "--locked)", file=sys.stderr)
        sys.exit(2)
    for mutant in json.loads(listed.stdout):
        path, span = ROOT / mutant["file"], mutant["span"]
        lines = path.read_text().splitlines(keepends=True)
        first, last = span["start"], span["end"]
        touched = "".join(lines[first["line"] - 1:last["line"]])
        in_function = mutant["genre"] == "FnValue"
        if not in_function and ("debug_assert" in touched or "PlantedFault" in touched):
            continue
        if first["line"] - 1 in planted("".join(lines)):
            continue
        before = "".join(lines[:first["line"] - 1]) + lines[first["line"] - 1][:first["column"] - 1]
        after = lines[last["line"] - 1][last["column"] - 1:] + "".join(lines[last["line"]:])
        what = mutant["name"].split(": ", 1)[1]
        yield path, first["line"], what, before + mutant["replacement"] + after


def statements(path):
    """Each statement that sends, assigns or calls, left out."""
    lines = path.read_text().splitlines(keepends=True)
    skipped = planted("".join(lines))
    for at, line in enumerate(lines):
        if line.startswith("#[cfg(test)]"):
            return
        if at in skipped or not STATEMENT.match(line) or NO_STATEMENT.match(line):
            continue
        end, depth = at, 0
        while end < len(lines):
            depth += sum((c in "([{") - (c in ")]}") for c in lines[end])
            if depth <= 0:
                break
            end += 1
        if depth == 0 and lines[end].rstrip().endswith(";"):
            text = " ".join("".join(lines[at:end + 1]).split())
            yield path, at + 1, f"leave out {text}", "".join(lines[:at] + lines[end + 1:])


def all_mutants():
    found = [m for m in from_cargo_mutants() if m[0].name not in NOT_MUTATED]
    for path in sorted((ROOT / PROTOCOL).glob("*.rs")):
        if path.name not in NOT_MUTATED:
            found.extend(statements(path))
    found.sort(key=lambda m: (m[0].name, m[1], m[2]))
    # Two changes of one line may have one name.
    seen, named = {}, []
    for path, line, what, text in found:
        seen[path, line, what] = number = seen.get((path, line, what), 0) + 1
        named.append((path, line, what if number == 1 else f"{what} ({number})", text))
    return named


def cargo(command, *more):
    environment = dict(os.environ, CARGO_TARGET_DIR=str(TARGET), CARGO_INCREMENTAL="1",
                       CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS="true",
                       CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS="true",
                       CARGO_PROFILE_RELEASE_CODEGEN_UNITS="16",
                       CARGO_PROFILE_RELEASE_OPT_LEVEL="2", RUSTFLAGS="--cap-lints allow")
    return subprocess.run(["cargo", command, "--locked", "--release", "-q", "-p", "ample-migration",
                           "--features", "model-check", "--bin", "ample-model-check", *more],
                          cwd=TREE, env=environment, capture_output=True, text=True, check=False)


FUNCTION = re.compile(r"^( *)(pub(\([a-z]+\))? )?fn ")


def body_of(text, line):
    """Where the body of the function around a line begins and ends, without its braces."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for content in lines:
        starts.append(starts[-1] + len(content))
    for at in range(line - 1, -1, -1):
        match = FUNCTION.match(lines[at])
        if not match:
            continue
        indent = match.group(1)
        opens = next((n for n in range(at, len(lines)) if lines[n].rstrip().endswith("{")
                      and not lines[n].startswith(indent + " ")), None)
        if opens is None:
            return None
        closes = next((n for n in range(opens + 1, len(lines)) if lines[n] == indent + "}\n"), None)
        if closes is not None and closes >= line - 1:
            return starts[opens] + len(lines[opens].rstrip()), starts[closes] + len(indent)
    return None


def bodies(chosen):
    """By file and place: numbers of the mutants and their bodies."""
    found = {}
    for number, (path, line, _, text) in enumerate(chosen, 1):
        original = path.read_text()
        place = body_of(original, line)
        if place is None:
            continue
        begin, end = place
        tail = len(original) - end
        if text[:begin] == original[:begin] and text[len(text) - tail:] == original[end:]:
            found.setdefault((path, begin, end), []).append((number, text[begin:len(text) - tail]))
    return found


def write_all_in_one(found, without):
    """Writes the program of all mutants; returns for each file its mutants by line."""
    by_line = {}
    for path in {path for path, _, _ in found}:
        text, begins = path.read_text(), []
        places = sorted((key for key in found if key[0] == path), key=lambda key: -key[1])
        for _, begin, end in places:
            arms = [(n, body) for n, body in found[path, begin, end] if n not in without]
            choice = "".join(f"\n/*mutant {n}*/ {n} => {{{body}}}/*end*/" for n, body in arms)
            original = text[begin:end]
            whole = f"match crate::mutant() {{{choice}\n_ => {{{original}}}}}"
            text = text[:begin] + (whole if arms else original) + text[end:]
        for number, line in enumerate(text.splitlines(), 1):
            mark = re.search(r"/\*mutant (\d+)\*/", line)
            current = int(mark.group(1)) if mark else (begins[-1] if begins else None)
            begins.append(None if "/*end*/" in line and not mark else current)
            if current is not None:
                by_line[path.name, number] = current
        (TREE / path.relative_to(ROOT)).write_text(text)
    return by_line


CHOICE = """
static MUTANT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
/// The body that runs.
pub fn mutant() -> u32 { MUTANT.load(std::sync::atomic::Ordering::Relaxed) }
/// Chooses it.
pub fn choose_mutant() {
    let number = std::env::var("AMPLE_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    MUTANT.store(number, std::sync::atomic::Ordering::Relaxed);
}
"""


def all_in_one(chosen):
    """Builds all mutants into one program. Returns the numbers of those that do not fit in."""
    library = TREE / "crates/migration/src/lib.rs"
    library.write_text((ROOT / "crates/migration/src/lib.rs").read_text() + CHOICE)
    program = TREE / "crates/migration/src/bin/ample-model-check.rs"
    begin = "fn main() -> ExitCode {\n"
    program.write_text(program.read_text().replace(
        begin, begin + "    ample_migration::choose_mutant();\n"))
    found = bodies(chosen)
    fitting = {number for arms in found.values() for number, _ in arms}
    without = set(range(1, len(chosen) + 1)) - fitting
    while True:
        by_line = write_all_in_one(found, without)
        checked = cargo("check", "--message-format=json")
        if checked.returncode == 0:
            break
        bad = set()
        for text in checked.stdout.splitlines():
            message = json.loads(text).get("message") or {}
            for span in message.get("spans", []) if message.get("level") == "error" else []:
                number = by_line.get((Path(span["file_name"]).name, span["line_start"]))
                bad |= {number} - {None}
        if not bad - without:
            sys.exit(f"protocol-mutants.py: the mutants do not build:\n{checked.stdout[-3000:]}")
        without |= bad
        print(f"{len(without)} do not fit into one program", file=sys.stderr)
    built = cargo("build")
    if built.returncode:
        sys.exit(f"protocol-mutants.py: the mutants do not build:\n{built.stderr[-3000:]}")
    return without


def bounded():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


def checked(program, number, states, machines=None):
    """What the checker says of a mutant on the first machines of the suite, or on all."""
    first = ["--first", str(machines)] if machines else []
    run = subprocess.run([program, "--judge", str(states), *first], capture_output=True, text=True,
                         preexec_fn=bounded, check=False,
                         env=dict(os.environ, RUST_BACKTRACE="0", AMPLE_MUTANT=str(number)))
    if run.returncode == 0 and states == PART_STATES:
        return "survived in part"
    if run.returncode == 0:
        parts = [json.loads(line) for line in run.stdout.splitlines()]
        endless = states == WHOLE_STATES and not all(part["whole"] for part in parts)
        return "the graph has an end" if endless else "survived"
    if -run.returncode in (signal.SIGXCPU, signal.SIGKILL):
        return "time"
    try:
        last = json.loads(run.stdout.splitlines()[-1])
    except (json.JSONDecodeError, IndexError):
        return "assertion"
    return last["broken"] or "assertion"


def alone(mutant, states):
    """Builds one mutant by itself and judges it."""
    path, _, _, text = mutant
    copy = TREE / path.relative_to(ROOT)
    copy.write_text(text)
    try:
        return "does not compile" if cargo("build").returncode else checked(PROGRAM, 0, states)
    finally:
        shutil.copy(path, copy)


def explained(name, reasons):
    file, _, what = name
    return next((r["reason"] for r in reasons if r["file"] == file
                 and fnmatch.fnmatchcase(what, r["what"].replace("[", "[[]"))), None)


def fingerprint(*folders):
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.rs")):
        if path.name not in NOT_MUTATED or path.parent.name != "protocol":
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


class Verdicts:
    """Verdicts that an earlier run found and that still hold, and those of this one."""

    def __init__(self, chosen, reasons):
        self.known, self.begin = {}, time.monotonic()
        self.protocol = fingerprint(PROTOCOL)
        self.checker = fingerprint("crates/migration/src/check", "crates/migration/src/bin")
        self.chosen = len(chosen)
        lines = KNOWN.read_text().splitlines() if KNOWN.exists() else []
        for entry in map(json.loads, lines):
            name, of_old = tuple(entry["mutant"]), entry["checker"] != self.checker
            again = of_old and survives(entry) and not explained(name, reasons)
            if entry["protocol"] == self.protocol and not again:
                self.known[name] = entry["verdict"]

    @staticmethod
    def name(mutant):
        path, line, what, _ = mutant
        return path.name, line, what

    def of(self, mutant):
        return self.known.get(self.name(mutant))

    def add(self, mutant, verdict):
        self.known[self.name(mutant)] = verdict
        entry = {"protocol": self.protocol, "checker": self.checker,
                 "mutant": self.name(mutant), "verdict": verdict}
        with KNOWN.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        print(f"{len(self.known)} of {self.chosen}, {time.monotonic() - self.begin:.0f} s: "
              f"{verdict}", file=sys.stderr)


def copy_tree():
    shutil.rmtree(TREE, ignore_errors=True)
    shutil.copytree(ROOT / "crates", TREE / "crates", ignore=shutil.ignore_patterns("target"))
    shutil.copytree(ROOT / "experiments", TREE / "experiments")
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copy(ROOT / name, TREE / name)


def program_of(todo, verdicts):
    """The program of these mutants, built unless they are in one that is there. Returns it and
    their numbers in it; 0 for those that have to be built by themselves."""
    together = TARGET / "all-in-one"
    key, names = [verdicts.protocol, verdicts.checker], [repr(verdicts.name(m)) for m in todo]
    if BUILT.exists() and together.exists():
        built = json.loads(BUILT.read_text())
        if built["key"] == key and all(name in built["numbers"] for name in names):
            return together, [built["numbers"][name] for name in names]
    copy_tree()
    without = all_in_one(todo)
    shutil.copy(PROGRAM, together)
    if checked(together, 0, WHOLE_STATES, FIRST_MACHINES) != "survived":
        sys.exit("protocol-mutants.py: the unchanged protocol does not hold")
    for path in {path for path, _, _, _ in todo}:
        shutil.copy(path, TREE / path.relative_to(ROOT))
    numbers = [0 if n in without else n for n in range(1, len(todo) + 1)]
    BUILT.write_text(json.dumps({"key": key, "numbers": dict(zip(names, numbers))}))
    return together, numbers


def judge_all(chosen, verdicts, reasons, options):
    """Judges what has no verdict yet, up to the time that is given: all by a part of each graph,
    then those that have survived this, and have no reason, by whole graphs."""
    end = time.monotonic() + 60 * (options.minutes or 1e9)
    # A run that is ended has judged a bit of everything.
    mixed = [m for first in range(10) for m in chosen[first::10]]

    def judge(states, wanted):
        todo = [m for m in mixed if wanted(m)]
        if not todo:
            return
        together, numbers = program_of(todo, verdicts)

        def judged(number, mutant):
            if time.monotonic() < end:
                verdicts.add(mutant, checked(together, number, states))

        with ThreadPoolExecutor(options.jobs) as pool:
            pairs = zip(numbers, todo)
            list(pool.map(lambda pair: judged(*pair), (p for p in pairs if p[0])))
        for number, mutant in zip(numbers, todo):
            if not number and time.monotonic() < end:
                verdicts.add(mutant, alone(mutant, states))

    judge(PART_STATES, lambda m: verdicts.of(m) is None)
    judge(WHOLE_STATES, lambda m: verdicts.of(m) == "survived in part"
          and not explained(verdicts.name(m), reasons))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--every", type=int, default=1, help="only each N-th mutant")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--only", default="", help="only those whose file or change has this text")
    parser.add_argument("--jobs", type=int, default=2, help="mutants that run at once")
    parser.add_argument("--minutes", type=float, help="end after so long; a later run goes on")
    parser.add_argument("--json", help="write all verdicts to this file")
    options = parser.parse_args()
    reasons = tomllib.loads((ROOT / "crates/migration/mutants.toml").read_text())["equivalent"]
    chosen = all_mutants()[options.first::options.every]
    chosen = [m for m in chosen if options.only in f"{m[0].name} {m[2]}"]
    verdicts = Verdicts(chosen, reasons)
    judge_all(chosen, verdicts, reasons, options)
    results, missing = [], 0
    for mutant in chosen:
        path, line, what, _ = mutant
        result = {"file": path.name, "line": line, "what": what, "verdict": verdicts.of(mutant)}
        result["equivalent"] = explained(verdicts.name(mutant), reasons)
        results.append(result)
        open_ = survives(result) and not result["equivalent"]
        missing += result["verdict"] is None or open_ and result["verdict"] != "survived"
        if open_:
            print(f"{result['verdict']}: {path.name}:{line}: {what}")
    return summary(results, missing, options.json)


def survives(result):
    return (result["verdict"] or "").startswith("survived")


def summary(results, missing, file):
    built = [r for r in results if r["verdict"] not in ("does not compile", None)]
    left = [r for r in built if survives(r)]
    open_ = [r for r in left if not r["equivalent"]]
    score = 1 - len(open_) / max(1, len(built))
    print(f"{len(built)} mutants, {len(built) - len(left)} noticed, {len(left) - len(open_)} "
          f"change nothing, {len(open_)} survive: {score:.1%}")
    if file:
        Path(file).write_text(json.dumps({
            "schema": "ample.protocol-mutants/1", "partial": missing > 0, "mutants": results,
        }, indent=1) + "\n")
    if missing:
        print(f"{missing} are not judged whole yet: run the same again")
        return 3
    return 0 if score >= LEAST_SCORE else 1


if __name__ == "__main__":
    sys.exit(main())
