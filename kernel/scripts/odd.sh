#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Boot the feature on machines that are not plain: it adapts (plan odd) or declines with one line
# in the log (plan bad_parameter), and the machine always boots.
# usage: odd.sh BUILD_DIR OUT [NAME...]   with the built trees "ample" and "debug"; default: all
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { sed -n '5s/^# //p' "$0" >&2; exit 2; }
build=$1 out=$2 failed=0
shift 2
names=" $* "

# odd TREE PLAN NAME MEMORY MORE_PARAMETERS [QEMU_OPTIONS]
odd() {
	[[ $names = "  " || $names = *" $3 "* ]] || return 0
	echo "odd.sh: $3"
	"$here/guest.sh" "$build/$1" "$2" "$out/odd-$3" --mem "$4" --timeout 900 \
		--append "contiguitas=on page_owner=on $5" --qemu "${6:-}" || failed=1
}
# a node of its own: its memory and its number
node() { echo "-object memory-backend-ram,id=m$2,size=$1 -numa node,nodeid=$2,memdev=m$2"; }

odd ample odd holes 1G 'memmap=17M$200M memmap=3M$501M'
odd ample odd movable 1G movablecore=512M
odd ample odd memoryless 1G '' "$(node 1G 0) -numa node,nodeid=1"
odd ample odd gigantic-cma 4G hugetlb_cma=1G
odd ample bad_parameter smallnode 1G '' "$(node 960M 0) $(node 64M 1)"
odd ample bad_parameter full 1G contiguitas=1G
# the debug kernel fills the region before the resizer runs; the rest only it is configured for
odd debug odd holes-debug 1G 'memmap=17M$200M memmap=3M$501M'
odd debug odd cma 512M cma=32M
odd debug odd crash 512M crashkernel=64M
odd debug odd hotplug 512M,slots=2,maxmem=3G '' \
	"-object memory-backend-ram,id=h,size=512M -device pc-dimm,id=d,memdev=h"
exit $failed
