# SPDX-License-Identifier: MIT OR Apache-2.0
"""Physical memory contiguity of servers: scans, results and simulations as tables.

    import ample
    ample.scan().table().to_polars()         this machine (as root)
    ample.result("fig11")                    a result of the project, with its figure
    ample.run("fig11", quick=True)           an experiment, with overrides
    ample.sweep("fig11", over={"kernel_factor": [0.5, 1.0]}, quick=True)
    ample.simulate("web", memory_gb=4)       one server
    ample.Fleet(path="mixed.toml").table(range(10))

Every table goes into polars, pyarrow, pandas or DuckDB as it is (Arrow PyCapsule interface), and
none of them is needed. Long work runs without the interpreter's lock and ends on Ctrl-C.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Union

from . import _ample
from ._ample import (
    AmpleError,
    Fleet,
    Result,
    Run,
    Scan,
    Sweep,
    Table,
    experiments,
    read_snapshot,
    result,
    results,
    scan,
)

__all__ = [
    "AmpleError",
    "Fleet",
    "Result",
    "Run",
    "Scan",
    "Sweep",
    "Table",
    "experiments",
    "metrics",
    "read_snapshot",
    "result",
    "results",
    "run",
    "scan",
    "simulate",
    "sweep",
]

__version__: str = _ample.__version__

Progress = Callable[[float], object]


def run(
    experiment: str,
    *,
    quick: bool = False,
    set: Optional[Mapping[str, Any]] = None,
    file: Union[str, os.PathLike[str], None] = None,
    progress: Optional[Progress] = None,
) -> Run:
    """Runs an experiment of `experiments()`: the same bytes as `ample sim ID --json`.

    `set` changes parameters by their dotted names, as `--set` does; `file` names an experiment file
    of one's own, whose id must be `experiment`; `progress` is told the share done, now and then.
    """
    text = None if file is None else _text(file)
    return _ample.run_experiment(experiment, quick, _json("set", dict(set or {})), text, progress)


def sweep(
    experiment: str,
    *,
    over: Mapping[str, Sequence[Any]],
    quick: bool = False,
    set: Optional[Mapping[str, Any]] = None,
    file: Union[str, os.PathLike[str], None] = None,
    jobs: Optional[int] = None,
    progress: Optional[Progress] = None,
) -> Sweep:
    """Runs an experiment once for every combination: the same bytes as `ample sweep ID --json`.

    `over` gives each parameter its values, the slowest first; `jobs` combinations run at once, by
    default as many as this machine has room for; all else as for `run`.
    """
    axes = [(key, list(values)) for key, values in over.items()]
    text = None if file is None else _text(file)
    changes = _json("set", dict(set or {}))
    return _ample.sweep_parameters(
        experiment, _json("over", axes), quick, changes, text, jobs, progress
    )


def simulate(
    workload: str,
    policy: str = "linux",
    *,
    memory_gb: float = 64,
    hours: float = 1,
    seed: int = 1,
    sample_every_s: float = 900,
    event_ratio: float = 1,
    resize: Optional[Mapping[str, int]] = None,
    progress: Optional[Progress] = None,
) -> dict[str, Any]:
    """Simulates one server, and gives its samples, metrics, counters and stalls.

    `workload` is a shipped name or the path of a file. `resize` takes the model's own resizer in
    place of the kernel's, with these tunables of Algorithm 1 changed (`threshold_unmov_bp`,
    `c_ue_milli`, ...), under the policies that have a border.
    """
    for name, value in {"memory_gb": memory_gb, "hours": hours}.items():
        if not 0 < value < 1e6:
            raise AmpleError(f"{name} is {value}, but must be above 0 and below a million")
    found: dict[str, Any] = json.loads(
        _ample.simulate_server(
            workload,
            policy,
            round(memory_gb * 256) << 22,
            hours * 3600,
            seed,
            sample_every_s,
            event_ratio,
            None if resize is None else json.dumps(dict(resize)),
            progress,
        )
    )
    return found


def metrics(scan: Scan) -> dict[str, Any]:
    """The contiguity metrics of a scan: `total`, `nodes`, `zones`, under K, P and O."""
    found: dict[str, Any] = json.loads(scan.metrics_json())
    return found


def _json(name: str, value: object) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AmpleError(f"{name}: {error}; give numbers, strings, lists and dicts") from error


def _text(path: Union[str, os.PathLike[str]]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AmpleError(f"{os.fspath(path)}: {error}; give the path of a TOML file") from error


def _fleet_again(text: str, policy: str) -> Fleet:
    """For pickle: the fleet of the same text."""
    return Fleet(text, policy=policy)
