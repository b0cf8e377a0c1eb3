# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tests of sqlite: its program `testfixture`, built on each side, runs them as one part."""

import os
import pathlib
import re
import shutil

from . import fetch, process

TCL = pathlib.Path("/usr/lib/tcl8.6/tclConfig.sh")


def prepare(base, _sides):
    if not TCL.exists():
        raise fetch.Missing(f"{TCL} is missing: apt-get install tcl8.6-dev")
    return {"source": fetch.source(base, "sqlite3"), "folder": base / "sqlite3"}


def build(places, side, env):
    """Builds the tests from nothing in the same folder on both sides; the program."""
    folder, build_folder = places["folder"], places["folder"] / "build"
    shutil.rmtree(build_folder, ignore_errors=True)
    build_folder.mkdir()
    configure = str(places["source"] / "configure")
    for command in ([configure, f"--with-tcl={TCL.parent}", "CFLAGS=-O1"],
                    ["make", "-s", "testfixture"]):
        status, output = process.run(command, env, build_folder, 3600)
        if status != 0:
            raise fetch.Missing(f"sqlite was not built under {side}: ...{output[-600:]}")
    program = folder / f"testfixture.{side}"
    shutil.copy(build_folder / "testfixture", program)
    return program


def parts(_places):
    return ["veryquick"], {}


def without_root():
    """What takes the right to read and write any file from root: the tests end without."""
    if os.geteuid() != 0:
        return []
    return [fetch.need("setpriv", "util-linux"), "--bounding-set=-dac_override,-dac_read_search"]


def run(places, side, env, part, _at, limit_s):
    folder = places["folder"] / f"run.{side}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    command = [*without_root(), str(places["folder"] / f"testfixture.{side}"),
               str(places["source"] / f"test/{part}.test")]
    status, output = process.run(command, env, folder, 10 * limit_s)
    counts = re.search(r"(?m)^(\d+) errors out of (\d+) tests", output)
    failed = re.findall(r"(?m)^!?Failures on these tests: (.*)$", output)
    return process.outcome(status, int(counts[2]) if counts else 0,
                           failed[0].split() if failed else [])
