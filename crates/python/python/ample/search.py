# SPDX-License-Identifier: MIT OR Apache-2.0
"""Search of the tunables of Algorithm 1, which the paper leaves as future work (§3.2).

Optuna proposes batches of settings. Each runs on every workload of `TRAIN` with every seed, on this
machine's cores or as tasks of Ray. Four quantities are made small at once: memory that cannot
become huge, waiting of kernel and of user memory, and pages moved. What comes out is the front:
settings that no other one beats in all four. They are judged on workloads that the search has not
seen, seed by seed beside the defaults.

    python -m ample.search --trials 128 --out search.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Optional

from . import AmpleError, simulate

# Smallest, largest, and whether the logarithm is drawn. The ranges go a factor of ten and more
# around the defaults, and to 0 where a term may be left out.
SPACE: dict[str, tuple[int, int, bool]] = {
    "threshold_unmov_bp": (5, 1000, True),
    "threshold_mov_bp": (50, 5000, True),
    "c_ue_milli": (1, 1000, True),
    "c_me_milli": (0, 50, False),
    "c_us_milli": (0, 50, False),
    "c_ms_milli": (1, 1000, True),
}
DEFAULTS: dict[str, int] = {
    "threshold_unmov_bp": 50,
    "threshold_mov_bp": 1000,
    "c_ue_milli": 50,
    "c_me_milli": 0,
    "c_us_milli": 1,
    "c_ms_milli": 20,
}
OBJECTIVES = (
    "unmovable_2m_ratio",
    "stall_unmovable_ms_per_h",
    "stall_movable_ms_per_h",
    "migrated_pages_per_h",
)
# On each side two servers as they are and one with floods, and loads that ask something of the
# border: pins and traffic in steps here, swap and files written faster than storage there.
TRAIN = ("web", "ci", "storm", "pinning", "steps")
HELD_OUT = ("cache-a", "cache-b", "thrash", "swapping", "writing")


class Task(NamedTuple):
    """One run: what is simulated, and under which settings."""

    workload: str
    seed: int
    memory_gb: float
    hours: float
    resize: tuple[tuple[str, int], ...]


@dataclass
class Setting:
    """Settings, their means over the runs of the search, and how they do on what was held out."""

    resize: dict[str, int]
    train: dict[str, float]
    held_out: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass
class Search:
    """What was searched with, the defaults, and the front."""

    trials: int
    seed: int
    memory_gb: float
    hours: float
    train: Sequence[str]
    held_out: Sequence[str]
    seeds: Sequence[int]
    held_out_seeds: Sequence[int]
    defaults: Setting
    front: list[Setting]
    better_in_all: int


Evaluate = Callable[[Iterable[Task]], Iterator[tuple[Task, dict[str, float]]]]


def evaluate(task: Task) -> dict[str, float]:
    """The objectives of one run: shares as means over the second half, the rest by the hour."""
    run = simulate(
        task.workload,
        "contiguitas",
        memory_gb=task.memory_gb,
        hours=task.hours,
        seed=task.seed,
        sample_every_s=60,
        resize=dict(task.resize),
    )
    samples = run["samples"]
    second_half = samples[len(samples) // 2 :]
    counters = run["counters"]
    return {
        "unmovable_2m_ratio": statistics.fmean(s["unmovable_2m_ratio"] for s in second_half),
        "stall_unmovable_ms_per_h": run["stall_unmovable_ns"] / 1e6 / task.hours,
        "stall_movable_ms_per_h": run["stall_movable_ns"] / 1e6 / task.hours,
        "migrated_pages_per_h": counters["migrated_pages"] / task.hours,
    }


def on_threads(tasks: Iterable[Task]) -> Iterator[tuple[Task, dict[str, float]]]:
    """Runs tasks on the cores of this machine; the model runs without the interpreter's lock."""
    todo = list(tasks)
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        yield from zip(todo, pool.map(evaluate, todo))


def on_ray(tasks: Iterable[Task]) -> Iterator[tuple[Task, dict[str, float]]]:
    """Runs tasks on the machines of a Ray cluster."""
    from .spread import spread

    return spread(evaluate, tasks)


def start_ray() -> None:
    """Joins the Ray cluster that the environment names, or starts one on this machine."""
    # A node needs a while to start on a machine with other work.
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")
    try:
        import ray
    except ImportError as error:
        raise AmpleError("ray is not installed; pip install ray") from error
    try:
        ray.init(log_to_driver=False)
    except Exception as error:
        raise AmpleError(f"Ray does not start: {error}") from error


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.fmean(row[name] for row in rows) for name in OBJECTIVES}


