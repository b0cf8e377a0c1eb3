#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Get, patch, configure and build the kernels of the tests. Idempotent: what
# is up to date is left alone.
#
# usage: build.sh source            the source tree of Linux, unpacked
#        build.sh check             do the patches apply to it?
#        build.sh each              does every file compile after each of them?
#        build.sh stock|ample|core|debug|kcsan|distribution|distribution-stock
#                                  build that kernel; core has the first patches alone, the last two
#                                  have Debian's configuration for the cloud, without its modules
#        build.sh deb DIR [N]       Debian packages of the distribution kernel, revision N (or 1)
#        build.sh export DIR        the series as mails with a cover letter
# VERSION=7.3     that release instead of 6.12
# KERNEL_SRC=DIR  use this tree instead of Debian's package of the source
# BUILD=DIR       where to work (default: build/kernel of the repository, build/kernel-7.3)
# JOBS=N, NICE=N  parallel jobs (default 2), niceness (default 10)
set -euo pipefail
kernel=$(cd "$(dirname "$0")/.." && pwd)
version=${VERSION:-6.12}
case $version in
6.12) tested="6.12.117 (Debian 6.12.117-1~deb12u1)" build=$kernel/../build/kernel ;;
7.3) tested="7.3.4 (Debian 7.3.4-1~bpo13+1)" build=$kernel/../build/kernel-7.3 ;;
*) echo "build.sh: VERSION is 6.12 or 7.3" >&2; exit 2 ;;
esac
build=${BUILD:-$build}
mkdir -p "$build"
build=$(cd "$build" && pwd)
jobs=${JOBS:-2} nice=${NICE:-10} cc=gcc
command -v ccache > /dev/null && cc="ccache gcc"
export CCACHE_DIR=${CCACHE_DIR:-$build/../ccache} CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=3G
export CCACHE_DEPEND=1
# The same sources give the same image, however often they were linked.
export KBUILD_BUILD_TIMESTAMP=2026-01-01 KBUILD_BUILD_USER=ample KBUILD_BUILD_HOST=ample
export KBUILD_BUILD_VERSION=1
# Linux has a VERSION of its own, which one given to our Makefile would replace.
unset MAKEFLAGS MAKEOVERRIDES VERSION

die() { echo "build.sh: $*" >&2; exit 2; }

# The archive of the source. A release that Debian 12 does not carry is in a later suite of the same
# mirror: apt gets its package with lists of its own, and it is unpacked, not installed.
archive() {
	local package=linux-source-$version tar=/usr/src/linux-source-$version.tar.xz apt=$build/apt
	local site suite options
	if [ "$version" = 6.12 ]; then
		[ -f "$tar" ] || {
			echo "build.sh: installing $package" >&2
			apt-get install -y --no-install-recommends "$package" >&2
		} || die "no $tar; install $package or set KERNEL_SRC"
		echo "$tar"
		return
	fi
	if [ ! -f "$apt$tar" ]; then
		echo "build.sh: getting $package" >&2
		mkdir -p "$apt"/state/lists/partial "$apt"/cache/archives/partial
		site=$(apt-get indextargets --format '$(SITE) $(ORIGIN)' | sed -n 's/ Debian$//p' | head -1)
		for suite in trixie-backports sid; do
			echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $suite main"
		done > "$apt/list"
		options=(-o "Dir::Etc::SourceList=$apt/list" -o Dir::Etc::SourceParts=/dev/null
			-o "Dir::State=$apt/state" -o "Dir::Cache=$apt/cache"
			-o Dir::State::status=/var/lib/dpkg/status -o APT::Sandbox::User=root)
		(cd "$apt" && apt-get -qq "${options[@]}" update &&
			apt-get -qq "${options[@]}" download "$package" &&
			dpkg-deb -x "${package}"_*.deb .) >&2 || die "no $package; set KERNEL_SRC"
	fi
	echo "$apt$tar"
}

# Unpack the package once; another tree is used where it lies.
source_tree() {
	local tar
	if [ -n "${KERNEL_SRC:-}" ]; then
		[ -f "$KERNEL_SRC/mm/page_alloc.c" ] || die "KERNEL_SRC=$KERNEL_SRC holds no kernel source"
		echo "$KERNEL_SRC"
		return
	fi
	if [ ! -f "$build/source/.unpacked" ]; then
		tar=$(archive)
		rm -rf "$build/source"
		mkdir -p "$build/source"
		tar -C "$build/source" --strip-components=1 -xJf "$tar" \
			--exclude='*/drivers/gpu/drm/amd/include/*'
		touch "$build/source/.unpacked"
	fi
	echo "$build/source"
}

