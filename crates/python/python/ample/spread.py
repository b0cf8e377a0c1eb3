# SPDX-License-Identifier: MIT OR Apache-2.0
"""A fleet on many machines with Ray: one task a history (a server, unless servers share one).

    import ray, ample, ample.spread
    ray.init(address="auto")
    ample.spread.simulate(ample.Fleet(path="mixed.toml"), "stock")

The directory holds the same bytes as that of `ample fleet simulate`, whoever makes it: what is
drawn for a server depends on the seed and its number alone. A task whose machine is lost runs again
elsewhere; the same call goes on where another one ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Optional, TypeVar, Union

from . import AmpleError, Fleet

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

# Text of the fleet beside its servers, as `ample fleet simulate` keeps it.
_SPEC_FILE = ".fleet.toml"
# Tasks that wait, for each that runs: results are fetched as they come and fill no machine.
_AHEAD = 4


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise AmpleError("ray is not installed; pip install ray") from error
    if not ray.is_initialized():
        raise AmpleError("Ray has not been started; call ray.init() first")
    return ray


def spread(
    work: Callable[[_Given], _Made], given: Iterable[_Given], *, tries: int = 8
) -> Iterator[tuple[_Given, _Made]]:
    """Runs `work` on each of `given` as a task of Ray; pairs in the order in which they end.

    `tries` is how often a task that is lost with its machine runs again.
    """
    ray = _ray()
    task = ray.remote(max_retries=tries, num_cpus=1)(work)
    waiting: dict[Any, _Given] = {}
    left = iter(given)
    while True:
        most = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        while len(waiting) < most:
            try:
                one = next(left)
            except StopIteration:
                break
            waiting[task.remote(one)] = one
        if not waiting:
            return
        ready, _ = ray.wait(list(waiting), num_returns=1)
        for reference in ready:
            one = waiting.pop(reference)
            try:
                yield one, ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                raise AmpleError(f"{one}: {error.cause}") from error
            except ray.exceptions.RayError as error:
                raise AmpleError(f"{one}: lost {tries} times, {error}") from error


def simulate(
    fleet: Fleet,
    directory: Union[str, os.PathLike[str]],
    servers: Optional[Iterable[int]] = None,
    *,
    progress: Optional[Callable[[float], object]] = None,
) -> int:
    """Simulates the servers that are missing in a directory; how many these were."""
    wanted = range(len(fleet)) if servers is None else sorted(set(servers))
    place = Path(directory)
    _open(place, fleet)
    histories: dict[int, list[int]] = {}
    for number in wanted:
        if not _file(place, number).exists():
            histories.setdefault(fleet.server(number)[1], []).append(number)
    parts = [tuple(numbers) for numbers in histories.values()]
    shared = _ray().put(fleet)

    def history(numbers: tuple[int, ...]) -> dict[int, bytes]:
        import ray as inside

        return inside.get(shared).parquet(list(numbers))  # type: ignore[no-any-return]

    made = 0
    for done, (_, files) in enumerate(spread(history, parts), 1):
        for number, content in files.items():
            _write(_file(place, number), content)
            made += 1
        if progress is not None:
            progress(done / len(parts))
    return made


def _file(place: Path, number: int) -> Path:
    return place / f"server-{number:06}.parquet"


def _open(place: Path, fleet: Fleet) -> None:
    """Makes the directory, or finds that it holds servers of this very fleet."""
    text = f"# Simulated under {fleet.policy}.\n{fleet.text}".encode()
    spec = place / _SPEC_FILE
    try:
        place.mkdir(parents=True, exist_ok=True)
        if spec.exists():
            if spec.read_bytes() != text:
                raise AmpleError(
                    f"{spec} describes another fleet or policy; name another directory"
                )
        elif any(place.iterdir()):
            raise AmpleError(f"{place} is not empty; name an empty or a new directory")
        else:
            _write(spec, text)
    except OSError as error:
        raise AmpleError(f"cannot write to {place}: {error}") from error


def _write(path: Path, content: bytes) -> None:
    """Writes a file whole: a reader sees it all or not at all."""
    half = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    half.write_bytes(content)
    half.replace(path)
