# SPDX-License-Identifier: MIT OR Apache-2.0
"""Running a part of a suite with a time limit, on one of the two sides."""

import os
import signal
import subprocess


def sides(library, options):
    """The environment of each side: the library preloaded, and glibc's malloc."""
    plain = dict(os.environ, TERM="dumb", LANG="C.UTF-8", SOURCE_DATE_EPOCH="0")
    for name in ("LD_PRELOAD", "AMPLE_MALLOC", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
        plain.pop(name, None)
    ours = dict(plain, LD_PRELOAD=str(library))
    if options:
        ours["AMPLE_MALLOC"] = options
    return {"ample": ours, "glibc": plain}


def run(command, env, folder, limit_s):
    """The exit status, or None if the time ran out, and the output. Nothing is left running."""
    with subprocess.Popen(command, env=env, cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True) as child:
        try:
            output, _ = child.communicate(timeout=limit_s)
            status = child.returncode
        except subprocess.TimeoutExpired:
            end_group(child)
            output, _ = child.communicate()
            status = None
        end_group(child)
    return status, output.decode(errors="replace")


def end_group(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def outcome(status, tests, failed):
    """What a part came to. An exit status of failure without a failed test is named as such."""
    if status is None:
        return {"verdict": "out of time", "tests": tests, "failed": sorted(failed)}
    if status != 0 and not failed:
        failed = [f"exit status {status}"]
    verdict = "failed" if failed else "passed" if tests else "nothing to run"
    return {"verdict": verdict, "tests": tests, "failed": sorted(failed)}
