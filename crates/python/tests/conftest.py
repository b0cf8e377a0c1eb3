# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tests of the package share: the tree, the command beside the package, a small fleet."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[3]
SNAPSHOTS = sorted((TREE / "kernel/tests/courses").glob("*.start.snap"))

SPEC = """
servers = 12
seed = 5
looks = 2
[[group]]
role = "web"
share = 2
workload = "web"
memory_gb = { one_of = [0.125, 0.25] }
uptime_h = { log_uniform = [0.01, 0.05] }
kernel_factor = { uniform = [0.5, 1.5] }
[[group]]
role = "build"
share = 1
workload = "ci"
memory_gb = { always = 0.125 }
uptime_h = { always = 0.02 }
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text(SPEC)
    return path


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The sum in the form of the other tests of the tree, which `make test` adds up."""
    passed, failed = (
        sum(len(terminalreporter.stats.get(kind, [])) for kind in kinds)
        for kinds in (["passed"], ["failed", "error"])
    )
    state = "FAILED" if failed else "ok"
    terminalreporter.write_line(f"test result: {state}. {passed} passed; {failed} failed")


def ample(*arguments: object) -> bytes:
    """Runs the command that was built beside the package (AMPLE)."""
    command = os.environ.get("AMPLE")
    if command is None:
        pytest.skip("AMPLE names no command to compare with")
    done = subprocess.run([command, *map(str, arguments)], check=True, capture_output=True)
    return done.stdout
