#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the queries of `ample fleet report` on DuckDB, compares every digit, and tells the time.

A second engine for one machine, beside the one that is built in. Needs the package duckdb.

  ample fleet report lake/ --tables embedded.json
  spark/fleet_duckdb.py lake/ --like embedded.json
"""

import argparse
import glob
import json
import sys
import time
from pathlib import Path

from fleet_spark import QUERIES, STEPS, differences


def run(connection, sources, given):
    """The results of all queries by name."""
    files = [name for source in sources for name in (
        glob.glob(f"{source}/**/*.parquet", recursive=True) if Path(source).is_dir() else [source])]
    connection.read_parquet(files).create_view("scans")
    values = ", ".join(f"{value}::bigint as {name}" for name, value in given.items())
    connection.execute(f"create view parameters as select {values}")
    results = {}
    for path in sorted(QUERIES.glob("*.sql")):
        name = path.name.split("_", 1)[1].removesuffix(".sql")
        query = path.read_text()
        if name.endswith(".view"):
            connection.execute(f"create view {name.removesuffix('.view')} as {query}")
            continue
        connection.execute(f"create table {name} as {query}")
        if name not in STEPS:
            rows = connection.execute(f"select * from {name}")
            names = [column[0] for column in rows.description]
            results[name] = [dict(zip(names, row)) for row in rows.fetchall()]
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="+", help="Parquet files or directories")
    parser.add_argument("--like", metavar="FILE", required=True,
                        help="results of ample fleet report --tables; exit 1 where a digit differs")
    parser.add_argument("--threads", type=int, default=2, metavar="N")
    args = parser.parse_args()
    try:
        import duckdb
    except ImportError:
        sys.exit("fleet_duckdb.py: duckdb is missing; install it with: pip install duckdb")
    like = json.loads(Path(args.like).read_text())
    begin = time.monotonic()
    connection = duckdb.connect(config={"threads": args.threads})
    results = run(connection, args.source, like["parameters"])
    seconds = time.monotonic() - begin
    print(f"duckdb {duckdb.__version__}: {len(results)} results, {seconds:.1f} s")
    found = list(differences(results, like["results"]))
    for line in found:
        print(f"differs: {line}")
    print("equal to the digit" if not found else f"{len(found)} results differ")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
