#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Run one plan in a QEMU guest with a time limit, its CPUs in parallel: in software emulation, or
# with ACCEL=kvm where the host's KVM boots Linux (not each nested one does). With an emulator older
# than 10, or ACCEL=turns, the CPUs share one thread.
#
# usage: guest.sh TREE PLAN OUT [--mem 2G] [--smp 2] [--nodes 1] [--append "..."]
#                 [--timeout SECONDS] [--disk MIB] [--raw MIB] [--device-mib N] [--root IMAGE]
#                 [--boot IMAGE] [--qemu "..."]
# TREE  a built kernel tree
# PLAN  a file of kernel/guest/plans without .sh, or "shell" for a shell
# --device-mib N  the second of two nodes has no memory but that of a device, /dev/dax0.0
# --boot IMAGE  a disk that EFI firmware boots, and that is changed; TREE's kernel stays outside
# OUT   directory: console.log, results.jsonl, disk.img (ext4), raw.img (bytes)
# exit: 0 the plan ran to its end and the kernel did not complain; 1 it did
#       not, or the console shows a warning; 2 usage
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 3 ] || { sed -n '7,17s/^# \{0,1\}//p' "$0" >&2; exit 2; }
tree=$1 plan=$2 out=$3
shift 3
mem=2G smp=2 nodes=1 append='' limit=300 disk=0 raw=0 device=0 root='' boot='' extra=''
while [ $# -gt 0 ]; do
	case $1 in
	--mem) mem=$2 ;; --smp) smp=$2 ;; --nodes) nodes=$2 ;; --append) append=$2 ;;
	--timeout) limit=$2 ;; --disk) disk=$2 ;; --raw) raw=$2 ;; --root) root=$2 ;;
	--boot) boot=$2 ;; --qemu) extra=$2 ;;
	--device-mib) device=$2 nodes=2 ;;
	*) echo "guest.sh: unknown option $1" >&2; exit 2 ;;
	esac
	shift 2
done
image=$tree/arch/x86/boot/bzImage
[ -f "$image" ] || { echo "guest.sh: no kernel at $image; run make kernel" >&2; exit 2; }
mkdir -p "$out"
[ -n "$root$boot" ] || "$here/initramfs.sh" "$out/initramfs.gz" "$tree" "$plan" "$append"

version=$(qemu-system-x86_64 --version | sed -n 's/.*version \([0-9]*\).*/\1/p')
# Before 10 a CPU may go on in code that another has patched (a jump label): the guest dies of its
# own int3.
threads=multi
[ "${ACCEL:=tcg}" != turns ] && ((version >= 10)) || threads=single
if [ "$ACCEL" = kvm ]; then
	accel=(-accel kvm) clock=tsc=reliable cpu=host,-arch-capabilities
else
	# Without these bits the kernel copies by words: emulation takes each byte of "rep movsb" by
	# itself.
	accel=(-accel "tcg,thread=$threads,tb-size=256") clock=clocksource=hpet cpu=max,-erms,-fsrm
fi
case $extra in *-icount*) accel=() clock=clocksource=tsc cpu=max,-erms,-fsrm ;; esac
args=("${accel[@]}" -cpu "$cpu" -smp "$smp" -m "$mem" -display none -nodefaults)
# A disk with a boot loader, a userland of its own (userland.sh), which the guest cannot change, or
# the initramfs.
if [ -n "$boot" ]; then
	cp /usr/share/OVMF/OVMF_VARS_4M.fd "$out/efi-variables"
	args+=(-machine q35 -drive "file=$boot,if=virtio,format=raw,cache=unsafe"
		-drive if=pflash,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd
		-drive "if=pflash,format=raw,file=$out/efi-variables")
elif [ -n "$root" ]; then
	args+=(-drive "file=$root,if=virtio,format=raw,snapshot=on")
	append="root=/dev/vda rw $append"
else
	args+=(-initrd "$out/initramfs.gz")
