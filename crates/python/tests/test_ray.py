# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ray: two nodes, one of which is lost in the middle, and the bytes are the same.

Run by `make fleet-ray`; left out where Ray is not installed.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import ample
import ample.search
import ample.spread
from conftest import SPEC

# A node needs a while to start on a machine with other work.
os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")
ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")

# Servers that take a second or so, so that some run on the node that is lost.
LONG = SPEC.replace("servers = 12", "servers = 24").replace("[0.01, 0.05]", "[0.4, 0.8]")


@pytest.fixture
def cluster() -> Any:
    # With that of loopback the second node does not come up.
    if ray.util.get_node_ip_address().startswith("127."):
        pytest.skip("two nodes of Ray need an address besides 127.0.0.1")
    nodes = cluster_utils.Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": 100 << 20},
    )
    nodes.second = nodes.add_node(num_cpus=1, object_store_memory=100 << 20)
    ray.init(address=nodes.address, log_to_driver=False)
    nodes.wait_for_nodes()
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def files(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(place.iterdir())}


def nodes_alive() -> int:
    return sum(bool(node["Alive"]) for node in ray.nodes())


def test_a_lost_node_changes_nothing_but_the_time(cluster: Any, tmp_path: Path) -> None:
    fleet = ample.Fleet(LONG, policy="contiguitas")
    assert nodes_alive() == 2
    shares: list[float] = []

    def lose(share: float) -> None:
        shares.append(share)
        if len(shares) == 3:
            cluster.remove_node(cluster.second, allow_graceful=False)

    began = time.monotonic()
    made = ample.spread.simulate(fleet, tmp_path / "spread", progress=lose)
    print(f"{made} servers on two nodes, one lost after three: {time.monotonic() - began:.0f} s")
    assert made == 24 and shares[-1] == 1.0
    deadline = time.monotonic() + 60
    while nodes_alive() == 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert nodes_alive() == 1
    held = files(tmp_path / "spread")
    alone = fleet.parquet(range(24))
    assert held.pop(".fleet.toml").decode() == f"# Simulated under contiguitas.\n{LONG}"
    assert held == {f"server-{n:06}.parquet": content for n, content in alone.items()}
    # The same call goes on: what is missing is made again, and nothing else.
    (tmp_path / "spread/server-000005.parquet").unlink()
    assert ample.spread.simulate(fleet, tmp_path / "spread") == 1
    assert files(tmp_path / "spread")["server-000005.parquet"] == alone[5]
    with pytest.raises(ample.AmpleError, match="another fleet"):
        ample.spread.simulate(ample.Fleet(SPEC), tmp_path / "spread")


def test_a_search_has_the_same_front_on_ray(cluster: Any) -> None:
    size: dict[str, Any] = {
        "memory_gb": 0.125,
        "hours": 0.02,
        "train": ("web",),
        "held_out": ("ci",),
        "seeds": (1,),
        "held_out_seeds": (2,),
        "batch": 4,
    }
    spread = ample.search.search(8, **size, evaluate_all=ample.search.on_ray)
    assert asdict(spread) == asdict(ample.search.search(8, **size))


def test_an_error_of_a_task_is_told(cluster: Any) -> None:
    def refuse(number: int) -> int:
        raise ample.AmpleError(f"no {number}")

    with pytest.raises(ample.AmpleError, match="no 7"):
        list(ample.spread.spread(refuse, [7]))
