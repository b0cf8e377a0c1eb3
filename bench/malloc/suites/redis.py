# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tests of redis: a part is one file of them, in a process of its own."""

import pathlib
import re
import tempfile

from . import fetch, process

# What is left out, on both sides.
LEFT_OUT = {
    "unit/oom-score-adj": "writes to the machine's own OOM scores",
}
PORTS = 120


def prepare(base, sides):
    """The built source. The compiler runs under the library, too."""
    fetch.need("tclsh", "tcl")
    source = fetch.source(base, "redis")
    if not (source / "src/redis-server").exists():
        status, output = process.run(["make", "MALLOC=libc", "OPTIMIZATION=-O2", "-s"],
                                     sides["ample"], source, 1800)
        if status != 0:
            raise fetch.Missing(f"redis was not built: ...{output[-600:]}")
    return {"source": source, "folder": base / "redis"}


def parts(places):
    """The files that the suite's own list names, and what is left out."""
    text = (places["source"] / "tests/test_helper.tcl").read_text()
    names = re.search(r"set ::all_tests \{(.*?)\}", text, re.DOTALL)[1].split()
    return [name for name in names if name not in LEFT_OUT], LEFT_OUT


def own_tree(source, folder):
    """The tree as the tests expect it, with a tests/tmp of its own: a runner empties it."""
    (folder / "tests/tmp").mkdir(parents=True)
    for entry in source.iterdir():
        if entry.name != "tests":
            (folder / entry.name).symlink_to(entry)
    for entry in (source / "tests").iterdir():
        if entry.name != "tmp":
            (folder / "tests" / entry.name).symlink_to(entry)


def run(places, _side, env, part, at, limit_s):
    # Parts run side by side: each has ports of its own.
    port = 21000 + at % 64 * PORTS
    command = ["tclsh", "tests/test_helper.tcl", "--single", part, "--clients", "1",
               "--baseport", str(port), "--portcount", str(PORTS)]
    with tempfile.TemporaryDirectory(dir=places["folder"], ignore_cleanup_errors=True) as folder:
        own_tree(places["source"], pathlib.Path(folder))
        status, output = process.run(command, env, folder, limit_s)
    failed = re.findall(r"(?m)^\[err\]: (.*)$", output)
    # The text of an exception or a test out of time holds process ids.
    failed += ["exception"] * bool(re.search(r"(?m)^\[exception\]", output))
    failed += ["timeout"] * bool(re.search(r"(?m)^\[timeout\]", output))
    passed = len(re.findall(r"(?m)^\[ok\]", output))
    return process.outcome(status, passed + len(failed), failed)
