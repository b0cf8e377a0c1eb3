#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Takes the pictures of the book, each of a page that `ample` writes from files of this tree.

Usage: screenshots.py AMPLE [FOLDER], which is docs/images unless said.
"""

import os
import subprocess
import sys
import tempfile

from browser import Browser

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
COURSE = os.path.join(ROOT, "kernel/tests/courses/stock-1g-web-1")
WIDTH, HEIGHT = 1000, 700
# Picture, the command that writes its page, and the part of the page that is shown.
PICTURES = {
    "whatif.png": (
        f"whatif --snapshot {COURSE}.third.snap --hours 0.1 --report page.html", "#verdict"
    ),
    "map.png": (None, "#now figure"),
    "fleet.png": ("fleet report snaps --page page.html", "#verdict"),
}
PLACE = """
(() => {{
  const box = document.querySelector('{}').getBoundingClientRect();
  return [box.left, box.top + scrollY, box.width, box.height];
}})()
"""


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    ample = os.path.realpath(sys.argv[1])
    out = os.path.realpath(sys.argv[2] if len(sys.argv) == 3 else os.path.join(ROOT, "docs/images"))
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ample-pages.") as folder, Browser() as browser:
        os.makedirs(os.path.join(folder, "snaps"))
        for name in ("start", "third", "end"):
            os.symlink(f"{COURSE}.{name}.snap", os.path.join(folder, "snaps", f"{name}.snap"))
        browser.set_screen(WIDTH, HEIGHT)
        for picture, (command, part) in PICTURES.items():
            if command:
                subprocess.run(
                    [ample, *command.split()], cwd=folder, check=True, capture_output=True
                )
                problems = browser.open(os.path.join(folder, "page.html"))
                if problems:
                    print(f"{picture}: {'; '.join(problems)}", file=sys.stderr)
                    return 1
            left, top, width, height = browser.evaluate(PLACE.format(part))
            # From the title of the page on where its beginning is shown.
            if part == "#verdict":
                left, height, top, width = 0, min(top + height, HEIGHT), 0, WIDTH
            with open(os.path.join(out, picture), "wb") as file:
                file.write(browser.picture(clip=(left, top, width, height)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
