#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Install what building and testing the kernel needs on Debian 12, and nothing else.
# usage: setup.sh [bench|selftests|lint]
#   bench: the programs of the workloads as well; selftests: what those of mm/ link with; lint: the
#   checkers
set -euo pipefail
packages=(linux-source-6.12 gcc make flex bison bc libelf-dev libssl-dev cpio zstd xz-utils
	rsync patch kmod git ccache qemu-system-x86 busybox-static e2fsprogs python3)
if [ "${1:-}" = bench ]; then
	packages+=(memcached libmemcached-tools nginx-light apache2-utils redis-server
		redis-tools tcc libtcc-dev)
fi
[ "${1:-}" = selftests ] && packages+=(libnuma-dev)
[ "${1:-}" = lint ] && packages+=(sparse dwarves)
missing=()
for package in "${packages[@]}"; do
	# another tree can stand in for the package
	[ "$package" = linux-source-6.12 ] && [ -n "${KERNEL_SRC:-}" ] && continue
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok' ||
		missing+=("$package")
done
((${#missing[@]})) || exit 0
command -v apt-get > /dev/null || {
	echo "setup.sh: no apt-get here; install by hand: ${missing[*]}" >&2
	exit 2
}
sudo=
((EUID == 0)) || sudo=sudo
echo "setup.sh: installing ${missing[*]}" >&2
$sudo apt-get update -qq
# the daemons are for guests: do not start them here
if [ ! -e /usr/sbin/policy-rc.d ]; then
	printf '#!/bin/sh\nexit 101\n' | $sudo tee /usr/sbin/policy-rc.d > /dev/null
	$sudo chmod +x /usr/sbin/policy-rc.d
	trap '$sudo rm -f /usr/sbin/policy-rc.d' EXIT
fi
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends \
	"${missing[@]}" > /dev/null
