#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Build the initramfs of the test guest.
# usage: initramfs.sh OUT.cpio.gz [KERNEL_TREE [PLAN [PARAMETERS]]]
# With a kernel tree, its build of the hostile module goes in as well; for the
# plan kselftest the kernel's own tests of mm/ do. PARAMETERS: those of the kernel's command line.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
out=$1 tree=${2:-} plan=${3:-} parameters=${4:-}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

mkdir -p "$root"/{bin,sbin,lib/modules,plans,etc,tmp,usr/bin,usr/sbin,run} \
	"$root"/var/{log,lib}/nginx
cp "$(command -v busybox)" "$root/bin/busybox"
install -m 755 "$here/guest/init" "$root/init"
cp "$here/guest/plan.sh" "$here/guest/workloads.sh" "$root/lib/"
cp "$here"/guest/plans/*.sh "$root/plans/"
cp "$here/src/tools/testing/selftests/mm/contiguitas/border.sh" "$root/lib/"
cp -r "$here/guest/etc/." "$root/etc/"
for src in "$here"/guest/src/*.c; do
	gcc -O2 -Wall -Wextra -static -o "$root/bin/$(basename "$src" .c)" "$src" -lpthread
done
"$here/scripts/bare.sh" "$root/bin"

# A program and every library it needs.
add() {
	local path lib
	path=$(command -v "$1") || {
		echo "initramfs: no $1, its workload will be skipped" >&2
		return
	}
	path=$(readlink -f "$path")
	cp "$path" "$root/usr/bin/$(basename "$1")"
	ldd "$path" 2>/dev/null | grep -o '/[^ ]*' | while read -r lib; do
		mkdir -p "$root$(dirname "$lib")"
		cp -nL "$lib" "$root$lib"
	done
}
# The plan "system" is for slow emulation, which takes seconds to unpack all: it gets what its load
# runs.
case "$plan  $parameters " in
"system "*" ample.load=redis "*) services=(redis-server redis-benchmark) ;;
"system "*" ample.load=memcached "*) services=(memcached) ;;
"system "*" ample.load=nginx "*) services=(nginx ab) ;;
"system "*" ample.load=build "*) services=(tcc) ;;
"system "*" ample.load=gcc "*) services=(gcc as "$(gcc -print-prog-name=cc1)") ;;
"system "*) services=() ;;
*) services=(memcached memcslap nginx ab redis-server redis-benchmark tcc) ;;
esac
for prog in "${services[@]}"; do
	PATH=$PATH:/usr/sbin add $prog
done
if [[ " ${services[*]} " = *" tcc "* ]] && [ -d /usr/lib/x86_64-linux-gnu/tcc ]; then
	mkdir -p "$root/usr/lib/x86_64-linux-gnu"
	cp -r /usr/lib/x86_64-linux-gnu/tcc "$root/usr/lib/x86_64-linux-gnu/"
fi
# What the compilers compile, and the headers it includes; gcc's compiler where gcc looks for it.
case " ${services[*]} " in
*" tcc "* | *" gcc "*)
	mkdir -p "$root/usr/src"
	cp "$here/guest/src/load.c" "$root/usr/src/"
	gcc -O2 -M "$here/guest/src/load.c" | tr ' \\' '\n\n' | grep '^/usr/' |
		cpio -pdm --quiet -L "$root" 2>/dev/null || true ;;
esac
if [ -e "$root/usr/bin/cc1" ]; then
	where=$root$(dirname "$(gcc -print-prog-name=cc1)")
	mkdir -p "$where"
	mv "$root/usr/bin/cc1" "$where/"
fi
# Names are looked up by daemons that drop privileges.
mkdir -p "$root/lib/x86_64-linux-gnu"
cp -nL /lib/x86_64-linux-gnu/libnss_files.so.2 "$root/lib/x86_64-linux-gnu/" 2>/dev/null || true

if [ -n "$tree" ]; then
	modules=$tree/../module-$(basename "$tree")
	cp "$modules/ample_hostile.ko" "$root/lib/modules/"
	[[ $plan != mover* ]] || cp "$modules/ample_mover.ko" "$root/lib/modules/"
fi
# The command itself, for the plans that scan; a debug build will do.
for ample in "$here"/../target/{release,debug}/ample; do
	[[ $plan = scan || $plan = agent || $plan = record_* ]] || break
	if [ -x "$ample" ] && [ ! -e "$root/usr/bin/ample" ]; then
		add "$ample"
		strip "$root/usr/bin/ample"
	fi
done
# The allocator for the plans that run it, and its own test programs.
if [[ $plan = numa || $plan = layers || $plan = overcommit ]]; then
	add "$here/../target/malloc/libample_malloc.so"
	mkdir -p "$root/usr/lib"
	mv "$root/usr/bin/libample_malloc.so" "$root/usr/lib/"
fi
case $plan in
numa) programs=(numa) ;;
overcommit) programs=(sequences threads oom) ;;
*) programs=() ;;
esac
for prog in "${programs[@]}"; do
	gcc -O1 -fno-builtin -Wno-use-after-free -pthread -o "$root/tmp/$prog" \
		"$here/../crates/malloc/tests/programs/$prog.c"
	add "$root/tmp/$prog"
done
if [ "$plan" = kselftest ]; then
	"$here/scripts/selftests.sh" "$root/usr/lib/kselftest"
	rm -rf "$root/usr/lib/kselftest/include"
fi
# The same bytes from the same files: a guest that counts instructions unpacks them as well.
find "$root" -exec touch -h -d @0 {} +
(cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc --quiet --reproducible | gzip -1n) \
	> "$out.tmp"
mv "$out.tmp" "$out"
