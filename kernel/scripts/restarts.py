#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tell what a service that restarts gets of huge pages, by what else holds memory then.

usage: restarts.py FOLDER
Reads the recordings of restart.sh in FOLDER, KERNEL-SIZE-SEED.json, and prints one line of JSON for
each variant of each kernel: 2 MB pages wanted, and those obtained by page faults, through
nr_hugepages, and of twice as many; the median of the seeds, least and greatest.
"""

import json
import pathlib
import statistics
import sys


def asked(file):
    """What the service of a recording was given, variant by variant."""
    lines = (json.loads(line) for line in file.read_text().splitlines())
    return [line for line in lines if line["what"] == "asked"]


def spread(values):
    """Median, least and greatest; nothing where nobody asked."""
    values = [value for value in values if value is not None]
    if not values:
        return None
    return {"value": statistics.median(values), "low": min(values), "high": max(values)}


def main():
    """One line for each variant."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = {}
    for file in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
        kernel = file.name.split("-")[0]
        for line in asked(file):
            found.setdefault((line["variant"], kernel), []).append(line)
    if not found:
        sys.exit(f"restarts.py: no recordings in {sys.argv[1]}; run make kernel-restarts")
    for (variant, kernel), lines in found.items():
        row = {"variant": variant, "kernel": kernel, "wanted": lines[0]["wanted"]}
        for key in ("thp", "got", "got_of_twice"):
            row[key] = spread([line.get(key) for line in lines])
        print(json.dumps(row))


main()
