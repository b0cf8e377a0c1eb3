#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The study of a made fleet by the engine that is built in and by Spark, with one and with two
# workers, each a process of its own: equal to the digit. Then once more with a worker that is
# killed in the middle.
# usage: fleet-spark.sh [HOSTS [SCANS]]
set -euo pipefail
cd "$(dirname "$0")/.."
hosts=${1:-10000} scans=${2:-8}
venv=build/spark
ample=target/release/ample
spark=$PWD/crates/fleet/spark/fleet_spark.py
command -v java >/dev/null || { echo "fleet-spark.sh: needs a Java runtime" >&2; exit 2; }
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import pyspark' 2>/dev/null || "$venv/bin/pip" install -q pyspark==4.3.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/real"
cp kernel/tests/courses/*.snap "$work/real/"
"$ample" fleet generate "$work/real" -o "$work/lake" --hosts "$hosts" --scans "$scans"
"$ample" fleet report "$work/lake" --tables "$work/embedded.json" >/dev/null
export SPARK_LOCAL_DIRS=$work/spark
for workers in 1 2; do
	echo "== $workers workers"
	"$venv/bin/python" "$spark" "$work/lake" --like "$work/embedded.json" \
		--master "local-cluster[$workers,1,1024]"
done
echo "== 2 workers, one is killed"
"$venv/bin/python" "$spark" "$work/lake" --like "$work/embedded.json" \
	--master "local-cluster[2,1,1024]" &
driver=$!
victim=
for _ in $(seq 120); do
	sleep 0.5
	victim=$(pgrep -f "CoarseGrainedExecutorBackend.*--executor-id 0" | head -1) && break
done
sleep 5
[[ -z $victim ]] || { kill -9 "$victim" && echo "killed executor 0 of 2"; }
wait "$driver"
