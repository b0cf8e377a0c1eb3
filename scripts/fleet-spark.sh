#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The study of a made fleet by the engine that is built in, by DuckDB, and by Spark with one and
# with two workers, each a process of its own: equal to the digit. Then once more with a worker
# that is killed in the middle. --quick: a small fleet, and of Spark the last of these three alone,
# for the tests.
# usage: [AMPLE=target/release/ample] fleet-spark.sh [--quick] [HOSTS [SCANS]]
set -euo pipefail
cd "$(dirname "$0")/.."
alone=(1 2) partitions=16
if [[ ${1:-} == --quick ]]; then
	shift
	set -- "${1:-300}" "${2:-2}"
	alone=() partitions=2
	# Nothing runs long enough for the compiler that optimises most.
	export JAVA_TOOL_OPTIONS=-XX:TieredStopAtLevel=1
fi
hosts=${1:-10000} scans=${2:-8}
venv=build/spark
ample=${AMPLE:-target/release/ample}
spark=$PWD/crates/fleet/spark/fleet_spark.py
scripts/setup.sh spark
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/real"
cp kernel/tests/courses/*.snap "$work/real/"
"$ample" fleet generate "$work/real" -o "$work/lake" --hosts "$hosts" --scans "$scans"
"$ample" fleet report "$work/lake" --tables "$work/embedded.json" >/dev/null
echo "== DuckDB"
"$venv/bin/python" crates/fleet/spark/fleet_duckdb.py "$work/lake" --like "$work/embedded.json"
export SPARK_LOCAL_DIRS=$work/spark SPARK_LOCAL_IP=127.0.0.1

study() { # study WORKERS: exit 1 where a digit differs
	"$venv/bin/python" "$spark" "$work/lake" --like "$work/embedded.json" \
		--partitions "$partitions" --master "local-cluster[$1,1,1024]" 2>"$work/log" ||
		{ tail -n 20 "$work/log" >&2; return 1; }
}

below() { # below PID: the processes that it started, and theirs
	local child
	for child in $(pgrep -P "$1"); do
		echo "$child"
		below "$child"
	done
}

executor() { # executor PID: the first executor below a driver
	local process
	for process in $(below "$1"); do
		if tr '\0' ' ' <"/proc/$process/cmdline" 2>/dev/null |
			grep -q 'CoarseGrainedExecutorBackend.*--executor-id 0 '; then
			echo "$process"
			return
		fi
	done
}

for workers in "${alone[@]}"; do
	echo "== $workers workers"
	study "$workers"
done
echo "== 2 workers, one is killed"
study 2 &
driver=$!
victim=
for _ in $(seq 240); do
	victim=$(executor "$driver")
	[[ -z $victim ]] || break
	sleep 0.5
done
sleep 5
kill -9 "$victim" && kill -0 "$driver" || { echo "no executor to kill" >&2; exit 1; }
echo "killed executor 0 of 2"
wait "$driver"
