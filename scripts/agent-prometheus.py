#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""ample agent under a real Prometheus on loopback: what it exports is scraped, and every expression
of the alert rules and of the dashboard finds a series there.

usage: agent-prometheus.py AMPLE
"""

import json
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "packaging/prometheus/ample.rules.yml"
SERVER = ROOT / "build/prometheus/usr/bin"
DASHBOARD = ROOT / "packaging/grafana/ample.json"
SLAB, BUDDY = 1 << 7, 1 << 10
PATIENCE_S = 60


def save_host(root):
    """A tree of a host of 2 GB with a border at 256 MB, the last 64 MB free."""
    pages, free = 2 << 18, 16 << 10
    flags = [SLAB if page % 4096 < 3 else 0 for page in range(pages - free)] + [BUDDY] * free
    zone = ("Node 0, zone Normal\n  pages free 0\n min 1\n low 2\n high 3\n spanned {0}\n"
            " present {0}\n managed {0}\n pagesets\n cpu: 0\n count: 0\n start_pfn: 0\n")
    node = "sys/kernel/mm/contiguitas/node0/"
    texts = {
        "proc/iomem": "00000000-7fffffff : System RAM\n",
        "proc/zoneinfo": zone.format(pages),
        "proc/buddyinfo": "Node 0, zone Normal 0 0 0 0 0 0 0 0 0 0 16\n",
        "proc/meminfo": "MemTotal: 2097152 kB\nMemFree: 65536 kB\n",
        "proc/uptime": "60.00 1.00\n",
        "proc/vmstat": "contiguitas_claim 7\n",
        "proc/sys/kernel/osrelease": "6.12.1\n",
        "proc/sys/kernel/hostname": "web1\n",
        node + "border_pfn": "65536\n",
        node + "unmovable_bytes": "268435456\n",
        node + "unmovable_free_bytes": "1048576\n",
        node + "min_bytes": "134217728\n",
        node + "max_bytes": "536870912\n",
        node + "pressure_unmovable_bp": "1200\n",
        node + "pressure_movable_bp": "0\n",
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "proc/kpageflags").write_bytes(struct.pack(f"={pages}Q", *flags))


def ask(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def found(base, expression):
    """How many series an expression has now."""
    query = urllib.parse.urlencode({"query": expression})
    return len(ask(f"{base}/api/v1/query?{query}")["data"]["result"])


def without_threshold(expression):
    """An alert's left side: there are series to compare, whether or not it fires."""
    return re.sub(r"\s[<>]\s[\d.* ]+$", "", expression)


def expressions():
    """Where an expression stands, and the expression."""
    for line in RULES.read_text().splitlines():
        if line.strip().startswith("expr:"):
            yield "rule", without_threshold(line.split("expr:", 1)[1].strip())
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$instance", ".*")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(what, check):
    """Waits until `check` answers something."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            value = check()
        except (urllib.error.URLError, ConnectionError):
            value = None
        if value:
            return value
        time.sleep(0.3)
    sys.exit(f"agent-prometheus.py: {what}: not within {PATIENCE_S} s")


def check(ample, work, started):
    subprocess.run([SERVER / "promtool", "check", "rules", RULES], check=True)
    save_host(work / "root")
    agent = subprocess.Popen(
        [ample, "agent", "--root", work / "root", "--spool", work / "spool", "--every", "1s",
         "--listen", "0", "--textfile", work / "ample.prom"], stderr=subprocess.PIPE, text=True)
    started.append(agent)
    address = re.search(r"http://(\S+)/metrics", agent.stderr.readline()).group(1)
    (work / "prometheus.yml").write_text(
        f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{RULES}']\n"
        f"scrape_configs: [{{job_name: ample, static_configs: [{{targets: ['{address}']}}]}}]\n")
    base = f"http://127.0.0.1:{free_port()}"
    started.append(subprocess.Popen(
        [SERVER / "prometheus", f"--config.file={work}/prometheus.yml",
         f"--storage.tsdb.path={work}/data", f"--web.listen-address={base[7:]}"],
        stderr=subprocess.DEVNULL))
    until("a scrape", lambda: found(base, 'up{job="ample"} == 1'))
    metadata = ask(f"{base}/api/v1/targets")["data"]["activeTargets"][0]
    assert metadata["lastError"] == "", metadata["lastError"]
    # What a collector of text files reads, by Prometheus's own judge of names, types and help.
    until("a text file", (work / "ample.prom").exists)
    subprocess.run([SERVER / "promtool", "check", "metrics"], check=True,
                   input=(work / "ample.prom").read_bytes())
    for where, text in expressions():
        until(f"a series for {text} ({where})", lambda text=text: found(base, text))
    states = ask(f"{base}/api/v1/rules")["data"]["groups"][0]["rules"]
    for rule in states:
        assert rule["health"] in ("ok", "unknown"), rule
    print(f"{len(list(expressions()))} expressions of {len(states)} rules and the dashboard find "
          "their series")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if not (SERVER / "promtool").exists():
        print("agent-prometheus.py: scripts/setup.sh test unpacks Prometheus", file=sys.stderr)
        sys.exit(2)
    started = []
    with tempfile.TemporaryDirectory() as work:
        try:
            check(sys.argv[1], Path(work), started)
        finally:
            for process in started:
                process.kill()
                process.wait()


if __name__ == "__main__":
    main()
