#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Count the lines of the series outside its tests and documentation.

usage: size.py [--json]

A line of code is one that is neither blank nor all comment; help texts of
Kconfig are comment. Hooks are the lines that the patches add to files of Linux,
and the rows of new files have what later patches change in them.
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


def changed(patch):
    """Lines that a patch adds, and takes away, by file."""
    files, name = {}, ""
    for line in patch.read_text().partition("\n---\n")[2].splitlines():
        if line.startswith("+++ "):
            name = line[6:]
        elif line[:1] in "+-" and line and not line.startswith("--- "):
            files.setdefault(name, ([], []))[line[0] == "-"].append(line[1:])
    return files


def is_test(name):
    return name.startswith(("Documentation/", "tools/")) or name.endswith("_test.c")


def without_help(text):
    """Kconfig without its help texts and without the entry of the tests."""
    text = re.sub(r"config \w+_KUNIT_TEST\n(.*\n)*?(?=config|$)", "", text)
    return re.sub(r"\thelp\n((\t  .*)?\n)*", "", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--core", action="store_true", help="of the first patches alone")
    args = parser.parse_args()
    rows, hooks = {}, [0, 0]
    names = "01*.patch" if args.core else "*.patch"
    # those of every release, and of the first alone
    patches = [p for of in ("patches", "patches-6.12") for p in (KERNEL / of).glob(names)]
    for patch in sorted(patches, key=lambda patch: patch.name):
        for name in re.findall(r"^Adds: (.*)$", patch.read_text(), re.M):
            if not is_test(name):
                rows[name] = count((KERNEL / "src" / name).read_text())
        for name, (plus, minus) in changed(patch).items():
            texts = ["\n".join(lines) + "\n" for lines in (plus, minus)]
            if name.endswith("Kconfig"):
                texts = list(map(without_help, texts))
            plus, minus = map(count, texts)
            if name in rows:
                rows[name] = tuple(n + p - m for n, p, m in zip(rows[name], plus, minus))
            elif not is_test(name):
                hooks = [n + p for n, p in zip(hooks, plus)]
    rows["hooks"] = tuple(hooks)
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
