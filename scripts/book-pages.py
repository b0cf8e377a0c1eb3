#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the pages of the book that say what the program and the tree say: cli.md from --help,
experiments.md from the experiment files, schemas.md from what commands print, model-*.md from
claims and results; and in the others the blocks that quote a file, each after a comment
`<!-- from: PATH -->`.

Usage: book-pages.py AMPLE [--check], which fails where a page is not as it would be made.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib

import model_pages

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
MADE = "<!-- Made by scripts/book-pages.py (make book-pages). -->"
COURSE = os.path.join(ROOT, "kernel/tests/courses/stock-1g-web-1")
# Commands whose object is shown: what prints it, and how deep it is listed.
OBJECTS = [
    ("ample scan --json", f"scan --snapshot {COURSE}.third.snap --json", 9),
    ("ample scan diff --json", f"scan diff {COURSE}.third.snap {COURSE}.end.snap --json", 9),
    ("ample doctor --json", "doctor --root . --json", 9),
    ("ample whatif --json", f"whatif --snapshot {COURSE}.third.snap --hours 0.05 --json", 3),
    ("ample replay --json", f"replay {COURSE}.trace.zst --policy linux --samples 8 --json", 3),
    ("ample fleet report --json", "fleet report snaps --json", 3),
    ("ample sim --json", "sim --json", 4),
    ("ample sim ID --json", "sim walks --quick --json", 3),
]


