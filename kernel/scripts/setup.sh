#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Install what building and testing the kernel needs on Debian 12, and nothing else.
# usage: setup.sh [bench|system|emulator|selftests|lint|distribution|userland|deb]
#   bench: the programs of the workloads as well; system: these, and what records a single program;
#   emulator: that alone, and what builds its plugin
#   and an initramfs; selftests: what those of mm/ link with; lint: the
#   checkers; distribution: Debian's own configuration; userland: a disk with Debian as well;
#   deb: what makes packages, and EFI firmware and boot loader to try them
# The emulator is that of the backports suite: the one of Debian 12 cannot run CPUs in parallel.
set -euo pipefail
case ${1:-} in
'' | bench | system | emulator | selftests | lint | distribution | userland | deb) ;;
*) echo "setup.sh: there is no part '$1'; see the usage in $0" >&2; exit 2 ;;
esac
packages=(linux-source-6.12 gcc make flex bison bc libelf-dev libssl-dev cpio zstd xz-utils
	rsync patch kmod git ccache qemu-system-x86 busybox-static e2fsprogs python3)
[ "${1:-}" = emulator ] && packages=(gcc libc6-dev qemu-system-x86 busybox-static cpio)
if [ "${1:-}" = bench ] || [ "${1:-}" = system ]; then
	packages+=(memcached libmemcached-tools nginx-light apache2-utils redis-server
		redis-tools tcc libtcc-dev)
fi
[ "${1:-}" = system ] && packages+=(qemu-user)
[ "${1:-}" = selftests ] && packages+=(libnuma-dev)
[ "${1:-}" = distribution ] && packages+=(linux-config-6.12)
[ "${1:-}" = userland ] || [ "${1:-}" = deb ] && packages+=(linux-config-6.12 mmdebstrap)
[ "${1:-}" = deb ] && packages+=(debhelper libdw-dev ovmf grub-efi-amd64-bin mtools dosfstools
	fdisk)
[ "${1:-}" = lint ] && packages+=(sparse dwarves)
missing=()
for package in "${packages[@]}"; do
	# another tree can stand in for the package, and build.sh gets that of another release
	[ "$package" = linux-source-6.12 ] && [ "${KERNEL_SRC:-}${VERSION:-6.12}" != 6.12 ] && continue
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok' ||
		missing+=("$package")
done
# Without any emulator this fails, which is no error.
emulator=$(qemu-system-x86_64 --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p') || :
((${emulator:-0} >= 10)) || missing+=(qemu-system-x86)
((${#missing[@]})) || exit 0
command -v apt-get > /dev/null || {
	echo "setup.sh: no apt-get here; install by hand: ${missing[*]}" >&2
	exit 2
}
sudo=
((EUID == 0)) || sudo=sudo
echo "setup.sh: installing ${missing[*]}" >&2
# the suite of backports, from where the others come
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
sources=/etc/apt/sources.list.d
if ((${emulator:-0} < 10)) && ! grep -qrs "$suite-backports" /etc/apt/sources.list $sources; then
	if [ -f $sources/debian.sources ]; then
		sed '/^$/,$d' $sources/debian.sources | sed "s/^Suites:.*/Suites: $suite-backports/" |
			$sudo tee $sources/backports.sources > /dev/null
	else
		sed -n "s/^\(deb .*\) $suite \(main.*\)/\1 $suite-backports \2/p" /etc/apt/sources.list |
			head -1 | $sudo tee $sources/backports.list > /dev/null
	fi
fi
$sudo apt-get update -qq
# the daemons are for guests: do not start them here
if [ ! -e /usr/sbin/policy-rc.d ]; then
	printf '#!/bin/sh\nexit 101\n' | $sudo tee /usr/sbin/policy-rc.d > /dev/null
	$sudo chmod +x /usr/sbin/policy-rc.d
	trap '$sudo rm -f /usr/sbin/policy-rc.d' EXIT
fi
# Another installation may be under way, which ends.
install=($sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq
	-o DPkg::Lock::Timeout=600 --no-install-recommends)
# The suite is for this one package and what it needs: with -t it would take qemu-user too, which
# has no plugins there. Once Debian 12's emulator is there, it is an upgrade of less.
emulator() { "${install[@]}" "qemu-system-x86/$suite-backports" > /dev/null; }
upgrade=
if [[ " ${missing[*]} " = *" qemu-system-x86 "* ]]; then
	emulator 2> /dev/null || upgrade=1
fi
"${install[@]}" "${missing[@]}" > /dev/null
[ -z "$upgrade" ] || emulator ||
	echo "setup.sh: no emulator from $suite-backports; guests run their CPUs in turns" >&2
