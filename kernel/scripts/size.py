#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Count the lines of the series outside its tests and documentation.

usage: size.py [--json]

A line of code is one that is neither blank nor all comment. Hooks are the
lines that the patches add to files of Linux.
"""
import argparse
import json
import pathlib
import re

KERNEL = pathlib.Path(__file__).resolve().parents[1]


def count(text):
    """(all lines, lines of code) of C, Kconfig or make source."""
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    code = re.sub(r"^\s*(//|#(?!\s*(if|else|endif|define|include|undef))).*", "", code,
                  flags=re.M)
    return len(text.splitlines()), sum(1 for line in code.splitlines() if line.strip())


def added(patch):
    """Lines that a patch adds, without those to documentation."""
    lines, name = [], ""
    for line in patch.read_text().splitlines():
        if line.startswith("+++ "):
            name = line[6:]
        elif line.startswith("+") and not name.startswith("Documentation/"):
            lines.append(line[1:])
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = {}
    for path in sorted((KERNEL / "src").rglob("*.[ch]")):
        if not path.stem.endswith("_test"):
            rows[str(path.relative_to(KERNEL / "src"))] = count(path.read_text())
    rows["hooks"] = count("\n".join(map(added, sorted((KERNEL / "patches").glob("*.patch")))))
    rows["total"] = tuple(map(sum, zip(*rows.values())))
    if args.json:
        print(json.dumps({"schema": "ample.kernel-size/1", "files": {
            name: {"lines": lines, "code_lines": code} for name, (lines, code) in rows.items()}}))
        return
    print(f"{'file':<40} {'lines':>6} {'code':>6}")
    for name, (lines, code) in rows.items():
        print(f"{name:<40} {lines:>6} {code:>6}")


if __name__ == "__main__":
    main()
