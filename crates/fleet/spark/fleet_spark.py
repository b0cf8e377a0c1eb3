#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the queries of `ample fleet report` on Spark and compares, or writes, their results.

For a fleet that is too big for one machine. Needs the package pyspark and a Java runtime.

  ample fleet report lake/ --tables embedded.json
  spark/fleet_spark.py lake/ --like embedded.json
  spark/fleet_spark.py s3a://scans/ --master spark://… --out spark.json
"""

import argparse
import json
import sys
import time
from pathlib import Path

# Results that are steps to others, and large.
STEPS = ("each_scan", "machines", "sizes", "several", "blocks", "host_sources")
QUERIES = Path(__file__).resolve().parent.parent / "queries"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="+", help="Parquet files or directories")
    parser.add_argument("--master", default="local[*]", help="default: this machine")
    parser.add_argument("--like", metavar="FILE", help="results of ample fleet report --tables: "
                        "take its parameters, compare every digit, exit 1 where one differs")
    parser.add_argument("--out", metavar="FILE", help="write the results")
    parser.add_argument("--min-free", type=int, default=1 << 30, metavar="BYTES")
    parser.add_argument("--partitions", type=int, default=16, metavar="N",
                        help="parts that joined and grouped rows are split into (default 16; "
                        "some times the number of cores)")
    parser.add_argument("--worst", type=int, default=10, metavar="N")
    return parser.parse_args()


def parameters(args, like):
    if like:
        return like["parameters"]
    return {
        "now_seconds": int(time.time()),
        "min_free_bytes": args.min_free,
        "worst_hosts": args.worst,
        "from_seconds": 0,
        "to_seconds": 2**63 - 1,
    }


def run(spark, sources, given):
    """The results of all queries by name."""
    spark.read.option("recursiveFileLookup", True).parquet(*sources) \
        .createOrReplaceTempView("scans")
    spark.createDataFrame([given], ", ".join(f"{name} bigint" for name in given)) \
        .createOrReplaceTempView("parameters")
    results = {}
    for path in sorted(QUERIES.glob("*.sql")):
        name = path.name.split("_", 1)[1].removesuffix(".sql")
        frame = spark.sql(path.read_text())
        if name.endswith(".view"):
            frame.createOrReplaceTempView(name.removesuffix(".view"))
            continue
        frame = frame.cache()
        frame.createOrReplaceTempView(name)
        if name not in STEPS:
            results[name] = [row.asDict() for row in frame.collect()]
    return results


def differences(own, other):
    """One line for each result that is not the same in both."""
    for name in sorted(own.keys() | other.keys()):
        if own.get(name) != other.get(name):
            rows = zip(own.get(name, []), other.get(name, []))
            first = next((pair for pair in rows if pair[0] != pair[1]), "another number of rows")
            yield f"{name}: {first}"


def main():
    args = arguments()
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        sys.exit("fleet_spark.py: pyspark is missing; install it with: pip install pyspark")
    like = json.loads(Path(args.like).read_text()) if args.like else None
    builder = SparkSession.builder.master(args.master).appName("ample fleet")
    builder.config("spark.ui.enabled", False).config("spark.ui.showConsoleProgress", False)
    builder.config("spark.sql.shuffle.partitions", args.partitions)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    given = parameters(args, like)
    begin = time.monotonic()
    results = run(spark, args.source, given)
    seconds = time.monotonic() - begin
    spark.stop()
    if args.out:
        Path(args.out).write_text(json.dumps({"parameters": given, "results": results}, indent=1))
    rows = sum(len(rows) for rows in results.values())
    print(f"{len(results)} results, {rows} rows, {seconds:.1f} s")
    if like:
        found = list(differences(results, like["results"]))
        for line in found:
            print(f"differs: {line}")
        print("equal to the digit" if not found else f"{len(found)} results differ")
        sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
