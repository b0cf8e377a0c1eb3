# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tests of CPython: a part is one module of them, in a process of its own."""

import os
import pathlib
import re
import tempfile

from . import fetch, process

PYTHON = "/usr/bin/python3"
# A package of the distribution; the module is one that only it carries.
MARK = pathlib.Path("/usr/lib/python3.11/test/test_dict.py")
# Tests that are left out, on both sides, as patterns of their names.
LEFT_OUT = {"*VSOCK*": "one port for the whole machine: waits forever where no peer answers there"}


def prepare(base, _sides):
    if not MARK.exists():
        raise fetch.Missing("CPython's tests are missing: apt-get install libpython3.11-testsuite")
    folder = base / "cpython"
    folder.mkdir(parents=True, exist_ok=True)
    return {"folder": folder}


def parts(places):
    status, output = process.run([PYTHON, "-m", "test", "--list-tests"], dict(os.environ),
                                 places["folder"], 60)
    if status != 0:
        raise fetch.Missing(f"{PYTHON} does not list its tests: ...{output[-300:]}")
    return [name for name in output.split() if name.startswith("test_")], LEFT_OUT


def run(places, _side, env, part, _at, limit_s):
    ignored = [word for pattern in LEFT_OUT for word in ("--ignore", pattern)]
    with tempfile.TemporaryDirectory(dir=places["folder"], ignore_cleanup_errors=True) as folder:
        # Python's own allocator would hide ours.
        status, output = process.run([PYTHON, "-m", "test", "-v", *ignored, part],
                                     dict(env, PYTHONMALLOC="malloc", TMPDIR=folder), folder,
                                     limit_s)
    tests = sum(int(count) for count in re.findall(r"(?m)^Ran (\d+) tests? in", output))
    # (The dynamic linker says ERROR, too, where a child may not read the library.)
    failed = set(re.findall(r"(?m)^(?:FAIL|ERROR): (?!ld\.so)(.*)$", output))
    # A module without unittest counts as one test; one that only skips has status 0, too.
    if status == 0 and not tests and re.search(r"(?m)^1 test OK\.$", output):
        tests = 1
    return process.outcome(status, tests, failed)
