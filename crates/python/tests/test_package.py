# SPDX-License-Identifier: MIT OR Apache-2.0
"""The package as a whole: types, the notebook, the figures."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib
import nbclient
import nbformat
import pytest

import ample
from ample import plots
from conftest import SNAPSHOTS, SPEC, TREE
from conftest import ample as command

matplotlib.use("agg")
PACKAGE = Path(ample.__file__).parent


def test_the_version_is_that_of_the_command() -> None:
    assert command("--version").decode().split()[1] == ample.__version__


def test_types_hold() -> None:
    """The package and these tests, under the strict rules, against the stubs."""
    settings = TREE / "crates/python/pyproject.toml"
    command = [sys.executable, "-m", "mypy", "--config-file", settings, "-p", "ample"]
    done = subprocess.run(
        [*map(str, command), "--cache-dir", os.devnull], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_name_what_is_there() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "ample._ample", "--ignore-missing-stub"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_notebook_runs() -> None:
    notebook = nbformat.read(TREE / "crates/python/examples/fleet.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "keep it without outputs"
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3")
    client.execute()
    kinds = [
        kind
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        for kind in output.get("data", {})
    ]
    assert kinds.count("image/png") >= 4 and "image/svg+xml" in kinds and "text/html" in kinds


# What takes long in the page of the book is made small, by these rules and no other.
SMALL = '"memory_bytes": 2**28, "duration_s": 900}'
SMALLER = [
    (r'set=\{("seeds": \[1, 2\])\}', rf"set={{\1, {SMALL}, quick=True"),
    (r'"kernel_factor": \[0.5, 1\]\}', rf"\g<0>, set={{{SMALL}"),
    (r'"experiments/fleets/mixed.toml"\)\.table\(\[17\]\)', '"fleet.toml").table([7])'),
    (r"memory_gb=4, hours=1", "memory_gb=0.25, hours=0.2"),
]


def test_the_page_of_the_book_runs(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (TREE / "docs/python.md").read_text()
    first, *others = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for long, small in SMALLER:
        first, found = re.subn(long, small, first)
        assert found == 1, f"the page no longer has {long}"
    shutil.copy(SNAPSHOTS[0], tmp_path / "host.snap")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for line in first.splitlines():
        try:
            exec(compile(line, "docs/python.md", "exec"), names)
        except PermissionError:
            assert "ample.scan()" in line
    # A cluster is not asked for here (test_ray.py has one): the names have to be there.
    for block in others:
        compile(block, "docs/python.md", "exec")
        for name in re.findall(r"ample\.spread\.(\w+)\(", block):
            assert re.search(rf"^def {name}\(", (PACKAGE / "spread.py").read_text(), re.MULTILINE)


def test_figures_hold_the_figures_of_the_table() -> None:
    table = ample.Fleet(SPEC).table(range(12))
    size = [
        row
        for row in table.to_dicts()
        if row["kind"] == "size" and row["size_bytes"] == 2 << 20 and row["definition"] == "P"
    ]
    shares = sorted(100 * row["unmovable_blocks_high"] / row["blocks"] for row in size)
    line = plots.unmovable(table).get_lines()[0]
    assert list(line.get_xdata()) == pytest.approx(shares)
    assert line.get_ydata()[-1] == 100
    bars = plots.sources({"": table}[""]).patches
    assert sum(bar.get_height() for bar in bars) == pytest.approx(100)
    assert len(plots.free_contiguity({"a": table, "b": table}).get_lines()) == 8
    with pytest.raises(ample.AmpleError, match="is it one of a fleet"):
        plots.unmovable(ample.results())
    with pytest.raises(ample.AmpleError, match="fig11"):
        plots.policies(ample.results())
