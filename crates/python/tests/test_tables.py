# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tables, scans and results: the same figures as the command, in every library."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import polars
import pyarrow
import pyarrow.parquet
import pytest

import ample
from conftest import SNAPSHOTS, TREE
from conftest import ample as command


def test_a_snapshot_has_the_figures_of_the_command() -> None:
    for path in SNAPSHOTS[:3]:
        scan = ample.read_snapshot(path)
        told = json.loads(command("scan", "--snapshot", path, "--json"))
        total = ample.metrics(scan)["total"]
        assert total["memory_bytes"] == told["memory_bytes"]
        assert total["free_bytes"] == told["free_bytes"]
        assert json.loads(scan.meta_json())["kernel"] == scan.kernel == told["kernel"]


def test_a_scan_is_the_parquet_of_the_command(tmp_path: Path) -> None:
    path = SNAPSHOTS[0]
    told = tmp_path / "told.parquet"
    command("scan", "--snapshot", path, "--format", "parquet", "-o", told)
    scan = ample.read_snapshot(path)
    assert scan.parquet() == told.read_bytes()
    table = scan.table(role="web", rack="r1")
    assert set(table["role"]) == {"web"} and set(table["rack"]) == {"r1"}
    plain = scan.table()
    read = pyarrow.parquet.read_table(told)
    assert plain.to_arrow().to_pylist() == read.to_pylist() == plain.to_dicts()
    copy = tmp_path / "copy.snap"
    scan.save(copy)
    assert ample.read_snapshot(copy).parquet() == scan.parquet()


def test_libraries_take_a_table_as_it_is() -> None:
    table = ample.results()
    by_arrow, by_polars = pyarrow.table(table), polars.DataFrame(table)
    assert by_arrow.to_pylist() == by_polars.to_dicts() == table.to_dicts()
    assert by_polars.equals(table.to_polars())
    assert pyarrow.schema(table).names == table.column_names
    assert len(table) == by_arrow.num_rows > 100
    # The stream can be taken again, and left without being read.
    table.__arrow_c_stream__()
    assert pyarrow.table(table).equals(by_arrow)
    with pytest.raises(KeyError, match="no column .*ids.*; there are id, "):
        table["ids"]
    with pytest.raises(IndexError, match="the table has"):
        table.row(len(table))
    assert list(table) == table.to_dicts()


def test_a_result_is_its_file() -> None:
    for row in ample.results().to_dicts():
        found = ample.result(row["id"])
        file = TREE / "results/data" / row["layer"] / f"{row['id']}.json"
        data = json.loads(file.read_text())
        assert json.loads(found.json) == data
        table = found.table()
        assert len(table) == len(data["rows"])
        for at, column in enumerate(data["columns"]):
            for held, cells in zip(table[column["key"]], data["rows"]):
                cell = cells[at]
                wanted = cell.get("value") if isinstance(cell, dict) else cell
                # A column of both texts and numbers is one of text.
                if isinstance(held, str) and not isinstance(wanted, str):
                    held = float(held)
                assert held == wanted, (row["id"], column, cell)
        svg = found.svg()
        assert (svg is None) == ("figure" not in data)
        assert svg is None or svg.startswith("<")


def test_nothing_else_is_needed() -> None:
    """Neither data frames nor any other library is imported unless asked for."""
    code = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.split('.')[0] in {'polars', 'pyarrow', 'numpy', 'ray', 'optuna'}:\n"
        "            raise ImportError(f'{name} is not there')\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import ample, ample.search, ample.spread, ample.plots\n"
        "assert len(ample.result('fig11').table()) > 3\n"
        "try:\n"
        "    ample.results().to_polars()\n"
        "except ample.AmpleError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "polars is not installed; pip install polars\n"


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    with pytest.raises(ample.AmpleError, match='Did you mean "fleet-drawn"'):
        ample.result("fleet-drwan")
    with pytest.raises(ample.AmpleError, match="cannot read snapshot /nowhere"):
        ample.read_snapshot("/nowhere")
    with pytest.raises(ample.AmpleError, match="/dev/zero"):
        ample.read_snapshot("/dev/zero")
    with pytest.raises(ample.AmpleError, match='no reader "magic"'):
        ample.scan("magic")
    with pytest.raises(ample.AmpleError):
        ample.scan(root=tmp_path)
    whole = SNAPSHOTS[0].read_bytes()
    for end in (0, 7, 31, 200, len(whole) // 2, len(whole) - 1):
        cut = tmp_path / "cut.snap"
        cut.write_bytes(whole[:end])
        with pytest.raises(ample.AmpleError, match="byte"):
            ample.read_snapshot(cut)
    with pytest.raises(ample.AmpleError, match="cannot write"):
        ample.read_snapshot(SNAPSHOTS[0]).save("/nowhere/x.snap")
    with pytest.raises(TypeError):
        pickle.dumps(ample.results())
