#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What ample agent costs over an hour: one as it is installed (a scan each hour), one that scans
each five minutes, both scraped each fifteen seconds as Prometheus does. Prints for each the scans,
the share of a core and the largest resident memory as JSON. Exits with 1 where one is above 1 % of
a core or 64 MB.

usage: agent-hour.py [AMPLE [SECONDS]]
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PERIODS = ("1h", "5m")
SCRAPE_S = 15
MOST_CORE, MOST_BYTES = 0.01, 64_000_000


class Agent:
    """An agent that serves metrics, and what the kernel has counted for it."""

    def __init__(self, ample, every, work):
        self.every = every
        self.spool = work / every
        self.process = subprocess.Popen(
            [ample, "agent", "--every", every, "--spool", self.spool, "--listen", "127.0.0.1:0"],
            stderr=subprocess.PIPE, text=True)
        self.address = None
        for line in self.process.stderr:
            if found := re.search(r"http://[^/]+/metrics", line):
                self.address = found[0]
                break
        if not self.address:
            sys.exit(f"agent-hour.py: ample agent --every {every} did not start")

    def scrape(self):
        with urllib.request.urlopen(self.address, timeout=10) as answer:
            return len(answer.read())

    def cpu_s(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_bytes(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024

    def end(self):
        self.process.terminate()
        self.process.wait(30)


def main():
    ample = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/ample")
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 3600.0
    with tempfile.TemporaryDirectory() as work:
        begin = time.monotonic()
        agents = [Agent(ample, every, Path(work)) for every in PERIODS]
        scrapes = 0
        while (passed := time.monotonic() - begin) < seconds:
            for agent in agents:
                agent.scrape()
            scrapes += 1
            time.sleep(min(SCRAPE_S, seconds - passed))
        within = True
        for agent in agents:
            share, peak = agent.cpu_s() / passed, agent.peak_bytes()
            within = within and share <= MOST_CORE and peak <= MOST_BYTES
            print(json.dumps({
                "every": agent.every, "seconds": round(passed), "scrapes": scrapes,
                "scans": len(list(agent.spool.glob("**/*.parquet"))),
                "core_percent": round(100 * share, 3), "peak_mib": round(peak / 2**20, 1),
                "load": round(os.getloadavg()[0], 1)}), flush=True)
            agent.end()
    sys.exit(0 if within else 1)


if __name__ == "__main__":
    main()
