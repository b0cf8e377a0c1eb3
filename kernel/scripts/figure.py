#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Draw the unmovable share of 2 MB blocks from the results of bench.py.

usage: figure.py RESULTS.json OUT.svg

One group of bars a guest and workload, one bar a kernel: the median over its
seeds, with a line from the least to the greatest. The tick at a quarter of
stock's bar is what ample is to stay below wherever stock exceeds 15 %.
"""
import json
import pathlib
import statistics
import sys

COLOURS = {"stock": "#b5483a", "kernelcore": "#c9a03c", "ample": "#2f6f8f"}
BAR, GAP, HEIGHT, TOP, LEFT = 16, 26, 220, 40, 46


def shares(path):
    """{(mem, workload): {config: [percent, ...]}} in the order of the file."""
    found = {}
    for run in json.loads(pathlib.Path(path).read_text()):
        if run["figures"]:
            group = found.setdefault((run["mem"], run["workload"]), {})
            group.setdefault(run["config"], []).append(run["figures"]["unmovable_share_pct"])
    return found


def text(x, y, what, anchor="middle", size=11):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
            f'font-family="sans-serif">{what}</text>')


def draw(found):
    """The lines of the SVG."""
    top = max(max(values) for group in found.values() for values in group.values())
    scale = HEIGHT / (5 * (top // 5 + 1))
    floor, x, out = TOP + HEIGHT, LEFT + GAP / 2, []
    for tick in range(0, int(HEIGHT / scale) + 1, 10):
        y = floor - tick * scale
        out.append(f'<path d="M{LEFT} {y:.1f}H9999" stroke="#ddd"/>')
        out.append(text(LEFT - 6, y + 4, f"{tick} %", "end"))
    for (mem, workload), group in found.items():
        middle = x + BAR * len(group) / 2
        for config, values in group.items():
            mid = statistics.median(values)
            out.append(f'<rect x="{x:.1f}" y="{floor - mid * scale:.1f}" width="{BAR - 2}" '
                       f'height="{mid * scale:.1f}" fill="{COLOURS[config]}"/>')
            out.append(f'<path d="M{x + BAR / 2 - 1:.1f} {floor - min(values) * scale:.1f}'
                       f'V{floor - max(values) * scale:.1f}" stroke="#000"/>')
            x += BAR
        stock = statistics.median(group.get("stock", [0]))
        if stock > 15:
            y = floor - stock / 4 * scale
            out.append(f'<path d="M{x - BAR * len(group):.1f} {y:.1f}H{x:.1f}" stroke="#000" '
                       'stroke-dasharray="3 2"/>')
        out.append(text(middle, floor + 15, workload) + text(middle, floor + 29, mem, size=10))
        x += GAP
    for i, (config, colour) in enumerate(COLOURS.items()):
        out.append(f'<rect x="{LEFT + i * 110}" y="20" width="10" height="10" fill="{colour}"/>')
        out.append(text(LEFT + i * 110 + 14, 29, config, "start"))
    out.append(text(LEFT, 13, "2 MB blocks with an unmovable page; dashed: a quarter of stock",
                    "start"))
    width = max(x, LEFT + 400)
    return [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
            f'height="{floor + 40}"><rect width="100%" height="100%" fill="#fff"/>',
            *out, "</svg>"]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    found = shares(sys.argv[1])
    if not found:
        sys.exit(f"figure.py: {sys.argv[1]} holds no finished run; see bench.py")
    pathlib.Path(sys.argv[2]).write_text("\n".join(draw(found)) + "\n")


if __name__ == "__main__":
    main()