# The patches that kernel NAME has, in order: those of the core are 01xx. A release may have some of
# its own.
patches_of() {
	local part='*'
	[ "$1" != core ] || part='01*'
	case $1 in
	*stock) ;;
	*) find "$kernel/patches" "$kernel/patches-$version" -name "$part.patch" -printf '%f\n' \
		2> /dev/null | sort -u ;;
	esac
}

# A patch as it is for this release: what patches-VERSION has of the same name replaces its changes
# of the files named there.
hooks() {
	local general=$kernel/patches/$1 own=$kernel/patches-$version/$1
	[ -f "$own" ] || own=/dev/null
	[ -f "$general" ] || general=/dev/null
	awk '/^diff / { skip = FILENAME != own && $4 in named; named[$4] } !skip' own="$own" \
		"$own" "$general"
}

# The new files that a patch brings: their first form lies in kernel/src.
adds() { [ ! -f "$kernel/patches/$1" ] || sed -n '/^diff /q; s/^Adds: //p' "$kernel/patches/$1"; }

message() {
	local file=$kernel/patches/$1
	[ -f "$file" ] || file=$kernel/patches-$version/$1
	sed '/^---$/,$d' "$file"
}

# Without fuzz: a hook that no longer fits is an error.
apply() {
	local tree=$1 patch=$2 file release text
	for file in $(adds "$patch"); do
		mkdir -p "$tree/$(dirname "$file")"
		cp --remove-destination "$kernel/src/$file" "$tree/$file"
	done
	text=$(hooks "$patch")
	[[ $text = *$'\ndiff '* ]] || return 0
	if ! patch -s -p1 -F0 -N --no-backup-if-mismatch -d "$tree" <<< "$text"; then
		release=$(awk '/^(VERSION|PATCHLEVEL|SUBLEVEL) =/ { printf "%s%s", sep, $3; sep = "." }' \
			"$tree/Makefile")
		die "$patch does not fit Linux $release; tested on $tested"
	fi
}

# A copy of just the files of Linux that the series touches.
touched() {
	local patch
	for patch in $(patches_of ample); do hooks "$patch"; done | sed -n 's,^+++ b/,,p' | sort -u |
		while read -r file; do [ ! -e "$1/$file" ] || echo "$file"; done |
		(cd "$1" && cpio -pdm --quiet "$2")
	cp "$1/Makefile" "$2/"
}

check() {
	local tmp patch
	tmp=$(mktemp -d)
	touched "$(source_tree)" "$tmp"
	for patch in $(patches_of ample); do apply "$tmp" "$patch"; done
	(cd "$kernel/src" && find . -type f) | (cd "$tmp" && xargs ls > /dev/null) ||
		die "a file of kernel/src is brought by no patch"
	rm -rf "$tmp"
	echo "build.sh: all $(patches_of ample | wc -l) patches apply"
}

