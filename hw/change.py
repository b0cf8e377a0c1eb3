#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Changes one operator of the hardware: change.py N OF FOLDER changes the one at the N-th of OF
equal parts of the way through all places of FOLDER/ctg_*.sv, and prints FILE:LINE OLD -> NEW."""
import glob
import os
import re
import sys

# The portal and the hash have no state and a test of their own; widths and loops are left alone.
FILES = ("ctg_controller.sv", "ctg_engine.sv", "ctg_redirect.sv", "ctg_slice.sv", "ctg_table.sv")
CHANGES = {"&&": "||", "||": "&&", "==": "!=", "!=": "==", " < ": " >= ", " ? ": " ? !",
           "+ 1'b1": "- 1'b1", "- 1'b1": "+ 1'b1", "(!": "(", " !": " ", "1'b1;": "1'b0;",
           "1'b0;": "1'b1;", " & ~": " & ", " | ": " & "}
PLACE = re.compile("|".join(re.escape(old) for old in CHANGES))


def places(folder):
    """All places: (file, line, column, old)."""
    for path in sorted(glob.glob(f"{folder}/ctg_*.sv")):
        if os.path.basename(path) not in FILES:
            continue
        with open(path, encoding="ascii") as file:
            for number, line in enumerate(file.read().split("\n")):
                code = line.split("//")[0]
                skip = ("parameter", "localparam", "for (", "unused", "input", "output")
                if not any(word in code for word in skip):
                    for match in PLACE.finditer(code):
                        yield path, number, match.start(), match[0]


def main():
    """Changes the place that the arguments say."""
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    nth, parts, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    found = list(places(folder))
    path, number, column, old = found[(2 * nth + 1) * len(found) // (2 * parts)]
    with open(path, encoding="ascii") as file:
        lines = file.read().split("\n")
    line, new = lines[number], CHANGES[old]
    lines[number] = line[:column] + new + line[column + len(old):]
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(lines))
    print(f"{os.path.basename(path)}:{number + 1} '{old}' -> '{new}'  {line.strip()}")


if __name__ == "__main__":
    main()
