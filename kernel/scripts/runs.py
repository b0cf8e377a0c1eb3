# SPDX-License-Identifier: GPL-2.0-only
"""Guest runs on disk: a directory each, with the kernel it was made with."""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Releases of Linux but the first have trees and runs of their own, as in the Makefile.
RELEASE = os.environ.get("VERSION", "6.12")
OF_RELEASE = "" if RELEASE == "6.12" else f"-{RELEASE}"


def parser(description, out, mem):
    """The options that all scripts with guests have: built trees, results, memory."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / f"build/kernel{OF_RELEASE}")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / f"build/{out}{OF_RELEASE}")
    parser.add_argument("--mem", default=mem)
    return parser


def kernel_id(tree):
    """The first 12 digits of the SHA-256 of a built tree's bzImage."""
    return hashlib.sha256((tree / "arch/x86/boot/bzImage").read_bytes()).hexdigest()[:12]


def begin(where, kernel):
    """Empty the directory of a run about to start, and note its kernel."""
    where.mkdir(parents=True, exist_ok=True)
    (where / "results.jsonl").unlink(missing_ok=True)
    (where / "kernel").write_text(kernel + "\n")


def finished(where, kernel, last):
    """Its result objects by name, if it is of that kernel and has the one named last."""
    noted, done = where / "kernel", where / "results.jsonl"
    if not noted.exists() or noted.read_text().strip() != kernel or not done.exists():
        return None
    found = {o["what"]: o.get("value", o) for o in objects(where)}
    return found if last in found else None


def objects(where):
    """All result objects of a run, in their order."""
    return [json.loads(line) for line in (where / "results.jsonl").read_text().splitlines()]


def outcome(where, kernel, start, figures):
    """
    What `figures` makes of a run, which `start` starts unless it was with this kernel; None if the
    guest did not live to its end, which is a result too, and not tried again.
    """
    ended = where / "ended"
    if not ended.exists() or ended.read_text() != kernel:
        begin(where, kernel)
        start()
        for left in ("disk.img", "initramfs.gz"):
            (where / left).unlink(missing_ok=True)
        ended.write_text(kernel)
    return figures(where) if finished(where, kernel, "counters") else None


def report(args, name, kernel, words, before=lambda: None):
    """
    What `ample system` reports of a guest, asked for by `words`: from OUT/NAME.json, if it is of
    that kernel and of the same words and --again is not given. `before` is called before a run.
    """
    out, words = args.out / f"{name}.json", [str(word) for word in words]
    build = " ".join([kernel_id(args.build / kernel), *words[1:]])
    stamp = out.with_suffix(".kernel")
    if not args.again and stamp.exists() and stamp.read_text() == build:
        return json.loads(out.read_text())
    args.out.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    before()
    print(f"{name}: {words[words.index('--append') + 1]}", file=sys.stderr)
    done = subprocess.run(words, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(f"{name} did not end well: {' '.join(words)}")
    out.write_bytes(done.stdout)
    stamp.write_text(build)
    return json.loads(done.stdout)
