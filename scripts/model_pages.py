# SPDX-License-Identifier: MIT OR Apache-2.0
"""One page a model: what it was calibrated on, what it predicts with which error, and how much its
headlines hang on each number that was fitted or chosen. From experiments/claims.toml,
results/verdicts.json and results/data, for book-pages.py."""

import json
import os
import re
import tomllib

# A model: page, heading, what it is, its experiments in the order of the page, and the records of
# its tornado charts.
MODELS = [
    (
        "model-server.md",
        "The server model, judged",
        "[The server model](server-model.md) simulates the page allocator of a server under a "
        "workload.",
        ["fig11", "fleet-model", "fig12", "fig10", "denied-blocks", "segment-compaction"],
        ["server-sensitivity", "gain-sensitivity"],
    ),
    (
        "model-translation.md",
        "The translation model, judged",
        "[The translation model](translation.md) simulates TLBs, page walks and caches under a "
        "program's accesses.",
        ["walks", "directseg", "footprint", "segments", "perforated", "perforated-programs",
         "perforated-storage"],
        ["translation-sensitivity", "service-sensitivity"],
    ),
    (
        "model-hardware.md",
        "The migration hardware, judged",
        "[The migration hardware](contiguitas-hw.md) is a protocol, a timed machine that runs it, "
        "and a slice in SystemVerilog.",
        ["hw-losses", "hw-unavailable", "hw-hugepages", "hw-rtl"],
        [],
    ),
]
VERDICTS = {
    "calibrated": "calibrated",
    "holds": "holds",
    "misses": "**misses**",
    "context": "shown",
}


def number(value):
    """Three digits, as a person would write them."""
    if value is None:
        return ""
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.2e}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def spread(spread):
    """A mean with the ends of its 95 % interval, or with its range where there is none."""
    if isinstance(spread, dict):
        if spread.get("plus_minus") is not None:
            return f"{number(spread['value'])} ± {number(spread['plus_minus'])}"
        return f"{number(spread['value'])} ({number(spread['low'])} to {number(spread['high'])})"
    return number(spread) if isinstance(spread, (int, float)) else str(spread)


def records(root):
    """The results by their names."""
    found = {}
    for folder, _, names in os.walk(os.path.join(root, "results", "data")):
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                record = json.load(file)
            if isinstance(record, dict) and record.get("schema") == "ample.result/1":
                found[record["id"]] = record
    return found


def error(here, paper):
    """Ours against the paper's, in per cent of the paper's."""
    if paper in (None, 0) or len(here) != 1 or not isinstance(here[0], (int, float)):
        return ""
    percent = round(100 * (here[0] - paper) / abs(paper))
    return f"{percent:+d} %" if percent else "0 %"


def shown(here):
    if all(isinstance(value, (int, float)) for value in here) and len(here) <= 4:
        return ", ".join(number(value) for value in here)
    if len(here) > 4 and all(isinstance(value, (int, float)) for value in here):
        return f"{number(min(here))} to {number(max(here))} ({len(here)} values)"
    return ", ".join(str(value) for value in here)


def is_row(record, row, wanted):
    """Whether a row of a record is the one with these values in the experiment's result."""
    for key, value in wanted.items():
        places = [at for at, column in enumerate(record["columns"]) if column.get("from") == key]
        if not places:
            return False
        texts = record["columns"][places[0]].get("texts", {})
        cell = row[places[0]]
        value = {"true": "yes", "false": "no"}.get(value, value)
        same = str(cell) == str(texts.get(value, value))
        if not same and isinstance(cell, (int, float)):
            same = re.fullmatch(r"[\d.]+", value) and float(value) == cell
        if not same:
            return False
    return True


def interval(check, judged, results):
    """The interval of a check's value over the seeds, where the verdict or a table of results has
    it: the least and the greatest, or half of a 95 % interval."""
    if "interval" in judged:
        return "{} to {}".format(*map(number, judged["interval"]))
    place = re.fullmatch(r"(\w+)\[(.*?=.*?)\]\.(.+)", str(check["at"]))
    if not place or "pick" in check or "over" in check:
        return ""
    name, selectors, tail = place.groups()
    wanted = {key: value.strip('"') for key, value in
              re.findall(r'(\w+)=("[^"]*"|[^,]*)', selectors)}
    tail = re.sub(r"\[(\d+)\]", r".\1", tail)
    for record in results.values():
        own = record["command"] == f"ample sim {check['experiment']}"
        if not own or record.get("list") != name:
            continue
        for at, column in enumerate(record["columns"]):
            made_of = column.get("from")
            if not isinstance(made_of, dict) or made_of.get("value") != tail:
                continue
            where = column.get("where", {})
            if any(wanted.get(key) != value for key, value in where.items()):
                continue
            keys = {key: value for key, value in wanted.items() if key not in where}
            rows = [row for row in record["rows"] if is_row(record, row, keys)]
            if len(rows) == 1 and isinstance(rows[0][at], dict):
                return ends(rows[0][at], column.get("scale", 1.0))
    return ""


def ends(cell, scale):
    if cell.get("plus_minus") is not None:
        return f"± {number(cell['plus_minus'] / scale)}"
    if cell.get("low") is None:
        return ""
    return f"{number(cell['low'] / scale)} to {number(cell['high'] / scale)}"


