#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Looks at every kind of page that `ample` writes in a headless Chromium: no request to anywhere,
no error of the script, nothing that axe-core finds in light or dark, no overflow at 360 px and on
paper, no word of a card broken, the verdict first, values as text, and charts that answer the
keyboard.

Usage: pages-check.py AMPLE [--pictures DIR], which also writes what it has seen.
"""

import os
import subprocess
import sys
import tempfile

from browser import Browser

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
AXE = os.path.join(ROOT, "build/axe/axe.min.js")
COURSE = os.path.join(ROOT, "kernel/tests/courses/stock-1g-web-1")
# Each page and the command that writes it; "verdict" says that it begins with an answer.
PAGES = {
    "whatif.html": ("verdict", f"whatif --snapshot {COURSE}.third.snap --hours 0.1 --report {{}}"),
    "fleet.html": ("verdict", "fleet report snaps --page {}"),
    "reproduce/index.html": ("verdict", "reproduce walks fig11 --quick --out reproduce"),
    "steps.html": ("figures", "sim hw-steps --quick --figure {}"),
}
# Window and medium: screens of two widths, and A4 less the margins of a printer.
SIGHTS = {
    "light-1280": (1280, 900, "light", ""),
    "dark-360": (360, 800, "dark", ""),
    "light-360": (360, 800, "light", ""),
    "dark-1280": (1280, 900, "dark", ""),
    "print-717": (717, 1000, "light", "print"),
}

OVERFLOW = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"
# Words in large type that lie on more than one line.
BROKEN = """
[...document.querySelectorAll('h1, h2, .card b, .verdict')].flatMap((node) => {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT), broken = [];
  while (walker.nextNode()) {
    for (const found of walker.currentNode.data.matchAll(/[^\\s-–/]+/g)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, found.index);
      range.setEnd(walker.currentNode, found.index + found[0].length);
      const tops = new Set([...range.getClientRects()].map((own) => Math.round(own.top)));
      if (tops.size > 1) broken.push(found[0]);
    }
  }
  return broken;
})
"""
# Sentences of tables that a reader has to scroll to the side within.
CUT = """
[...document.querySelectorAll('td.long')].filter((cell) =>
  cell.getClientRects().length && cell.cellIndex < 2
  && cell.getBoundingClientRect().right > innerWidth).map((cell) => cell.textContent.slice(0, 40))
"""
# Whether what scrolls cuts off the ring around what has the focus.
RING = """
(() => {
  const node = document.activeElement, style = getComputedStyle(node);
  const outer = node.closest('.scroll, .drawn').getBoundingClientRect();
  const own = node.getBoundingClientRect();
  const ring = parseFloat(style.outlineOffset) + parseFloat(style.outlineWidth);
  return parseFloat(style.outlineWidth) < 1 || own.top - ring < outer.top
    || own.left - ring < outer.left;
})()
"""
FINDINGS = """
axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations.map((own) =>
  `${own.id}: ${own.help}: `
    + own.nodes.map((node) => node.target.join(' ')).slice(0, 3).join('; ')))
"""
VERDICT = """
(() => {
  const first = document.querySelector('main section');
  return first && first.children[1] ? first.children[1].className : '';
})()
"""
# Charts that draw values, and those among them without a table of the values.
CHARTS = "document.querySelectorAll('figure svg[data-at]').length"
WITHOUT = """
[...document.querySelectorAll('figure svg[data-at]')].filter((svg) =>
  !svg.closest('figure').querySelector('details td')).length