fi
# Which interrupt a device has is told by a loop in the firmware of the default machine. With KASAN
# on a busy host that takes more than the 30 s that Linux grants it; q35 has a table.
grep -q '^CONFIG_KASAN=y' "$tree/.config" && args+=(-machine q35)
if [ "$nodes" = 2 ]; then
	half=$((${mem%G} * 1024 / 2))M last=$((smp - 1))
	args+=(-smp "$smp,sockets=2"
		-object "memory-backend-ram,id=m0,size=$half"
		-object "memory-backend-ram,id=m1,size=$half"
		-numa "node,nodeid=0,memdev=m0,cpus=0-$((last / 2))"
		-numa "node,nodeid=1,memdev=m1,cpus=$((last / 2 + 1))-$last")
fi
# Memory set aside for a device, from where the second node begins. What is left of it is reserved:
# a block of 128 MiB, of which the firmware's tables have the end.
if [ "$device" != 0 ]; then
	append="memmap=${device}M%$half-1+0xefffffff memmap=128M\$$((${half%M} + device))M $append"
fi
if [ "$disk" != 0 ]; then
	rm -f "$out/disk.img"
	truncate -s "${disk}M" "$out/disk.img"
	/sbin/mkfs.ext4 -q -F "$out/disk.img"
	args+=(-drive "file=$out/disk.img,if=virtio,format=raw,cache=unsafe")
fi
if [ "$raw" != 0 ]; then
	rm -f "$out/raw.img"
	truncate -s "${raw}M" "$out/raw.img"
	args+=(-device "virtio-blk-pci,drive=raw,serial=raw"
		-drive "file=$out/raw.img,if=none,id=raw,format=raw,cache=unsafe")
fi
# The image lies where it always does, unless the plan is about that.
[ "$plan" = kaslr ] || append="nokaslr $append"
# On a busy host the timer of an emulated machine can come later than Linux waits for its tick.
cmdline="console=ttyS0 panic=-1 no_timer_check $clock ample.plan=$plan $append"
[ -n "$boot" ] || args+=(-no-reboot -kernel "$image" -append "$cmdline")
[ "$plan" != shell ] || exec qemu-system-x86_64 "${args[@]}" -serial mon:stdio $extra
status=0
timeout --kill-after=10 "$limit" qemu-system-x86_64 "${args[@]}" -serial "file:$out/console.log" \
	$extra || status=$?
tr -d '\r' < "$out/console.log" | sed -n 's/^.*@@ \({.*}\)$/\1/p' > "$out/results.jsonl"
if ! grep -q "@@ done $plan" "$out/console.log"; then
	echo "guest.sh: $plan did not finish (status $status, limit ${limit}s)" >&2
	echo "guest.sh: console: $out/console.log" >&2
	tail -25 "$out/console.log" >&2
	exit 1
fi
# The report of a kill has a call trace too, and is no complaint of the kernel, nor is that of a
# crash on purpose; a data race is one where a function of the series has a part in it.
ours=$(sed -nE 's/^[a-z].*[ *]([a-z_0-9]+)\(.*/\1/p' "$here"/../src/mm/contiguitas*.c |
	paste -sd '|')
if sed '/invoked oom-killer/,/Out of memory: Killed/d; /sysrq: Trigger a crash/,/Linux version/d' \
	"$out/console.log" | tr -d '\r' |
	grep -E 'BUG:|WARNING: |Oops|Call Trace|Bad page|inconsistent lock|possible circular' |
	awk -v ours=" ($ours)( |\$)" '!/BUG: KCSAN/ || $0 ~ ours' | grep . >&2
then
	echo "guest.sh: the kernel complained during $plan; console: $out/console.log" >&2
	exit 1
fi
# A command that the guest does not have, but for services that are not installed here: what it
# stands for was left out.
if tr -d '\r' < "$out/console.log" | grep -E '^/init: .*: not found$' |
	grep -vE ': (memcached|memcslap|nginx|ab|redis-[a-z]*|tcc): not found' >&2
then
	echo "guest.sh: $plan lacks a command; console: $out/console.log" >&2
	exit 1
fi
if grep '@@ FAIL' "$out/console.log" >&2; then
	echo "guest.sh: an expectation of $plan failed; console: $out/console.log" >&2
	exit 1
fi
rm -f "$out/initramfs.gz"
