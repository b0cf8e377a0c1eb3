#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What the kernel's own checkers say of the series: checkpatch --strict on each patch and each new
# file, sparse on each new file, and whether any structure of PSI grew.
# usage: lint.sh BUILD_DIR   with the built trees "stock" and "ample" (make kernel)
# exit: 0 nothing to complain of, 1 something, 2 usage
set -euo pipefail
kernel=$(cd "$(dirname "$0")/.." && pwd)
[ -d "${1:-}/ample/mm" ] && [ -d "$1/stock/mm" ] || {
	echo "lint.sh: ${1:-BUILD_DIR} holds no built kernels; run make kernel" >&2
	exit 2
}
build=$(cd "$1" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
# as build.sh does: another compiler would have all of the tree rebuilt
cc=gcc
command -v ccache > /dev/null && cc="ccache gcc"
export CCACHE_DIR=${CCACHE_DIR:-$build/../ccache}
complain() { echo "lint.sh: $*" >&2; failed=1; }

# checkpatch. A patch is signed off when it is mailed, and new files need no MAINTAINERS entry yet.
# Headers of trace events are laid out as every other one of the kernel.
check() {
	local ignore=FILE_PATH_CHANGES,MISSING_SIGN_OFF,NO_AUTHOR_SIGN_OFF,MACRO_ARG_UNUSED
	[[ $* = */trace/events/* ]] && ignore=$ignore,OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT
	"$build/ample/scripts/checkpatch.pl" --strict --no-tree --no-summary --terse \
		--ignore $ignore "$@"
}
for patch in "$kernel"/patches/*.patch; do
	check "$patch" || complain "checkpatch: $(basename "$patch")"
done
while read -r file; do
	check --file "$file" || complain "checkpatch: ${file#"$kernel/src/"}"
done < <(find "$kernel/src" -name '*.[ch]')
echo "lint.sh: checkpatch --strict: $(ls "$kernel"/patches/*.patch | wc -l) patches," \
	"$(find "$kernel/src" -name '*.[ch]' | wc -l) files"

# sparse, on the objects of the new files only
objects=()
for file in "$kernel"/src/mm/*.c; do
	[[ $file = *_test.c ]] || objects+=("mm/$(basename "${file%.c}").o")
done
make -s -C "$build/ample" CC="$cc" HOSTCC="$cc" C=2 "${objects[@]}" > "$work/sparse" 2>&1 ||
	complain "sparse did not run"
if grep -E 'mm/contiguitas|contiguitas(_policy)?\.h' "$work/sparse" >&2; then
	complain "sparse: see above"
fi
echo "lint.sh: sparse: ${#objects[@]} objects"

# The structures that the scheduler touches at every switch, and those the series adds to.
mkdir "$work/probe"
cat > "$work/probe/probe.c" <<-C
	#include <linux/mmzone.h>
	#include <linux/psi_types.h>
	#include <linux/sched.h>
	struct psi_group_cpu a; struct psi_group b; struct task_struct c; struct zone d;
C
echo 'obj-m := probe.o' > "$work/probe/Makefile"
for tree in stock ample; do
	make -s -C "$build/$tree" CC="$cc" HOSTCC="$cc" M="$work/probe" KCFLAGS=-g probe.o > /dev/null
	for name in psi_group_cpu psi_group task_struct zone; do
		pahole -s "$work/probe/probe.o" | awk -v n=$name '$1 == n { print n, $2 }'
	done > "$work/$tree"
	rm -f "$work"/probe/*.o
done
paste -d' ' "$work/stock" "$work/ample" |
	awk '{ print "lint.sh: struct " $1 ": " $2 " bytes in stock, " $4 " in ample" }'
cmp -s <(grep -v '^zone' "$work/stock") <(grep -v '^zone' "$work/ample") ||
	complain "a structure of the scheduler grew"
exit $failed
