#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compare the server model with a recorded kernel, over time.

usage: replay.py [--ample PROGRAM] [--seeds N] PREFIX...

Each PREFIX names PREFIX.trace.zst and PREFIX.snap, made by record.sh. Replays
them through the model's stock Linux (simulated) and prints a Markdown table of
the unmovable share of 2 MB blocks (definition O) at quarters of the recording,
and of the largest difference at any of 64 samples. The model's figure is the
median over its seeds.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = 65
QUARTERS = [0, 16, 32, 48, 64]


def replay(ample, prefix, seed):
    """The recorded and the modelled share at each sample, in percent."""
    out = subprocess.run(
        [ample, "replay", f"{prefix}.trace.zst", "--snapshot", f"{prefix}.snap", "--policy",
         "linux", "--samples", str(SAMPLES), "--seed", str(seed), "--json"],
        check=True, stdout=subprocess.PIPE)
    result = json.loads(out.stdout)

    def shares(samples):
        return [100 * s["unmovable_2m_ratio"] for s in samples]
    return result, shares(result["kernel"]), shares(result["policies"][0]["samples"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ample", default=ROOT / "target/release/ample")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("prefix", nargs="+")
    args = parser.parse_args()
    print("| recording | events | who | 0 % | 25 % | 50 % | 75 % | end | largest difference |")
    print("|---|---|---|---|---|---|---|---|---|")
    for prefix in args.prefix:
        runs = [replay(args.ample, prefix, seed) for seed in range(1, args.seeds + 1)]
        result, kernel, _ = runs[0]
        model = [statistics.median(values) for values in zip(*(run[2] for run in runs))]
        apart = max(abs(a - b) for a, b in zip(kernel, model))
        events = result["counts"]["page_alloc"] + result["counts"]["page_free"]
        name = pathlib.Path(prefix).name

        def row(shares):
            return " | ".join(f"{shares[i]:.1f}" for i in QUARTERS)
        print(f"| {name} | {events:,} | kernel | {row(kernel)} | |")
        print(f"| | | model | {row(model)} | {apart:.1f} |")


if __name__ == "__main__":
    main()
