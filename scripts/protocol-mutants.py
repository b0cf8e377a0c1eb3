#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Change the code of the migration protocol mechanically, a place at a time, and see whether the
model checker notices.

The changes are those of cargo-mutants (operators, guards, arms, values of functions), and each
statement that sends, assigns or calls left out. Planted faults and assertions are not changed. Each
mutant is built with assertions and run through the quick suite up to the first machine that does
not hold; one that still runs after five minutes counts as noticed (a graph without end).
Survivors must stand in crates/migration/mutants.toml with the reason why they change nothing.

usage: protocol-mutants.py [--every N] [--from K] [--only TEXT] [--json FILE]
Exit: 0 at least 95 % noticed or explained, 1 fewer, 2 cargo-mutants is missing.
"""

import argparse
import fnmatch
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOCOL = "crates/migration/src/protocol"
TREE = ROOT / "target/mutants/tree"
TARGET = ROOT / "target/mutants/target"
PROGRAM = TARGET / "release/ample-model-check"
SECONDS, MEMORY_BYTES = 300, 6 << 30
LEAST_SCORE = 0.95
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
    return sorted(found, key=lambda m: (m[0].name, m[1], m[2]))


def build():
    environment = dict(os.environ, CARGO_TARGET_DIR=str(TARGET), CARGO_INCREMENTAL="1",
                       CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS="true",
                       CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS="true",
                       CARGO_PROFILE_RELEASE_CODEGEN_UNITS="16",
                       CARGO_PROFILE_RELEASE_OPT_LEVEL="2", RUSTFLAGS="--cap-lints allow")
    return subprocess.run(["cargo", "build", "--locked", "--release", "-q", "-p", "ample-migration",
                           "--features", "model-check", "--bin", "ample-model-check"],
                          cwd=TREE, env=environment, capture_output=True, check=False).returncode


def bounded():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def verdict_of():
    """What the checker says of the built mutant."""
    try:
        run = subprocess.run([PROGRAM, "--stop", "--json"], capture_output=True, text=True,
                             timeout=SECONDS, preexec_fn=bounded, check=False,
                             env=dict(os.environ, RUST_BACKTRACE="0"))
    except subprocess.TimeoutExpired:
        return "time"
    if run.returncode == 0:
        return "survived"
    try:
        last = json.loads(run.stdout)["configurations"][-1]
    except (json.JSONDecodeError, KeyError, IndexError):
        return "assertion"
    return last["broken"] or "cannot end"


def judged(mutant):
    path, line, what, text = mutant
    copy = TREE / path.relative_to(ROOT)
    copy.write_text(text)
    try:
        verdict = "does not compile" if build() else verdict_of()
    finally:
        shutil.copy(path, copy)
    return {"file": path.name, "line": line, "what": what, "verdict": verdict}


def explained(result, reasons):
    return next((r["reason"] for r in reasons if r["file"] == result["file"]
                 and fnmatch.fnmatchcase(result["what"], r["what"].replace("[", "[[]"))), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--every", type=int, default=1, help="only each N-th mutant")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--only", default="", help="only those whose file or change has this text")
    parser.add_argument("--json", help="write all verdicts to this file")
    options = parser.parse_args()
    reasons = tomllib.loads((ROOT / "crates/migration/mutants.toml").read_text())["equivalent"]
    chosen = all_mutants()[options.first::options.every]
    chosen = [m for m in chosen if options.only in f"{m[0].name} {m[2]}"]
    shutil.rmtree(TREE, ignore_errors=True)
    shutil.copytree(ROOT / "crates", TREE / "crates", ignore=shutil.ignore_patterns("target"))
    shutil.copytree(ROOT / "experiments", TREE / "experiments")
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copy(ROOT / name, TREE / name)
    if build() or verdict_of() != "survived":
        sys.exit("protocol-mutants.py: the unchanged protocol does not build or does not hold")
    results, begin = [], time.monotonic()
    for number, mutant in enumerate(chosen, 1):
        result = judged(mutant)
        result["equivalent"] = explained(result, reasons)
        results.append(result)
        if result["verdict"] == "survived" and not result["equivalent"]:
            print(f"survived: {result['file']}:{result['line']}: {result['what']}", flush=True)
        print(f"{number} of {len(chosen)}, {time.monotonic() - begin:.0f} s", file=sys.stderr)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    built = [r for r in results if r["verdict"] != "does not compile"]
    left = [r for r in built if r["verdict"] == "survived"]
    open_ = [r for r in left if not r["equivalent"]]
    score = 1 - len(open_) / max(1, len(built))
    print(f"{len(built)} mutants, {len(built) - len(left)} noticed, {len(left) - len(open_)} "
          f"change nothing, {len(open_)} survive: {score:.1%}")
    return 0 if score >= LEAST_SCORE else 1


if __name__ == "__main__":
    sys.exit(main())
