#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the Debian packages from what has been built. The same input gives the same bytes.
# Usage: dist-deb.sh AMPLE MALLOC_LIBRARY MALLOC_TOOL OUT
# AMPLE and the others are stripped; OUT is where the packages go. XZ_LEVEL (6) is how hard they are
# compressed.
set -euo pipefail
ample=$(realpath "$1") library=$(realpath "$2") tool=$(realpath "$3")
mkdir -p "$4"
out=$(realpath "$4")
cd "$(dirname "$0")/.."
. scripts/dist-version.sh
arch=$(dpkg --print-architecture)
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
notices=${NOTICES:-}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

text() { # text FILE DESTINATION: a compressed text without name and time
	mkdir -p "$(dirname "$2")"
	gzip -9nc "$1" >"$2"
	chmod 644 "$2"
}

documents() { # documents PACKAGE: what every package says of itself
	local doc=$stage/$1/usr/share/doc/$1
	mkdir -p "$doc"
	# Debian has a name of its own for the MIT licence; its text begins in the fifth line.
	tail -n +5 LICENSES/MIT.txt | sed 's/^$/./; s/^/ /' >"$stage/mit"
	sed -e "/^@MIT@$/{r $stage/mit" -e 'd}' packaging/debian/copyright >"$doc/copyright"
	text CHANGELOG.md "$doc/changelog.gz"
	{
		printf '%s (%s) unstable; urgency=medium\n\n' "$1" "$VERSION"
		printf '  * Made from the source: see changelog.gz.\n\n'
		printf ' -- %s  %s\n' "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
	} >"$stage/changelog"
	text "$stage/changelog" "$doc/changelog.Debian.gz"
	[[ -z $notices ]] || text "$notices" "$doc/third-party.txt.gz"
	local overrides=packaging/debian/$1.lintian-overrides
	[[ ! -e $overrides ]] || install -Dm644 "$overrides" "$stage/$1/usr/share/lintian/overrides/$1"
}

needs() { # needs PACKAGE FILE...: the packages whose libraries the files use
	local package=$1
	shift
	mkdir -p "$stage/work/debian"
	printf 'Source: ample\n\nPackage: %s\nArchitecture: any\n' "$package" \
		>"$stage/work/debian/control"
	(cd "$stage/work" && dpkg-shlibdeps -O "${@/#/-e}" 2>"$stage/shlibdeps.log") |
		sed -n 's/^shlibs:Depends=//p' | grep . || {
		cat "$stage/shlibdeps.log" >&2
		return 1
	}
}

pack() { # pack PACKAGE DEPENDS: control files, checksums, the archive
	local root=$stage/$1 name size script
	mkdir -p "$root/DEBIAN"
	size=$(du -k --apparent-size -s --exclude=DEBIAN "$root" | cut -f1)
	sed "s|@VERSION@|$VERSION|; s|@ARCH@|$arch|; s|@DEPENDS@|$2|; s|@SIZE@|$size|" \
		"packaging/debian/$1.control" >"$root/DEBIAN/control"
	for name in postinst prerm postrm triggers shlibs; do
		script=packaging/debian/$1.$name
		[[ -e $script ]] || continue
		sed "s|@VERSION@|$VERSION|" "$script" >"$root/DEBIAN/$name"
		[[ $name != p* ]] || chmod 755 "$root/DEBIAN/$name"
	done
	(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | sort |
		xargs -d '\n' md5sum) >"$root/DEBIAN/md5sums"
	find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	dpkg-deb --root-owner-group -Zxz -z"${XZ_LEVEL:-6}" --threads-max=1 \
		--build "$root" "$out" >/dev/null
}

manual() { # manual FILE: a manual page of the tool from its own help
	{
		printf '.TH AMPLE\\-MALLOC 1\n.SH NAME\nample\\-malloc \\- %s\n' \
			'run programs under the allocator that fills huge pages'
		printf '.SH SYNOPSIS\n.B ample\\-malloc\n.I COMMAND\n[\n.I ARGUMENT\n\\&... ]\n'
		printf '.SH DESCRIPTION\n.nf\n'
		"$tool" --help | sed 's/\\/\\\\/g; s/-/\\-/g; s/^\./\\\&./'
		printf '.fi\n.SH SEE ALSO\n.BR ample (1)\n'
	} >"$1"
}

maintainer=$(sed -n 's/^Maintainer: //p' packaging/debian/ample.control)

# ample
root=$stage/ample
install -Dm755 "$ample" "$root/usr/bin/ample"
"$ample" man "$stage/man"
rm "$stage/man/ample-malloc.1" # the page of that command is in the other package
for page in "$stage"/man/*.1; do
	text "$page" "$root/usr/share/man/man1/${page##*/}.gz"
done
mkdir -p "$root/usr/share/"{bash-completion/completions,zsh/vendor-completions} \
	"$root/usr/share/fish/vendor_completions.d"
"$ample" completions bash >"$root/usr/share/bash-completion/completions/ample"
"$ample" completions zsh >"$root/usr/share/zsh/vendor-completions/_ample"
"$ample" completions fish >"$root/usr/share/fish/vendor_completions.d/ample.fish"
(cd packaging/systemd && find . -type f -exec install -Dm644 {} "$root/lib/systemd/system/{}" \;)
documents ample
doc=$root/usr/share/doc/ample
install -Dm644 -t "$doc/examples" packaging/grafana/ample.json packaging/prometheus/ample.rules.yml
install -Dm644 -t "$doc/book" docs/*.md
install -Dm644 -t "$doc/book/images" docs/images/*.png
pack ample "$(needs ample "$ample")"

# libample-malloc
root=$stage/libample-malloc
name=$(objdump -p "$library" | sed -n 's/^ *SONAME *//p')
install -Dm644 "$library" "$root/usr/lib/$triplet/$name"
ln -s "$name" "$root/usr/lib/$triplet/libample_malloc.so"
install -Dm644 crates/malloc/include/ample_malloc.h "$root/usr/include/ample_malloc.h"
install -Dm755 "$tool" "$root/usr/bin/ample-malloc"
manual "$stage/ample-malloc.1"
text "$stage/ample-malloc.1" "$root/usr/share/man/man1/ample-malloc.1.gz"
documents libample-malloc
pack libample-malloc "$(needs libample-malloc "$library" "$tool")"
ls "$out"/*.deb
