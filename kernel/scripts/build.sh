#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Get, patch, configure and build the kernels of the tests. Idempotent: what
# is up to date is left alone.
#
# usage: build.sh source            the source tree of Linux 6.12, unpacked
#        build.sh check             do the patches apply to it?
#        build.sh each              does every file compile after each of them?
#        build.sh stock|ample|debug|kcsan|distribution|distribution-stock
#                                  build that kernel; the last two have Debian's configuration for
#                                  the cloud, without its modules
#        build.sh export DIR        the series as mails with a cover letter
# KERNEL_SRC=DIR  use this tree instead of Debian's package linux-source-6.12
# BUILD=DIR       where to work (default: build/kernel of the repository)
# JOBS=N, NICE=N  parallel jobs (default 2), niceness (default 10)
set -euo pipefail
kernel=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$kernel/../build/kernel}
mkdir -p "$build"
build=$(cd "$build" && pwd)
jobs=${JOBS:-2} nice=${NICE:-10}
tested="6.12.117 (Debian 6.12.117-1~deb12u1)"
export CCACHE_DIR=${CCACHE_DIR:-$build/../ccache} CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=3G
export CCACHE_DEPEND=1
# The same sources give the same image, however often they were linked.
export KBUILD_BUILD_TIMESTAMP=2026-01-01 KBUILD_BUILD_USER=ample KBUILD_BUILD_HOST=ample
export KBUILD_BUILD_VERSION=1

die() { echo "build.sh: $*" >&2; exit 2; }

# Unpack the package once; another tree is used where it lies.
source_tree() {
	local tar=/usr/src/linux-source-6.12.tar.xz
	if [ -n "${KERNEL_SRC:-}" ]; then
		[ -f "$KERNEL_SRC/mm/page_alloc.c" ] || die "KERNEL_SRC=$KERNEL_SRC holds no kernel source"
		echo "$KERNEL_SRC"
		return
	fi
	if [ ! -f "$tar" ]; then
		echo "build.sh: installing linux-source-6.12" >&2
		apt-get install -y --no-install-recommends linux-source-6.12 >&2 ||
			die "no $tar; install linux-source-6.12 or set KERNEL_SRC"
	fi
	if [ ! -f "$build/source/.unpacked" ]; then
		rm -rf "$build/source"
		mkdir -p "$build/source"
		tar -C "$build/source" --strip-components=1 -xJf "$tar" \
			--exclude='*/drivers/gpu/drm/amd/include/*'
		touch "$build/source/.unpacked"
	fi
	echo "$build/source"
}

