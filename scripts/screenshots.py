#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Takes the pictures of the book, each of a page that `ample` writes from files of this tree.

Usage: screenshots.py AMPLE [FOLDER], which is docs/images unless said.
       screenshots.py AMPLE --check, which takes them all into a folder of its own and fails where
       one cannot be taken, is not in docs/images, or no page of the book shows it.
"""

import os
import re
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


def shown():
    """The pictures that pages of the book show."""
    names = set()
    for page in os.listdir(os.path.join(ROOT, "docs")):
        if page.endswith(".md"):
            with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as file:
                names |= set(re.findall(r"\]\(images/([^)]+)\)", file.read()))
    return names


def check(ample):
    """Takes all pictures anew, and compares which there are with those of the book."""
    with tempfile.TemporaryDirectory(prefix="ample-pictures.") as out:
        code = take(ample, out)
        taken = {name for name in os.listdir(out) if os.path.getsize(os.path.join(out, name))}
    kept, used = set(os.listdir(os.path.join(ROOT, "docs/images"))), shown()
    for name in sorted(taken | kept | used):
        for group, said in ((taken, "cannot be taken"), (kept, "is not in docs/images"),
                            (used, "is shown by no page")):
            if name not in group:
                print(f"{name}: {said}")
                code = 1
    print(f"test result: {'FAILED' if code else 'ok'}. {len(taken)} passed; {int(code > 0)} failed")
    return code


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    ample = os.path.realpath(sys.argv[1])
    if sys.argv[2:] == ["--check"]:
        return check(ample)
    out = os.path.realpath(sys.argv[2] if len(sys.argv) == 3 else os.path.join(ROOT, "docs/images"))
    os.makedirs(out, exist_ok=True)
    return take(ample, out)


def take(ample, out):
    """Takes the pictures into a folder; 1 where a page has a problem."""
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