# each: after every patch, compile what it touches or adds.
each() {
	local tree=$build/each patch objects
	rm -rf "$tree"
	cp -al "$(source_tree)" "$tree"
	cat "$kernel"/config/{base,ample}.config > "$tree/.fragments"
	for patch in $(patches_of ample); do
		apply "$tree" "$patch"
		make -s -C "$tree" allnoconfig KCONFIG_ALLCONFIG=.fragments > /dev/null
		# with a header, users of it among the hooked files
		mapfile -t objects < <({ hooks "$patch" | sed -n 's,^+++ b/,,p'; adds "$patch"; } |
			sed -n '/_test\.c$/d; s/\.h$/&\nmm\/page_alloc.o\nmm\/contiguitas_boot.o/
				s/\.c$/.o/; p' | grep '\.o$' | sort -u)
		((${#objects[@]} == 0)) ||
			nice -n "$nice" make -s -C "$tree" -j"$jobs" CC="$cc" HOSTCC="$cc" \
				"${objects[@]}" ||
			die "$patch: a file it touches does not compile"
		echo "build.sh: $patch: ${#objects[@]} objects"
	done
	rm -rf "$tree"
}

# A tree of our own: hard links to the source, real copies of what is patched. By content, so that
# an unchanged file is not compiled again; what only an earlier series touched becomes stock again.
prepare() {
	local name=$1 src tree=$build/$1 tmp patch file
	src=$(source_tree)
	if [ ! -d "$tree" ]; then
		echo "build.sh: preparing $tree" >&2
		rm -rf "$tree.new"
		cp -al "$src" "$tree.new" 2>/dev/null || { rm -rf "$tree.new"; cp -a "$src" "$tree.new"; }
		find "$tree.new" -name "*.o" -delete
		mv "$tree.new" "$tree"
	fi
	tmp=$(mktemp -d)
	touched "$src" "$tmp"
	for patch in $(patches_of "$name"); do apply "$tmp" "$patch"; done
	if [ -e "$tree/.touched" ]; then
		while read -r file; do
			[ ! -e "$src/$file" ] || echo "$file"
		done < "$tree/.touched" | rsync -lpc --files-from=- "$src/" "$tree/"
	fi
	(cd "$tmp" && find . -type f -printf '%P\n') > "$tree/.touched"
	rsync -rlpc "$tmp/" "$tree/"
	rm -rf "$tmp"
}

# What the tree is configured from: fragments on top of nothing, or of Debian's file.
fragments() {
	local name=$1 parts=("$kernel/config/base.config")
	[[ $name = distribution* ]] && parts=("$kernel/config/distribution.config")
	[[ $name = *stock ]] || parts+=("$kernel/config/ample.config")
	[[ $name = debug || $name = kcsan ]] && parts+=("$kernel/config/$name.config")
	[[ $name = distribution* ]] && [ "$version" != 6.12 ] &&
		die "Debian's configuration is taken for 6.12 only"
	[[ $name = distribution* ]] &&
		xz -dc /usr/src/linux-config-6.12/config.amd64_none_cloud-amd64.xz
	cat "${parts[@]}"
}

configure() {
	local name=$1 tree=$build/$1 config
	config=$(fragments "$name")
	[ "$(cat "$tree/.fragments" 2>/dev/null)" != "$config" ] || return 0
	echo "$config" > "$tree/.fragments"
	if [[ $name = distribution* ]]; then
		cp "$tree/.fragments" "$tree/.config"
		make -s -C "$tree" CC="$cc" HOSTCC="$cc" olddefconfig 2> /dev/null
	else
		make -s -C "$tree" allnoconfig KCONFIG_ALLCONFIG=.fragments > /dev/null
	fi
}

compile() {
	local name=$1 tree=$build/$1 targets=(bzImage modules)
	configure "$name"
	[[ $name = distribution* ]] && targets=(bzImage modules_prepare)
	nice -n "$nice" make -s -C "$tree" -j"$jobs" CC="$cc" HOSTCC="$cc" "${targets[@]}"
	[[ $name = distribution* ]] && cp "$tree/vmlinux.symvers" "$tree/Module.symvers"
	mkdir -p "$build/module-$name"
	rsync -rc "$kernel/guest/module/" "$build/module-$name/"
	make -s -C "$tree" M="$build/module-$name" CC="$cc" modules
	echo "build.sh: $tree/arch/x86/boot/bzImage"
}

# Packages of image, headers and libc headers, as Linux makes them, and of the tools. The release is
# named after the series, so that they lie beside Debian's own.
packages() {
	local out=$1 revision=$2 tree=$build/distribution release
	release=$(make -s -C "$tree" kernelversion)
	rm -f "$build"/linux-{image,headers,libc-dev}*.deb
	KBUILD_BUILD_VERSION=$revision nice -n "$nice" make -s -C "$tree" -j"$jobs" CC="$cc" \
		HOSTCC="$cc" LOCALVERSION=-contiguitas KDEB_SOURCENAME=linux-contiguitas \
		KDEB_PKGVERSION="$release-$revision" bindeb-pkg
	mv "$build"/linux-{image,headers,libc-dev}*.deb "$out/"
	"$kernel/scripts/tools.sh" "$out" "$release-$revision"
	ls "$out"/*.deb
}

# As mails: each patch with the new files that it brings.
export_series() {
	local out=$1 tmp patch
	tmp=$(mktemp -d)
	mkdir -p "$out"
	touched "$(source_tree)" "$tmp"
	cd "$tmp"
	git init -q && git config user.name "Ample maintainers"
	git config user.email maintainers@users.noreply.ample.example
	git add -Af . && git commit -qm base
	for patch in $(patches_of ample); do
		apply "$tmp" "$patch"
		git add -Af .
		message "$patch" | git mailinfo -u .git/body .git/diff > .git/head
		git commit -q --date="$(sed -n 's/^Date: //p' .git/head)" \
			-m "$(sed -n 's/^Subject: //p' .git/head)" -m "$(cat .git/body)"
	done
	git format-patch -q -s --cover-letter -o "$out" HEAD~$(($(git rev-list --count HEAD) - 1))
	cp "$kernel/patches/cover-letter.txt" "$out/0000-cover-letter.patch"
	rm -rf "$tmp"
	ls "$out"
}

case ${1:-} in
source) source_tree ;;
check) check ;;
each) each ;;
stock | ample | core | debug | kcsan | distribution | distribution-stock)
	prepare "$1"
	compile "$1"
	;;
deb)
	prepare distribution
	configure distribution
	packages "$(mkdir -p "${2:?DIR}" && cd "$2" && pwd)" "${3:-1}"
	;;
export) export_series "$(mkdir -p "${2:?DIR}" && cd "$2" && pwd)" ;;
*) sed -n '6,18s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
