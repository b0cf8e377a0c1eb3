# SPDX-License-Identifier: MIT OR Apache-2.0
"""Experiments, servers and fleets: the bytes of the command, Ctrl-C, errors."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import ample
import ample.search
from ample.spread import _ray
from conftest import SPEC
from conftest import ample as command


def test_an_experiment_is_that_of_the_command() -> None:
    set_here = {"memory_bytes": 64 << 20, "duration_s": 120.0, "seeds": [4], "workloads": ["ci"]}
    run = ample.run("fig11", set=set_here)
    by_command = command(
        *("sim", "fig11", "--json", "--memory", "64M", "--set", "duration_s=120.0"),
        *("--set", "seeds=[4]", "--workloads", "ci"),
    )
    assert run.json.encode() == by_command
    rows = run.tables()["rows"]
    assert [row["workload"] for row in rows.to_dicts()] == ["ci"] * 5
    assert run.svg().startswith("<") and run.captions()
    with pytest.raises(ample.AmpleError, match="no such figure; there are: fig11"):
        run.svg("fig99")


def test_a_sweep_is_that_of_the_command() -> None:
    set_here = {"memory_bytes": 64 << 20, "duration_s": 120.0, "seeds": [4], "workloads": ["ci"]}
    over = {"kernel_factor": [1.0, 0.5], "policies": [["linux"], ["contiguitas"]]}
    sweep = ample.sweep("fig11", over=over, set=set_here, jobs=2)
    options = [f"{key}={json.dumps(value)}" for key, value in set_here.items()]
    by_command = command(
        *("sweep", "fig11", "--json", "--over", "kernel_factor=1.0,0.5"),
        *("--over", 'policies=["linux"],["contiguitas"]'),
        *(word for option in options for word in ("--set", option)),
    )
    assert sweep.json.encode() == by_command
    assert len(sweep) == 4 and sweep.over == list(over)
    assert sweep.tables()["rows"]["kernel_factor"] == [1.0, 1.0, 0.5, 0.5]


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    text = '[experiment]\nid = "presets"\n[parameters]\nmachines = ["contiguitas-table1"]\n'
    file.write_text(text)
    assert ample.run("presets", file=file).json.encode() == command("sim", file, "--json")


def test_servers_of_a_fleet_are_the_files_of_the_command(spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command("fleet", "simulate", spec, "-o", out, "--policy", "contiguitas")
    fleet = ample.Fleet(path=spec, policy="contiguitas")
    assert len(fleet) == 12 and fleet.policy == "contiguitas"
    for numbers in ([3], [0, 1, 7], list(range(12))):
        files = fleet.parquet(numbers)
        assert list(files) == numbers
        for number, content in files.items():
            assert content == (out / f"server-{number:06}.parquet").read_bytes()
    table = fleet.table([7, 3])
    assert table["host"][0] == "simulated000003"
    assert fleet.server(3)[1] == 1
    again = pickle.loads(pickle.dumps(fleet))
    assert again.policy == fleet.policy and again.parquet([3]) == fleet.parquet([3])


def test_a_server_repeats_itself_and_heeds_its_tunables() -> None:
    size = {"memory_gb": 0.25, "hours": 0.05, "seed": 7, "sample_every_s": 30}
    first = ample.simulate("web", "contiguitas", **size)
    assert first == ample.simulate("web", "contiguitas", **size)
    storm: dict[str, Any] = {"memory_gb": 0.5, "hours": 0.4}
    own = ample.simulate("storm", "contiguitas", **storm, resize={})
    assert own != ample.simulate("storm", "contiguitas", **storm)
    assert own == ample.simulate("storm", "contiguitas", **storm, resize=ample.search.DEFAULTS)
    given = {"c_us_milli": 50}
    assert own != ample.simulate("storm", "contiguitas", **storm, resize=given)
    assert first["seed"] == 7 and len(first["samples"]) == 7


def test_what_is_wrong_is_told() -> None:
    for make, told in [
        (lambda: ample.run("fig1l"), "fig11"),
        (lambda: ample.run("fig11", set={"seed": [1]}), "seed"),
        (lambda: ample.run("fig11", set={"memory_bytes": None}), "parameter"),
        (lambda: ample.run("fig11", set={"memory_bytes": object()}), "set: "),
        (lambda: ample.run("fig11", set={"duration_s": float("nan")}), "set: "),
        (lambda: ample.run("fig11", file="/nowhere"), "/nowhere"),
        (lambda: ample.sweep("fig11", over={}), "a parameter"),
        (lambda: ample.sweep("fig11", over={"seeds": []}), "no value"),
        (lambda: ample.sweep("fig11", over={"seeds": [[1], [1]]}), "twice"),
        (lambda: ample.sweep("fig11", over={"seeds": [None]}), "over: "),
        (lambda: ample.sweep("fig11", over={"sedes": [[1]]}), "seeds"),
        (lambda: ample.sweep("fig11", over={"seeds": [[1]]}, jobs=0), "jobs"),
        (lambda: ample.simulate("nothing"), "shipped are"),
        (lambda: ample.simulate("web", "magic"), "give one of linux"),
        (lambda: ample.simulate("web", memory_gb=0), "memory_gb"),
        (lambda: ample.simulate("web", memory_gb=float("nan")), "memory_gb"),
        (lambda: ample.simulate("web", memory_gb=5000), "goes up to"),
        (lambda: ample.simulate("web", event_ratio=7), "event_ratio"),
        (lambda: ample.simulate("web", "contiguitas", resize={"x": 1}), "c_ue_milli"),
        (lambda: ample.simulate("web", "contiguitas", resize={"c_us_milli": -1}), "resize"),
        (lambda: ample.simulate("web", resize={"threshold_mov_bp": 0}), "threshold"),
        (lambda: ample.Fleet("servers = 0"), "the text of the fleet"),
        (lambda: ample.Fleet(path="/dev/zero"), "/dev/zero"),
        (lambda: ample.Fleet(), "not both"),
        (lambda: ample.Fleet(SPEC).parquet([12]), "the fleet has 12"),
        (lambda: ample.Fleet(SPEC).server(12), "the fleet has 12"),
        (lambda: ample.search.search(2, train=("web",), held_out=("web",)), "fitted"),
        (lambda: _ray(), "ray"),
    ]:
        with pytest.raises(ample.AmpleError) as raised:
            make()
        assert told.lower() in str(raised.value).lower(), str(raised.value)


def test_progress_rises_and_may_end_the_run() -> None:
    shares: list[float] = []
    ample.simulate("web", memory_gb=0.5, hours=0.5, progress=shares.append)
    assert shares == sorted(shares) and shares[-1] == 1.0

    def stop(share: float) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        ample.simulate("web", memory_gb=2, hours=24, progress=stop)
    # What ended one run ends no other one.
    ample.simulate("web", memory_gb=0.0625, hours=0.01)


def test_an_error_in_one_thread_ends_no_other_work() -> None:
    begun = threading.Event()
    found: list[int] = []

    def other() -> None:
        def tell(_: float) -> None:
            begun.set()

        run = ample.simulate("web", memory_gb=0.25, hours=0.5, progress=tell)
        found.append(len(run["samples"]))

    def stop(share: float) -> None:
        raise RuntimeError("enough")

    thread = threading.Thread(target=other)
    thread.start()
    assert begun.wait(60)
    with pytest.raises(RuntimeError, match="enough"):
        ample.simulate("web", memory_gb=0.25, hours=0.5, progress=stop)
    thread.join()
    assert found and found[0] > 1


def test_a_forked_process_is_refused_and_does_not_hang() -> None:
    ample.simulate("web", memory_gb=0.0625, hours=0.01)
    child = os.fork()
    if child == 0:
        try:
            ample.simulate("web", memory_gb=0.0625, hours=0.01)
        except ample.AmpleError as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_the_interpreter_goes_on_meanwhile() -> None:
    # Long enough for many turns on any machine: a call that kept the interpreter's lock
    # would leave the one before it begins.
    ended = threading.Event()

    def run() -> None:
        ample.simulate("web", memory_gb=0.25, hours=20)
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    turns = 0
    while not ended.wait(0.001):
        turns += 1
    thread.join()
    assert turns > 3


def test_interrupt_ends_work_in_every_thread() -> None:
    code = (
        "import ample, threading\n"
        "told = threading.Event()\n"
        "def run():\n"
        "    try:\n"
        "        ample.simulate('web', memory_gb=1, hours=500, progress=lambda _: told.set())\n"
        "    except KeyboardInterrupt:\n"
        "        print('ended', flush=True)\n"
        "thread = threading.Thread(target=run)\n"
        "thread.start()\n"
        "told.wait()\n"
        "try:\n"
        "    print('begun', flush=True)\n"
        "    thread.join()\n"
        "except KeyboardInterrupt:\n"
        "    thread.join()\n"
        "    print('both', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=120)
    assert rest == "ended\nboth\n"


def test_interrupt_ends_it() -> None:
    code = (
        "import ample, sys\n"
        "try:\n"
        "    print('begun', flush=True)\n"
        "    ample.Fleet(sys.argv[1]).table(range(12))\n"
        "except KeyboardInterrupt:\n"
        "    print('ended', flush=True)\n"
        "print(len(ample.simulate('web', memory_gb=0.0625, hours=0.01)['samples']))\n"
    )
    long = SPEC.replace("[0.01, 0.05]", "[1000, 2000]").replace("0.02", "1000")
    process = subprocess.Popen(
        [sys.executable, "-c", code, long], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=120)
    assert rest == "ended\n2\n"
