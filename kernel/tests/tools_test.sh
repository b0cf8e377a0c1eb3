#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# contiguitas(8) against a folder that looks like its files in sysfs.
# usage: tools_test.sh OUT
set -u
mkdir -p "$1"
tool=$(dirname "$0")/../tools/contiguitas
export CONTIGUITAS_SYSFS=$1/sysfs
failed=0

# check TEXT WANTED GOT
check() { [ "$2" = "$3" ] || { echo "FAIL $1: wanted '$2', got '$3'"; failed=1; }; }
status() { "$tool" "$@" > "$out" 2> "$err"; echo $?; }

rm -rf "$CONTIGUITAS_SYSFS"
mkdir -p "$CONTIGUITAS_SYSFS"
out=$1/out err=$1/err
check "a kernel without it" 2 "$(status)"
check "and what to do" 1 "$(grep -c 'boot linux-image-.*-contiguitas' "$err")"
check "help" 0 "$(status --help)"
check "which teaches" 1 "$(grep -c 'exit: 0 done' "$out")"

echo 0 > "$CONTIGUITAS_SYSFS/enabled"
check "off" 1 "$(status)"
check "off, to programs" 1 "$(status --json)"
check "its object" '{"schema": "ample.contiguitas/1", "enabled": false, "nodes": []}' \
	"$(cat "$out")"
for arguments in nonsense "status --xml" "--json x" "on off" "off now"; do
	# shellcheck disable=SC2086
	check "usage: $arguments" 2 "$(status $arguments)"
done
check "turned on" 0 "$(status on)"
check "in the file" 1 "$(cat "$CONTIGUITAS_SYSFS/enabled")"

for node in 0 2 10; do
	mkdir "$CONTIGUITAS_SYSFS/node$node"
	(cd "$CONTIGUITAS_SYSFS/node$node" || exit
	echo 32768 > border_pfn
	echo 134217728 > unmovable_bytes
	echo 41943040 > unmovable_free_bytes
	echo 67108864 > min_bytes
	echo 536870912 > max_bytes
	echo 7 > pressure_unmovable_bp
	echo 1250 > pressure_movable_bp)
done
echo 3145728 > "$CONTIGUITAS_SYSFS/node0/unmovable_above_bytes"
check "on" 0 "$(status)"
check "node 0" "0 128 40 64 512 3 0.07 12.50" "$(sed -n 3p "$out" | xargs)"
check "above is root's alone" "2 128 40 64 512 - 0.07 12.50" "$(sed -n 4p "$out" | xargs)"
check "nodes by number" 10 "$(sed -n 5p "$out" | awk '{ print $1 }')"
check "all of it, to programs" 0 "$(status status --json)"
python3 - "$out" <<-'PY' || failed=1
	import json, sys
	status = json.load(open(sys.argv[1]))
	assert [n["node"] for n in status["nodes"]] == [0, 2, 10], status
	assert status["nodes"][0]["unmovable_above_bytes"] == 3145728, status
	assert status["nodes"][1]["unmovable_above_bytes"] is None, status
	assert status["nodes"][2]["pressure_movable_bp"] == 1250, status
PY
check "turned off" 0 "$(status off)"
check "in the file" 0 "$(cat "$CONTIGUITAS_SYSFS/enabled")"
[ $failed = 0 ] && echo "tools_test: all passed"
exit $failed
