#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The files of Contiguitas: what they say fits together, nonsense is refused, and the border of
# node 0 goes up and comes back. Needs contiguitas=on, and debugfs to move the border.

ctg=/sys/kernel/mm/contiguitas/node0
move=/sys/kernel/debug/contiguitas/node0
ksft_skip=4
n=0
failed=0

# check TEXT COMMAND...: one line of TAP
check() {
	text=$1
	shift
	n=$((n + 1))
	if "$@"; then
		echo "ok $n $text"
	else
		echo "not ok $n $text"
		failed=1
	fi
}

refused() { ! echo "$1" 2>/dev/null > "$2"; }
size() { cat $ctg/unmovable_bytes; }
steps() { sed -n "s/^contiguitas_resize$1 //p" /proc/vmstat; }

echo "TAP version 13"
if [ ! -d $ctg ]; then
	echo "1..0 # SKIP boot with contiguitas=on"
	exit $ksft_skip
fi

min=$(cat $ctg/min_bytes)
max=$(cat $ctg/max_bytes)
start=$(size)
check "no less than the minimum" [ "$start" -ge "$min" ]
check "the minimum is below the maximum" [ "$min" -le "$max" ]
check "no more is free than there is" [ "$(cat $ctg/unmovable_free_bytes)" -le "$start" ]
for bad in '' x -1 0 1e9 18446744073709551615 99999999999999999999; do
	check "max_bytes refuses '$bad'" refused "$bad" $ctg/max_bytes
done
check "max_bytes is kept" [ "$(cat $ctg/max_bytes)" = "$max" ]

if [ -w $move ]; then
	for bad in '' x -1 0 18446744073709551615; do
		check "a move to '$bad' is refused" refused "$bad" $move
	done
	chunk=$((16 << 20))
	made=$(steps)
	check "the border goes up" sh -c "echo $(($(size) + chunk)) > $move"
	check "the region is larger" [ "$(size)" -gt "$start" ]
	check "vmstat counts the steps" [ "$(steps)" -gt "$made" ]
	failed_steps=$(steps _fail)
	if echo "$start" 2>/dev/null > $move; then
		check "it comes back" [ "$(size)" -le "$start" ]
	else
		echo "# it does not come back: pages in use"
		check "vmstat counts the step that failed" [ "$(steps _fail)" -gt "$failed_steps" ]
	fi
fi
echo "1..$n"
exit $failed
