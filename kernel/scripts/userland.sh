#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The disk of a guest with a real userland: Debian with systemd and services, from its packages. The
# plan that the kernel's command line names runs as a unit, when all others are up.
# usage: userland.sh OUT.img TREE|boot   as root; packages are fetched once, to a tar beside it
# TREE: of the kernel it is for. boot: a disk with Debian's own kernel and boot loader, started by
# EFI firmware; its plan is deb
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
[ $# = 2 ] || { sed -n '5,7s/^# //p' "$0" >&2; exit 2; }
out=$1 tree=$2 boot=
# It gets its module with the packages.
[ "$tree" != boot ] || boot=boot tree=
tar=$(dirname "$out")/userland$boot.tar
packages=systemd,systemd-sysv,udev,dbus,procps,kmod,iproute2,nginx-light,memcached,redis-server
later=()
if [ -n "$boot" ]; then
	packages+=,linux-image-cloud-amd64,initramfs-tools,zstd,grub-efi-amd64,bpftrace,linux-perf
	# Looks for the device of the root directory: installed by the plan, in the guest.
	later=(--customize-hook='mkdir -p "$1/packages/partial" && chroot "$1" apt-get -qq install -y \
		--no-install-recommends --download-only -o Dir::Cache::archives=/packages \
		kdump-tools makedumpfile')
fi
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
mkdir -p "$(dirname "$out")"
if [ ! -f "$tar" ]; then
	mmdebstrap --quiet --format=tar --variant=minbase --include=$packages "${later[@]}" "$suite" \
		"$tar.new"
	mv "$tar.new" "$tar"
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
tar -C "$root" -xf "$tar" --exclude='./dev/*'
"$here/scripts/initramfs.sh" "$root/guest.gz" "$tree" userland
mkdir "$root/guest"
(cd "$root/guest" && zcat ../guest.gz | cpio -idm --quiet)
rm "$root/guest.gz"
mv "$root/guest/plans" "$root/plans"
cp -n "$root"/guest/lib/*.sh "$root/usr/lib/"
mkdir -p "$root/usr/lib/modules"
[ -z "$tree" ] || cp "$root/guest/lib/modules/ample_hostile.ko" "$root/usr/lib/modules/"
cat > "$root/guest/start" <<-'SH'
	#!/bin/sh
	export PATH=$PATH:/guest/bin HOME=/tmp
	for word in $(cat /proc/cmdline); do
		case $word in ample.*) export "$(echo "${word#ample.}" | tr . _)" ;; esac
	done
	. /lib/plan.sh
	. "/plans/$plan.sh"
	echo "@@ done $plan"
	sync
	echo o > /proc/sysrq-trigger
SH
cat > "$root/etc/systemd/system/guest.service" <<-UNIT
	[Unit]
	Description=The plan of the guest
	After=nginx.service memcached.service redis-server.service
	[Service]
	Type=exec
	ExecStart=/bin/sh /guest/start
	StandardOutput=tty
	StandardError=tty
	TTYPath=/dev/ttyS0
	[Install]
	WantedBy=multi-user.target
UNIT
ln -s ../guest.service "$root/etc/systemd/system/multi-user.target.wants/guest.service"
ln -sf /dev/null "$root/etc/systemd/system/serial-getty@.service"
echo guest > "$root/etc/hostname"
if [ -n "$boot" ]; then
	. "$here/scripts/bootdisk.sh"
	boot_disk "$root" "$out.new"
else
	rm -f "$out.new"
	truncate -s 2G "$out.new"
	/sbin/mkfs.ext4 -q -F -d "$root" "$out.new"
fi
mv "$out.new" "$out"