def run(ample, arguments, folder=None):
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "100", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [ample, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    # 1 is an answer: the doctor of an empty tree has no page flags.
    if done.returncode > 1:
        raise SystemExit(f"ample {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def help_of(ample, path):
    """The help of a command and the names of what is below it."""
    text = run(ample, [*path, "--help"]).rstrip()
    commands = re.search(r"^Commands:\n((?:  .*\n|\n)+)", text + "\n", re.M)
    names = re.findall(r"^  ([a-z][a-z-]*)", commands[1], re.M) if commands else []
    return text, [name for name in names if name != "help"]


def cli(ample):
    page = [
        "# Every command and option",
        "",
        MADE,
        "",
        "What `--help` says, for the build with `ample fleet`. `-h` gives each option one line.",
        "`ample man DIR` writes the same as manual pages, `ample completions bash` as completions.",
    ]

    def add(path):
        text, below = help_of(ample, path)
        # The release of the engine or of the program is no part of the reference.
        page.extend(["", f"{'##' if len(path) < 2 else '###'} `{' '.join(['ample', *path])}`", ""])
        page.extend(["```text", *(line.rstrip() for line in text.splitlines()), "```"])
        for name in below:
            add([*path, name])

    add([])
    return page


def scalar(value):
    """A parameter in one line, as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {scalar(own)}" for key, own in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list):
        return f"[{', '.join(scalar(own) for own in value)}]"
    return json.dumps(value, ensure_ascii=False)


def short(value):
    text = scalar(value).replace("|", "\\|")
    if isinstance(value, list) and len(text) > 90:
        return f"{len(value)} items"
    return f"`{text}`" if len(text) <= 90 else "a table"


def duration(seconds):
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def experiments(_ample):
    folder = os.path.join(ROOT, "experiments")
    page = [
        "# Experiment files",
        "",
        MADE,
        "",
        "Each experiment is a file `experiments/ID.toml`. `ample sim ID` runs it,",
        "`--set KEY=VALUE` changes a parameter, and the path of a copy runs that instead. In a "
        "copy",
        "only `[experiment] id` and what differs are needed. [The laboratory](lab.md) explains the",
        "fields of `[experiment]`. The time is for two cores at full size; `--quick` takes what",
        "`[quick]` changes.",
    ]
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".toml"):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            content = tomllib.load(file)
        about = content.get("experiment")
        if not about:
            continue
        cost = about.get("cost", {})
        line = f"{about['title']}. Layer *{about['layer']}*"
        if "seconds" in cost:
            line += f", about {duration(cost['seconds'])}"
            line += f", {max(1, round(cost['memory_bytes'] / 2**20))} MiB"
        page += ["", f"## `{about['id']}`", "", *wrapped(line + ".")]
        parameters = content.get("parameters", {})
        if parameters:
            quick = content.get("quick", {})
            page += ["", "| parameter | value | with `--quick` |", "|---|---|---|"]
            for key, value in parameters.items():
                small = short(quick[key]) if key in quick else ""
                page.append(f"| `{key}` | {short(value)} | {small} |")
    page += [
        "",
        "## Files that experiments name",
        "",
        *wrapped(
            "Machines lie in `experiments/machines/` ([a machine of your own]"
            "(translation.md#a-machine-of-your-own)), loads in `experiments/workloads/` "
            "([add a workload](server-model.md#add-a-workload)), fleets in `experiments/fleets/` "
            "([ample fleet](fleet.md)), and the rules of the claims in `experiments/claims.toml` "
            "([claims](claims.md))."
        ),
    ]
    return page


def wrapped(text):
    lines = [""]
    for word in text.split(" "):
        if len(lines[-1]) + len(word) + 1 > 100:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def kind(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else "object"


def fields(value, path, depth, found):
    """Adds each place of an object with the kinds of value that are there."""
    if isinstance(value, dict) and (depth or not path):
        for key, own in value.items():
            fields(own, f"{path}.{key}".lstrip("."), depth - 1, found)
    elif isinstance(value, list):
        if not value:
            found.setdefault(f"{path}[]", set())
        for own in value:
            fields(own, f"{path}[]", depth, found)
    else:
        found.setdefault(path, set()).add(kind(value))


def schemas(ample):
    page = [
        "# Objects that commands print",
        "",
        MADE,
        "",
        *wrapped(
            "With `--json` a command prints one object. Its first field, `schema`, names it and "
            "the version of its form: a field that goes or changes its meaning makes a new "
            "version, one that is added does not. Units are part of the keys, a ratio is 0 to 1, "
            "and what is absent is `null`. The fields below are those of an example from the "
            "tree; `[]` is any place of a list. Every experiment has a schema of its own, "
            "`ample.ID/VERSION`. "
            "`ample watch --json` is told in [ample watch](watch.md#json), the table of a fleet in "
            "[ample fleet](fleet.md#the-table), a snapshot in [ample scan](scan.md#snapshots)."
        ),
    ]
    with tempfile.TemporaryDirectory(prefix="ample-book.") as folder:
        os.makedirs(os.path.join(folder, "proc"))
        os.makedirs(os.path.join(folder, "snaps"))
        for name in ("start", "end"):
            os.symlink(f"{COURSE}.{name}.snap", os.path.join(folder, "snaps", f"{name}.snap"))
        for shown, command, depth in OBJECTS:
            value = json.loads(run(ample, command.split(), folder))
            found = {}
            fields(value, "", depth, found)
            page += ["", f"## `{shown}`: `{value['schema']}`", "", "| field | is |", "|---|---|"]
            for path, kinds in found.items():
                page.append(f"| `{path}` | {', '.join(sorted(kinds)) or 'empty here'} |")
    return page


def quoted(name):
    """A page with the files that it quotes as they are."""
    with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as file:
        page = file.read()

    def block(found):
        with open(os.path.join(ROOT, found[2]), encoding="utf-8") as file:
            return f"{found[1]}{file.read().rstrip().expandtabs(8)}\n```"

    form = r"(<!-- from: (\S+) -->\n\n```[a-z]+\n)(?:.*?\n)??```"
    return re.sub(form, block, page, flags=re.S)


PAGES = {"cli.md": cli, "experiments.md": experiments, "schemas.md": schemas}


def main():
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    ample, stale = os.path.realpath(sys.argv[1]), []
    pages = {name: make(ample) for name, make in PAGES.items()}
    pages |= model_pages.pages(ROOT, MADE, wrapped)
    for name in sorted({*pages, *os.listdir(os.path.join(ROOT, "docs"))}):
        if not name.endswith(".md"):
            continue
        text = "\n".join(pages[name]) + "\n" if name in pages else quoted(name)
        path = os.path.join(ROOT, "docs", name)
        old = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                old = file.read()
        if sys.argv[2:] and old != text:
            stale.append(name)
            pairs = zip(old.splitlines() + [""], text.splitlines() + [""])
            differs = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
            print(f"docs/{name}: {differs[0]!r} would be {differs[1]!r}")
        elif not sys.argv[2:]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    if stale:
        print("run `make book-pages` and commit what it changes")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
