#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The dashboard of ample agent against Grafana's own types, as its makers publish them for Python:
read as a dashboard and written again, no field is lost and none changes. So a field that Grafana
does not know is noticed, and one that is a text where it should have parts. Whether the expressions
find series is asked of a real Prometheus by agent-prometheus.py.

usage: build/grafana/bin/python scripts/dashboard-check.py   (scripts/setup.sh test installs it)
"""

import copy
import json
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

DASHBOARD = Path(__file__).resolve().parent.parent / "packaging/grafana/ample.json"


def changes(before, after, where=""):
    """Where two trees differ, in what the first one has."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key in after:
                yield from changes(value, after[key], f"{where}.{key}")
            else:
                yield f"{where}.{key} is unknown"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, (own, other) in enumerate(zip(before, after)):
            yield from changes(own, other, f"{where}[{at}]")
    elif before != after:
        yield f"{where} is {before!r} and becomes {after!r}"


def overlapping(panels):
    """Panels that lie on another or beside the 24 columns of the page."""
    taken = {}
    for panel in panels:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                if taken.setdefault((x, y), panel["id"]) != panel["id"] or x >= 24:
                    yield f"panel {panel['id']} lies on another or beside the page"
                    return


def wrong(dashboard):
    """What Grafana would not take as it is written."""
    try:
        typed = Dashboard.from_json(copy.deepcopy(dashboard))
        again = json.loads(json.dumps(typed, cls=JSONEncoder))
        return list(changes(dashboard, again)) + list(overlapping(dashboard["panels"]))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        return [f"cannot be read: {error}"]


def mistakes(dashboard):
    """Dashboards with one mistake each."""
    for change in (
        lambda own: own["panels"][0].update(titel=own["panels"][0].pop("title")),
        lambda own: own["panels"][0]["gridPos"].update(x="left"),
        lambda own: own["panels"][1]["targets"][0].update(expression="up"),
        lambda own: own["panels"][1]["fieldConfig"]["defaults"].update(units="bytes"),
        lambda own: own["panels"][1].update(gridPos=own["panels"][0]["gridPos"]),
        lambda own: own["templating"].update(list=7),
    ):
        bad = copy.deepcopy(dashboard)
        change(bad)
        yield bad


def main():
    register_default_plugins()
    dashboard = json.loads(DASHBOARD.read_text())
    found = wrong(dashboard)
    for line in found:
        print(f"{DASHBOARD.name}: {line}", file=sys.stderr)
    unnoticed = [at for at, bad in enumerate(mistakes(dashboard)) if not wrong(bad)]
    if unnoticed:
        print(f"dashboard-check.py: mistakes {unnoticed} are not noticed", file=sys.stderr)
    if not found and not unnoticed:
        print(f"{len(dashboard['panels'])} panels are what Grafana reads")
    sys.exit(1 if found or unnoticed else 0)


if __name__ == "__main__":
    main()
