#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What of the packages can be tested without building them: the bill of materials, the units, and
# the packages made from a debug build, twice.
# Usage: dist-check.sh FOLDER (with ample, ample-malloc and deps/libample_malloc.so, as cargo test
# leaves them)
set -euo pipefail
built=$(realpath "${1:?usage: dist-check.sh FOLDER}")
cd "$(dirname "$0")/.."
. scripts/dist-version.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
refused() { # refused WHAT: the bill of materials that was changed in this way is refused
	! scripts/dist-sbom.py check "$work/bad.json" 2>/dev/null || {
		echo "dist-check: a document with $1 is taken" >&2
		exit 1
	}
}

# The bill of materials: whole, the same twice, and judged.
write=(scripts/dist-sbom.py write --name ample --version 1 --epoch 86400 --packages ample-cli
	--features "watch bpf")
"${write[@]}" --out "$work/a.json" --notices "$work/notices" 2>/dev/null
"${write[@]}" --out "$work/b.json" 2>/dev/null
cmp "$work/a.json" "$work/b.json"
scripts/dist-sbom.py check "$work/a.json"
grep -q '"pkg:cargo/clap@' "$work/a.json"
grep -q '^Of .*clap' "$work/notices"
sed 's/"SPDX-2.3"/"SPDX-9"/' "$work/a.json" >"$work/bad.json"
refused "another version"
sed '0,/"SPDXRef-clap-/s//"SPDXRef-elsewhere-/' "$work/a.json" >"$work/bad.json"
refused "a package that nothing uses"
sed '0,/"licenseDeclared": "[^"]*"/s//"licenseDeclared": ""/' "$work/a.json" >"$work/bad.json"
refused "no licence"
head -c 1000 "$work/a.json" >"$work/bad.json"
refused "half its bytes"

# The image: the same twice, whole, and judged.
for name in a b; do
	scripts/dist-image.py write --version 1 --epoch 86400 --out "$work/$name.tar" \
		--notices "$work/notices" \
		"amd64=$built/ample-malloc" "arm64=$built/ample-malloc"
done
cmp "$work/a.tar" "$work/b.tar"
scripts/dist-image.py check "$work/a.tar"
scripts/dist-image.py unpack "$work/a.tar" arm64 "$work/image"
cmp "$work/image/usr/bin/ample" "$built/ample-malloc"
cmp "$work/image/usr/share/doc/ample/NOTICES" "$work/notices"
head -c 100000 "$work/a.tar" >"$work/half.tar"
python3 - "$work" <<'CHANGE'
import sys
with open(sys.argv[1] + "/a.tar", "rb") as whole, open(sys.argv[1] + "/bit.tar", "wb") as out:
    content = bytearray(whole.read())
    content[len(content) // 2] ^= 1
    out.write(content)
CHANGE
for name in half bit; do
	! scripts/dist-image.py check "$work/$name.tar" 2>/dev/null || {
		echo "dist-check: an image that is not whole is taken ($name)" >&2
		exit 1
	}
done

# The units, with a program that is there.
cp -r packaging/systemd "$work/units"
sed -i 's#/usr/bin/ample #/bin/true #' "$work"/units/*.service
SYSTEMD_UNIT_PATH=$work/units: systemd-analyze verify --man=no "$work"/units/ample-*.{service,timer}

# The packages: one name a file, and the same bytes twice. A debug build is 200 MB, which level 6
# compresses for two minutes.
for out in one two; do
	XZ_LEVEL=0 NOTICES=$work/notices scripts/dist-deb.sh "$built/ample" \
		"$built/deps/libample_malloc.so" "$built/ample-malloc" "$work/$out" >/dev/null
done
diff -r "$work/one" "$work/two"
for deb in "$work"/one/*.deb; do
	dpkg-deb --fsys-tarfile "$deb" | tar -t | grep -v '/$' >>"$work/names"
done
sort "$work/names" | uniq -d | grep . && {
	echo "dist-check: two packages have the same file" >&2
	exit 1
}
for name in ./usr/bin/ample ./usr/bin/ample-malloc ./usr/share/man/man1/ample-agent.1.gz \
	./usr/include/ample_malloc.h ./lib/systemd/system/ample-.service.d/hardening.conf; do
	grep -qx -- "$name" "$work/names" || {
		echo "dist-check: no package has $name" >&2
		exit 1
	}
done
echo "dist-check: bill of materials, units and packages are as they should be"