def error_interval(judged, paper):
    """The ends of the error, where those of the value are known."""
    if paper in (None, 0) or "interval" not in judged:
        return ""
    low, high = (round(100 * (end - paper) / abs(paper)) for end in judged["interval"])
    return f" ({low:+d} to {high:+d} %)" if low != high else ""


def checks(claims, verdicts, experiments, fitted, results):
    """Rows of the claims' checks: those that were fitted to, or the others."""
    rows = []
    order = {name: at for at, name in enumerate(experiments)}
    for claim in claims:
        for check in claim.get("check", []):
            judged = verdicts.get(claim["id"], {}).get(check["name"])
            if check["experiment"] not in order or judged is None:
                continue
            if bool(check.get("fitted")) != fitted or claim["kind"] == "parameter" and not fitted:
                continue
            unit = f" {check['unit']}" if check.get("unit") else ""
            rows.append((order[check["experiment"]], [
                f"`{claim['id']}`: {check['name']}",
                number(check.get("paper")) + (unit if "paper" in check else ""),
                shown(judged["here"]) + unit,
                interval(check, judged, results),
                error(judged["here"], check.get("paper"))
                + error_interval(judged, check.get("paper")),
                VERDICTS.get(judged["verdict"], judged["verdict"]),
                f"`{check['experiment']}`",
            ]))
    return [row for _, row in sorted(rows, key=lambda row: row[0])]


def table(heads, rows):
    return ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads),
            *("| " + " | ".join(row) + " |" for row in rows)]


def tally(rows):
    count = {}
    for row in rows:
        count[row[5].strip("*")] = count.get(row[5].strip("*"), 0) + 1
    return ", ".join(f"{value} {name}" for name, value in count.items())


def sensitivity(record, heading, wrapped):
    """The tornado of a record as tables, the widest number first."""
    page = ["", f"## {heading}", "", *wrapped(record["what"]), ""]
    heads = ["number", "as it is", "÷ 1.25", "× 1.25"]
    keys = [column["key"] for column in record["columns"]]
    at = {key: keys.index(key) for key in ("quantity", "number", "value", "less", "more")}
    groups = {}
    for row in record["rows"]:
        under = f"{row[keys.index('policy')]}: " if "policy" in keys else ""
        groups.setdefault(under + row[at["quantity"]], []).append(row)

    def width(row):
        ends = [row[at[key]] for key in ("less", "more")]
        ends = [end["value"] if isinstance(end, dict) else end for end in ends]
        return -max(abs(end) for end in ends)

    unchanged = [name for name, rows in groups.items() if not any(map(width, rows))]
    for name, rows in groups.items():
        if name in unchanged:
            continue
        page += [f"### {name[0].upper()}{name[1:]}", ""]
        page += table(heads, [
            [row[at["number"]], *(spread(row[at[key]]) for key in ("value", "less", "more"))]
            for row in sorted(rows, key=width)
        ])
        page.append("")
    if unchanged:
        page += wrapped(f"Changed by none of them: {', '.join(unchanged)}.") + [""]
    is_shown = record.get("figure", {}).get("kind") == "tornado"
    shown = f"; one of them stands in `results/{record['layer']}.md`" if is_shown else ""
    page += wrapped(
        f"In per cent, changes in points. Made by `{record['command']}`, seeds "
        f"{', '.join(map(str, record['seeds']))}, which draws the tornado charts with `--figure "
        f"FILE.svg`{shown}.")
    page.append("")
    for note in record["notes"]:
        page += wrapped(note) + [""]
    return page[:-1]


def pages(root, made, wrapped):
    """The lines of each page, by its name."""
    with open(os.path.join(root, "experiments/claims.toml"), "rb") as file:
        claims = tomllib.load(file)["claim"]
    with open(os.path.join(root, "results/verdicts.json"), encoding="utf-8") as file:
        verdicts = json.load(file)["full"]
    results = records(root)
    heads = ["claim and value", "paper", "here", "interval", "error", "verdict", "experiment"]
    found = {}
    for name, heading, what, experiments, tornadoes in MODELS:
        fitted = checks(claims, verdicts, experiments, True, results)
        predicted = checks(claims, verdicts, experiments, False, results)
        page = [f"# {heading}", "", made, "", *wrapped(
            f"{what} This page has what it was calibrated on, what it predicts, and the error of "
            "each. Values come from the full run that `ample reproduce` accepted; a claim's rule "
            "and its place are in `experiments/claims.toml` ([claims](claims.md)). An interval is "
            "that of the seeds, least to greatest or ± half of a 95 % interval; that of a fleet is "
            "the 95 % interval over its histories. It is empty where nothing is random, or where a "
            "value is taken from many rows (the tables of `results/` have theirs)."), ""]
        if fitted:
            page += ["## Calibrated on", "", *wrapped(
                f"Checks: {len(fitted)} ({tally(fitted)}). All on the baseline: none on a result "
                "of Contiguitas, of segments or of perforated pages."), ""]
            page += table(heads, fitted) + [""]
        else:
            page += ["Nothing was calibrated on a result of the paper.", ""]
        page += ["## Predicts", "", f"Checks: {len(predicted)} ({tally(predicted)}).", ""]
        page += table(heads, predicted)
        found_records = [results[own] for own in tornadoes if own in results]
        for at, record in enumerate(found_records):
            page += sensitivity(record, record["title"] if at else "What each number is worth",
                                wrapped)
        found[name] = page
    return found