# Each patch in order, without fuzz: a hook that no longer fits is an error.
apply_series() {
	local tree=$1 patch release
	release=$(awk '/^(VERSION|PATCHLEVEL|SUBLEVEL) =/ { printf "%s%s", sep, $3; sep = "." }' \
		"$tree/Makefile")
	for patch in "$kernel"/patches/*.patch; do
		patch -s -p1 -F0 -N --no-backup-if-mismatch -d "$tree" < "$patch" ||
			die "$(basename "$patch") does not fit Linux $release; tested on $tested"
	done
	rsync -rc "$kernel/src/" "$tree/"
}

# check: on copies of just the files that the patches touch
check() {
	local src tmp
	src=$(source_tree)
	tmp=$(mktemp -d)
	sed -n 's,^+++ b/,,p' "$kernel"/patches/*.patch | sort -u |
		(cd "$src" && cpio -pdm --quiet "$tmp")
	cp "$src/Makefile" "$tmp/"
	apply_series "$tmp"
	rm -rf "$tmp"
	echo "build.sh: all $(ls "$kernel"/patches/*.patch | wc -l) patches apply"
}

# each: after every patch, compile the files that it touches; with the last one, which adds the
# configuration symbol, all of them again and the new ones.
each() {
	local src tree=$build/each patch objects all=() cc=gcc
	src=$(source_tree)
	command -v ccache > /dev/null && cc="ccache gcc"
	rm -rf "$tree"
	cp -al "$src" "$tree"
	cp -r --remove-destination "$kernel/src/." "$tree/"
	cp "$kernel/config/base.config" "$tree/.fragments"
	make -s -C "$tree" allnoconfig KCONFIG_ALLCONFIG=.fragments > /dev/null
	for patch in "$kernel"/patches/*.patch; do
		patch -s -p1 -F0 -N --no-backup-if-mismatch -d "$tree" < "$patch" ||
			die "$(basename "$patch") does not fit"
		mapfile -t objects < <(sed -n 's,^+++ b/\(.*\)\.c$,\1.o,p' "$patch")
		all+=("${objects[@]}")
		if [ "${#objects[@]}" = 0 ]; then
			cat "$kernel/config/ample.config" >> "$tree/.fragments"
			make -s -C "$tree" allnoconfig KCONFIG_ALLCONFIG=.fragments > /dev/null
			mapfile -t objects < <(cd "$kernel/src" && ls mm/*.c |
				sed '/_test\.c/d; s/c$/o/')
			mapfile -t -O "${#objects[@]}" objects < <(printf "%s\n" "${all[@]}" | sort -u)
		fi
		nice -n "$nice" make -s -C "$tree" -j"$jobs" CC="$cc" HOSTCC="$cc" "${objects[@]}" ||
			die "$(basename "$patch"): a file it touches does not compile"
		echo "build.sh: $(basename "$patch"): ${#objects[@]} objects"
	done
	rm -rf "$tree"
}

# A tree of our own: hard links to the source, real copies of what is patched.
prepare() {
	local name=$1 src tree=$build/$1 stamp
	src=$(source_tree)
	stamp=$(cat "$kernel"/patches/*.patch | sha256sum | cut -c1-16)
	[[ $name = *stock ]] && stamp=stock
	if [ "$(cat "$tree/.series" 2>/dev/null)" != "$stamp" ]; then
		echo "build.sh: preparing $tree" >&2
		rm -rf "$tree.new"
		cp -al "$src" "$tree.new" 2>/dev/null || { rm -rf "$tree.new"; cp -a "$src" "$tree.new"; }
		find "$tree.new" -name "*.o" -delete
		[[ $name = *stock ]] || apply_series "$tree.new"
		# by content, so that an unchanged file is not compiled again
		if [ -d "$tree" ]; then
			rsync -rlpc "$tree.new/" "$tree/"
			rm -rf "$tree.new"
		else
			mv "$tree.new" "$tree"
		fi
		echo "$stamp" > "$tree/.series"
	fi
	[[ $name = *stock ]] || rsync -rc "$kernel/src/" "$tree/"
}

# What the tree is configured from: fragments on top of nothing, or of Debian's file.
fragments() {
	local name=$1 parts=("$kernel/config/base.config")
	[[ $name = distribution* ]] && parts=("$kernel/config/distribution.config")
	[[ $name = *stock ]] || parts+=("$kernel/config/ample.config")
	[[ $name = debug || $name = kcsan ]] && parts+=("$kernel/config/$name.config")
	[[ $name = distribution* ]] &&
		xz -dc /usr/src/linux-config-6.12/config.amd64_none_cloud-amd64.xz
	cat "${parts[@]}"
}

compile() {
	local name=$1 tree=$build/$1 targets=(bzImage modules) config cc=gcc
	command -v ccache > /dev/null && cc="ccache gcc"
	config=$(fragments "$name")
	if [ "$(cat "$tree/.fragments" 2>/dev/null)" != "$config" ]; then
		echo "$config" > "$tree/.fragments"
		if [[ $name = distribution* ]]; then
			cp "$tree/.fragments" "$tree/.config"
			make -s -C "$tree" CC="$cc" HOSTCC="$cc" olddefconfig 2> /dev/null
		else
			make -s -C "$tree" allnoconfig KCONFIG_ALLCONFIG=.fragments > /dev/null
		fi
	fi
	[[ $name = distribution* ]] && targets=(bzImage modules_prepare)
	nice -n "$nice" make -s -C "$tree" -j"$jobs" CC="$cc" HOSTCC="$cc" "${targets[@]}"
	[[ $name = distribution* ]] && cp "$tree/vmlinux.symvers" "$tree/Module.symvers"
	mkdir -p "$build/module-$name"
	rsync -rc "$kernel/guest/module/" "$build/module-$name/"
	make -s -C "$tree" M="$build/module-$name" CC="$cc" modules
	echo "build.sh: $tree/arch/x86/boot/bzImage"
}

# The new files become the first patch, so that the mails stand alone.
export_series() {
	local out=$1 src tmp
	src=$(source_tree)
	tmp=$(mktemp -d)
	mkdir -p "$out"
	sed -n 's,^+++ b/,,p' "$kernel"/patches/*.patch | sort -u |
		(cd "$src" && cpio -pdm --quiet "$tmp")
	cd "$tmp"
	git init -q && git config user.name "Ample maintainers"
	git config user.email maintainers@users.noreply.ample.example
	git add -Af . && git commit -qm base
	cp -r "$kernel/src/." . && git add -Af .
	git commit -qm "mm: add the files of Contiguitas" \
		-m "The border, the resizer, its policy, pressure and control files. Not yet
built: the hooks follow, the last of them adds the Kconfig entry."
	git am -q "$kernel"/patches/*.patch
	git format-patch -q -s --cover-letter -o "$out" HEAD~$(($(git rev-list --count HEAD) - 1))
	cp "$kernel/patches/cover-letter.txt" "$out/0000-cover-letter.patch"
	rm -rf "$tmp"
	ls "$out"
}

case ${1:-} in
source) source_tree ;;
check) check ;;
each) each ;;
stock | ample | debug | kcsan | distribution | distribution-stock) prepare "$1"; compile "$1" ;;
export) export_series "$(mkdir -p "${2:?DIR}" && cd "$2" && pwd)" ;;
*) sed -n '5,16s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
