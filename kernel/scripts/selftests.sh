#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Build mm selftests of the kernel, static, for the guest (plan kselftest).
# usage: selftests.sh OUT_DIR
# Uses the unpacked source, KERNEL_SRC= included. What needs a library that is
# not installed (migration: libnuma) is left out with a line that says so.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: selftests.sh OUT_DIR}
src=$("$here/build.sh" source)
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The headers of this kernel: those of the host may be older.
if [ ! -d "$out/include" ]; then
	make -s -C "$src" O="$work/headers" headers_install INSTALL_HDR_PATH="$out" > /dev/null
fi
tests=$src/tools/testing/selftests/mm
echo > "$work/local_config.h"
for name in gup_longterm compaction_test migration map_hugetlb hugepage-mmap hugetlb-madvise \
	hugetlb_fault_after_madv transhuge-stress khugepaged split_huge_page_test; do
	libs=(-lpthread -lrt)
	[ "$name" = migration ] && libs=(-lnuma "${libs[@]}")
	# gup_longterm makes a file beside its source: on the disk of the guest.
	gcc -O2 -w -static -D_GNU_SOURCE= -fmacro-prefix-map="$tests/=/mnt/" \
		-I"$work" -isystem "$out/include" \
		-I"$tests" -include "$tests/../kselftest.h" -o "$out/$name" \
		"$tests/$name.c" "$tests/vm_util.c" "$tests/thp_settings.c" "${libs[@]}" \
		2> "$work/log" || {
		rm -f "$out/$name"
		echo "selftests.sh: $name left out: $(grep -m1 -E 'error|cannot find' "$work/log")" >&2
	}
done
