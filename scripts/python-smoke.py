#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A first use of the installed package, without any other one beside it."""

import importlib.metadata

import ample

assert importlib.metadata.requires("ample") is None or all(
    "extra ==" in wanted for wanted in importlib.metadata.requires("ample")
), "the package needs another one"
rows = ample.result("fig11").table().to_dicts()
assert rows, "no rows of fig11"
run = ample.simulate("web", "contiguitas", memory_gb=0.125, hours=0.05)
assert run["policy"] == "contiguitas"
try:
    scan = ample.scan()
    told = f"{len(scan.table())} rows of this machine by {scan.reader}"
except (PermissionError, ample.AmpleError) as error:
    told = f"no scan here ({error})"
version = importlib.metadata.version("ample")
print(f"ample {version}: {len(ample.results())} results, one simulated server, {told}")
