#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs the packages of a directory in a clean Debian 12 and tries them as a new user.
# Usage: dist-smoke.sh DIST (as root; the clean system is made once, build/bookworm-2.tar)
set -euo pipefail
dist=$(realpath "${1:?usage: dist-smoke.sh DIST}")
cd "$(dirname "$0")/.."
((EUID == 0)) || {
	echo "dist-smoke: a system in a directory needs root" >&2
	exit 2
}

if [[ ! -e build/bookworm-2.tar ]]; then
	mkdir -p build
	echo "dist-smoke: making a clean Debian 12" >&2
	mmdebstrap --quiet --variant=minbase bookworm build/bookworm-2.tar.new.tar \
		--include=apt,ca-certificates,gcc,libc6-dev,bash-completion,systemd,python3-venv
	mv build/bookworm-2.tar.new.tar build/bookworm-2.tar
fi

system=$(mktemp -d "${TMPDIR:-/tmp}/ample-smoke.XXXXXX")
trap 'rm -rf --one-file-system "$system"' EXIT
tar -C "$system" -xf build/bookworm-2.tar --exclude='./dev/*'
mkdir -p "$system/dist"
cp "$dist"/*.deb "$dist"/*.whl "$system/dist/"
cp scripts/dist-smoke-inside.sh scripts/dist-smoke-units.sh scripts/python-smoke.py "$system/dist/"
cp /etc/resolv.conf "$system/etc/resolv.conf" 2>/dev/null || true
# Upgrades begin at the same files under an earlier version.
for deb in "$system"/dist/*.deb; do
	name=$(dpkg-deb -f "$deb" Package)
	dpkg-deb -R "$deb" "$system/dist/old"
	sed -i 's/^Version: .*/Version: 0.0.1-1/' "$system/dist/old/DEBIAN/control"
	dpkg-deb --root-owner-group -Zgzip -b "$system/dist/old" "$system/dist/$name.old" >/dev/null
	rm -rf "$system/dist/old"
done
# A mount and a process namespace of its own: what is mounted and started ends with it.
unshare --mount --pid --fork --kill-child bash -euo pipefail -c '
	mount -t proc proc "$1/proc"
	mount --rbind /dev "$1/dev"
	exec chroot "$1" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root LC_ALL=C.UTF-8 bash /dist/dist-smoke-inside.sh
' smoke "$system"

# The units as they are, under systemd as the first process, which may use BPF.
units=$system/etc/systemd/system
mkdir -p "$units/multi-user.target.wants"
printf '[Unit]\nAfter=basic.target\n[Service]\nType=oneshot\nExecStart=/dist/%s\n' \
	dist-smoke-units.sh >"$units/smoke.service"
ln -s ../smoke.service "$units/multi-user.target.wants/"
timeout 120 systemd-nspawn --quiet --directory "$system" --boot --register=no --keep-unit \
	--system-call-filter=bpf </dev/null >"$system/dist/boot.log" 2>&1 || true
grep -v "^done$" "$system/dist/units.log"
[[ $(tail -n 1 "$system/dist/units.log") == done ]]
