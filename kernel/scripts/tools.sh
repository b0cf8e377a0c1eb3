#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Build the package of the tools: contiguitas(8), its scripts, the parameter for the boot loader.
# usage: tools.sh DIR VERSION   into DIR
set -euo pipefail
kernel=$(cd "$(dirname "$0")/.." && pwd)
[ $# = 2 ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
install -D -m 755 "$kernel/tools/contiguitas" "$root/usr/sbin/contiguitas"
install -D -m 644 "$kernel/tools/border.bt" "$root/usr/lib/contiguitas/border.bt"
install -D -m 755 "$kernel/src/tools/testing/selftests/mm/contiguitas/border.sh" \
	"$root/usr/lib/contiguitas/border.sh"
install -D -m 644 "$kernel/tools/contiguitas.cfg" "$root/etc/default/grub.d/contiguitas.cfg"
mkdir -p "$root/usr/share/man/man8" "$root/DEBIAN"
gzip -9n < "$kernel/tools/contiguitas.8" > "$root/usr/share/man/man8/contiguitas.8.gz"
echo /etc/default/grub.d/contiguitas.cfg > "$root/DEBIAN/conffiles"
cat > "$root/DEBIAN/control" <<-TEXT
	Package: contiguitas-tools
	Version: $2
	Architecture: all
	Maintainer: Ample maintainers <maintainers@users.noreply.ample.example>
	Section: admin
	Priority: optional
	Suggests: bpftrace, linux-perf
	Description: show and switch the confinement of unmovable memory
	 For kernels that keep unmovable memory in a region of its own. The package
	 turns that on at the next boot, by a parameter in the boot loader's
	 configuration.
TEXT
# The menu of the boot loader has the parameter as long as the package is there.
for script in postinst postrm; do
	cat > "$root/DEBIAN/$script" <<-'SH'
		#!/bin/sh
		set -e
		case $1 in
		configure | remove | purge) ;;
		*) exit 0 ;;
		esac
		! command -v update-grub > /dev/null || update-grub
	SH
done
chmod 755 "$root"/DEBIAN/post*
dpkg-deb --root-owner-group -Zxz -b "$root" "$1/contiguitas-tools_$2_all.deb" > /dev/null
