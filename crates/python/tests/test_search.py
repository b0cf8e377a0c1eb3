# SPDX-License-Identifier: MIT OR Apache-2.0
"""The search: the same front wherever it runs, nothing on it beaten, judged on the unseen."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import ample.search
from ample.search import DEFAULTS, OBJECTIVES, SPACE, Task, search

SMALL = {
    "memory_gb": 0.125,
    "hours": 0.02,
    "train": ("web",),
    "held_out": ("ci",),
    "seeds": (1,),
    "held_out_seeds": (2, 3),
    "batch": 4,
}


def test_the_same_front_on_any_number_of_workers() -> None:
    def shuffled(tasks: Iterable[Task]) -> Iterator[tuple[Task, dict[str, float]]]:
        todo = list(tasks)
        random.Random(1).shuffle(todo)
        return ((task, ample.search.evaluate(task)) for task in todo)

    found = search(8, **SMALL)  # type: ignore[arg-type]
    again = search(8, **SMALL, evaluate_all=shuffled)  # type: ignore[arg-type]
    assert asdict(found) == asdict(again)
    assert found.trials == 8 and found.defaults.resize == DEFAULTS
    for one in [found.defaults, *found.front]:
        assert set(one.held_out) == set(OBJECTIVES)
        for name, (least, most, _) in SPACE.items():
            assert least <= one.resize[name] <= most
    assert all(value["difference"] == 0 for value in found.defaults.held_out.values())


def test_a_front_of_a_known_shape() -> None:
    """With objectives in closed form the front is what a search of all pairs finds."""

    def known(tasks: Iterable[Task]) -> Iterator[tuple[Task, dict[str, float]]]:
        for task in tasks:
            resize = dict(task.resize)
            x, y = resize["c_ue_milli"], resize["c_us_milli"]
            yield task, dict(zip(OBJECTIVES, (float(x), 1000.0 / x, float(y), float(y))))

    found = search(64, **SMALL, evaluate_all=known)  # type: ignore[arg-type]
    points = [tuple(one.train[name] for name in OBJECTIVES) for one in found.front]
    for one in points:
        for other in points:
            assert one == other or any(a < b for a, b in zip(one, other))
    assert min(point[2] for point in points) <= 1.0


def test_the_command_writes_it(tmp_path: Path) -> None:
    out = tmp_path / "search.json"
    arguments = ["--trials", "2", "--memory-gb", "0.125", "--hours", "0.02", "--out", str(out)]
    assert ample.search.main(arguments) == 0
    found = json.loads(out.read_text())
    assert found["schema"] == "ample.search/1" and found["trials"] == 2
    assert ample.search.main(["--trials", "0"]) == 2


def test_the_defaults_are_those_of_the_model() -> None:
    size = {"memory_gb": 0.125, "hours": 0.05, "sample_every_s": 60}
    plain = ample.simulate("storm", "contiguitas", **size, resize={})  # type: ignore[arg-type]
    given = ample.simulate(
        "storm", "contiguitas", **size, resize=DEFAULTS  # type: ignore[arg-type]
    )
    assert plain == given