def _beats(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    no_worse = all(one[name] <= other[name] for name in OBJECTIVES)
    return no_worse and any(one[name] < other[name] for name in OBJECTIVES)


class _Judge:
    """Runs settings on workloads and seeds, batch by batch, each pair once."""

    def __init__(self, memory_gb: float, hours: float, evaluate_all: Evaluate) -> None:
        self.size = (memory_gb, hours)
        self.evaluate_all = evaluate_all
        self.known: dict[Task, dict[str, float]] = {}

    def tasks(
        self, resize: Mapping[str, int], workloads: Sequence[str], seeds: Sequence[int]
    ) -> list[Task]:
        fixed = tuple(sorted(resize.items()))
        pairs = [(workload, seed) for workload in workloads for seed in seeds]
        return [Task(workload, seed, *self.size, fixed) for workload, seed in pairs]

    def run(self, tasks: Iterable[Task]) -> None:
        missing = [task for task in dict.fromkeys(tasks) if task not in self.known]
        self.known.update(self.evaluate_all(missing))

    def found(self, tasks: Sequence[Task]) -> list[dict[str, float]]:
        return [self.known[task] for task in tasks]


def _propose(study: Any, count: int) -> list[tuple[Any, dict[str, int]]]:
    batch = []
    for _ in range(count):
        trial = study.ask()
        space = SPACE.items()
        batch.append(
            (trial, {name: trial.suggest_int(name, a, b, log=log) for name, (a, b, log) in space})
        )
    return batch


def _paired(
    own: Sequence[Mapping[str, float]], others: Sequence[Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Means of both, the difference seed by seed, and its standard error."""
    compared = {}
    for name in OBJECTIVES:
        differences = [a[name] - b[name] for a, b in zip(own, others)]
        spread = statistics.stdev(differences) if len(differences) > 1 else 0.0
        compared[name] = {
            "mean": statistics.fmean(row[name] for row in own),
            "defaults": statistics.fmean(row[name] for row in others),
            "difference": statistics.fmean(differences),
            "standard_error": spread / len(differences) ** 0.5,
            "better_runs": float(sum(d < 0 for d in differences)),
            "worse_runs": float(sum(d > 0 for d in differences)),
        }
    return compared


def search(
    trials: int = 128,
    *,
    seed: int = 1,
    memory_gb: float = 2,
    hours: float = 0.5,
    train: Sequence[str] = TRAIN,
    held_out: Sequence[str] = HELD_OUT,
    seeds: Sequence[int] = (1, 2, 3),
    held_out_seeds: Sequence[int] = (11, 12, 13, 14, 15),
    batch: int = 16,
    evaluate_all: Evaluate = on_threads,
    progress: Optional[Callable[[float], object]] = None,
) -> Search:
    """Searches, and judges the front on what was held out.

    The same arguments give the same front wherever the runs are made: a batch is proposed as a
    whole and told in its order.
    """
    if trials < 1 or batch < 1 or not train or not held_out:
        raise AmpleError("give at least one trial, a batch of one, and workloads for both sides")
    if overlap := set(train) & set(held_out):
        raise AmpleError(f"{', '.join(sorted(overlap))} would be judged on what it was fitted to")
    try:
        import optuna
    except ImportError as error:
        raise AmpleError("optuna is not installed; pip install optuna") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.NSGAIISampler(seed=seed, population_size=batch)
    study = optuna.create_study(directions=["minimize"] * len(OBJECTIVES), sampler=sampler)
    study.enqueue_trial(DEFAULTS)
    judge = _Judge(memory_gb, hours, evaluate_all)
    means: dict[tuple[tuple[str, int], ...], Setting] = {}
    done = 0
    while done < trials:
        proposed = _propose(study, min(batch, trials - done))
        judge.run(task for _, resize in proposed for task in judge.tasks(resize, train, seeds))
        for trial, resize in proposed:
            mean = _mean(judge.found(judge.tasks(resize, train, seeds)))
            study.tell(trial, [mean[name] for name in OBJECTIVES])
            means[tuple(sorted(resize.items()))] = Setting(resize, mean)
        done += len(proposed)
        if progress is not None:
            progress(done / trials)
    settings = list(means.values())
    defaults = means[tuple(sorted(DEFAULTS.items()))]
    front = [
        one for one in settings if not any(_beats(other.train, one.train) for other in settings)
    ]
    front.sort(key=lambda one: [one.train[name] for name in OBJECTIVES])
    # Judging takes what is at least as good as the defaults in all that was searched for, if there
    # is any: the rest of the front trades one quantity for another.
    better = [one for one in front if _beats(one.train, defaults.train)]
    judged = [defaults, *front]
    lists = [judge.tasks(one.resize, held_out, held_out_seeds) for one in judged]
    judge.run(task for tasks in lists for task in tasks)
    base = judge.found(lists[0])
    for one, tasks in zip(judged, lists):
        one.held_out = _paired(judge.found(tasks), base)
    return Search(
        trials=done,
        seed=seed,
        memory_gb=memory_gb,
        hours=hours,
        train=list(train),
        held_out=list(held_out),
        seeds=list(seeds),
        held_out_seeds=list(held_out_seeds),
        defaults=defaults,
        front=front,
        better_in_all=len(better),
    )


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The command `python -m ample.search`."""
    parser = argparse.ArgumentParser(prog="python -m ample.search", description=__doc__)
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory-gb", type=float, default=2)
    parser.add_argument("--hours", type=float, default=0.5)
    parser.add_argument("--ray", action="store_true", help="on the machines of a Ray cluster")
    parser.add_argument("--out", help="write the result here as JSON instead of printing it")
    given = parser.parse_args(arguments)
    evaluate_all: Evaluate = on_threads
    if given.ray:
        try:
            start_ray()
        except AmpleError as error:
            print(error, file=sys.stderr)
            return 2
        evaluate_all = on_ray
    try:
        found = search(
            given.trials,
            seed=given.seed,
            memory_gb=given.memory_gb,
            hours=given.hours,
            evaluate_all=evaluate_all,
            progress=lambda share: print(f"\r{share:.0%}", end="", file=sys.stderr),
        )
    except AmpleError as error:
        print(f"\n{error}", file=sys.stderr)
        return 2
    text = json.dumps({"schema": "ample.search/1", **asdict(found)}, indent=2) + "\n"
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