"""


def keyboard(browser):
    """What a reader without a pointer cannot do."""
    problems = []
    kinds = browser.evaluate(
        "['svg[data-at]', 'svg[data-map]'].filter((own) => document.querySelector(own))"
    )
    for kind in kinds:
        browser.evaluate(f"document.querySelector('{kind}').focus()")
        said = []
        for _ in range(2):
            browser.press("ArrowRight")
            said.append(browser.evaluate("document.querySelector('.tip').textContent"))
        if not all(said):
            problems.append(f"{kind} does not answer the arrow keys")
        if browser.evaluate("document.querySelector('.tip').hidden"):
            problems.append(f"{kind} shows no value at the arrow keys")
        if browser.evaluate("document.querySelector('.spoken').textContent") != said[-1]:
            problems.append(f"{kind} does not say what the arrow keys choose")
        if browser.evaluate(RING):
            problems.append(f"{kind} has a ring of the focus that is cut off")
        browser.press("Escape")
        if not browser.evaluate("document.querySelector('.tip').hidden"):
            problems.append("Escape does not take the value away")
    if browser.evaluate("Boolean(document.querySelector('thead th'))"):
        browser.evaluate("document.querySelector('thead th').focus()")
        browser.press("Enter")
        if browser.evaluate(RING):
            problems.append("a heading has a ring of the focus that is cut off")
        if not browser.evaluate("document.querySelector('thead th').ariaSort"):
            problems.append("a table does not sort by the keyboard")
    return problems


def look(browser, path, begins, pictures):
    """Everything that is wrong with one page, each with how it was looked at."""
    with open(AXE, encoding="utf-8") as file:
        axe = file.read()
    problems = []
    for sight, (width, height, scheme, media) in SIGHTS.items():
        browser.set_screen(width, height, scheme, media)
        found = browser.open(path)
        over = browser.evaluate(OVERFLOW) - width
        if over > 0:
            found.append(f"{over} px wider than the window")
        found += [f"the word {word!r} is broken" for word in browser.evaluate(BROKEN)]
        found += [f"a reader scrolls for {cell!r}" for cell in browser.evaluate(CUT)]
        if not media:
            browser.evaluate(axe + "; 0")
            found += browser.evaluate(FINDINGS)
        if sight == "light-1280":
            first = browser.evaluate(VERDICT)
            if begins == "verdict" and first != "verdict":
                found.append(f"begins with {first!r} and not with the verdict")
            found += keyboard(browser)
        problems += [f"{sight}: {own}" for own in found]
        if pictures:
            name = os.path.basename(os.path.dirname(path) + "-" + os.path.basename(path))
            with open(os.path.join(pictures, f"{name}.{sight}.png"), "wb") as file:
                file.write(browser.picture(whole=True))
    if pictures:
        with open(os.path.join(pictures, f"{name}.pdf"), "wb") as file:
            file.write(browser.paper())
    without = browser.evaluate(WITHOUT)
    if without:
        problems.append(f"{without} of {browser.evaluate(CHARTS)} charts have no values as text")
    browser.set_screen(1280, 900)
    problems += [f"without script: {own}" for own in browser.open(path, script=False)]
    return problems


def main():
    if len(sys.argv) not in (2, 4):
        print(__doc__, file=sys.stderr)
        return 2
    ample = os.path.realpath(sys.argv[1])
    pictures = os.path.realpath(sys.argv[3]) if len(sys.argv) == 4 else None
    if pictures:
        os.makedirs(pictures, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="ample-pages.") as folder, Browser() as browser:
        os.makedirs(os.path.join(folder, "snaps"))
        for name in ("start", "third", "end"):
            os.symlink(f"{COURSE}.{name}.snap", os.path.join(folder, "snaps", f"{name}.snap"))
        for page, (begins, command) in PAGES.items():
            done = subprocess.run(
                [ample, *command.format(page).split()], cwd=folder, capture_output=True, text=True
            )
            if done.returncode > 1:
                print(f"{page}: ample {command}: {done.stderr}")
                failed += 1
                continue
            problems = look(browser, os.path.join(folder, page), begins, pictures)
            failed += bool(problems)
            for problem in problems:
                print(f"{page}: {problem}")
    state = "FAILED" if failed else "ok"
    print(f"test result: {state}. {len(PAGES) - failed} passed; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
