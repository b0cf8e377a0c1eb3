#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the packages into target/dist/packages, judges them, and tries them in a clean system.
# Usage: dist.sh [--no-smoke], which leaves the trial and the second build out. FEATURES names the
# cargo features of the command.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/dist-version.sh
export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
out=target/dist/packages
stripped=target/dist/stripped
features=${FEATURES:-watch fleet bpf}
plain=${VERSION%-*}
smoke=1
[[ ${1:-} != --no-smoke ]] || smoke=0
# Said now, and not after an hour: the second build is one of the commit.
if ((smoke)) && [[ -n $(git status --porcelain --untracked-files=no) ]]; then
	echo "dist: the tree differs from its commit, and the second build would differ too; commit," \
		"or leave the trial and the second build out (make dist ARGS=--no-smoke)" >&2
	exit 1
fi
rm -rf "$out" "$stripped"
mkdir -p "$out" "$stripped"

# Apart, so that the features of one are not those of the other: the commands must not contain the
# malloc of the library. A target is named, so that what the compiler itself loads is built once for
# these and for the static programs.
host=$(rustc -vV | sed -n 's/^host: //p')
built=target/dist/$host
scripts/dist-build.sh build --locked --release --target "$host" -p ample-cli \
	--no-default-features --features "$features"
scripts/dist-build.sh build --locked --profile malloc --target "$host" -p ample-malloc
cp "$built/malloc/libample_malloc.so" "$stripped/"
scripts/dist-build.sh build --locked --profile malloc --target "$host" -p ample-malloc-tools
strip --remove-section=.comment -o "$stripped/ample" "$built/release/ample"
strip --remove-section=.comment -o "$stripped/ample-malloc" "$built/malloc/ample-malloc"
strip --strip-unneeded --remove-section=.comment "$stripped/libample_malloc.so"

no_path_of_the_build() {
	local file folder
	for file in "$stripped"/*; do
		for folder in "$PWD" "${CARGO_HOME:-$HOME/.cargo}"; do
			if grep -rqF -- "$folder/" "$file"; then
				echo "dist: $file names $folder, where it was built" >&2
				exit 1
			fi
		done
	done
}
no_path_of_the_build

sbom() { # sbom NAME TARGET FEATURES PACKAGE...
	local name=$1 target=$2 of=$3
	shift 3
	scripts/dist-sbom.py write --name "$name" --version "$plain" --epoch "$SOURCE_DATE_EPOCH" \
		--out "$out/${name}_$plain.spdx.json" --notices "$stripped/$name.notices" \
		--target "$target" --features "$of" --packages "$@"
}
sbom ample "$host" "$features" ample-cli
sbom libample-malloc "$host" "" ample-malloc ample-malloc-tools
sbom python-ample "$host" "" ample-python
# Of the programs for both architectures, and of the image.
sbom ample-static x86_64-unknown-linux-musl watch ample-cli

NOTICES=$stripped/ample.notices scripts/dist-deb.sh "$stripped/ample" \
	"$stripped/libample_malloc.so" "$stripped/ample-malloc" "$out"
lintian --allow-root --profile debian --fail-on error,warning "$out"/*.deb
NOTICES=$stripped/ample-static.notices scripts/dist-static.sh "$out" "$stripped"
scripts/dist-image.py write --version "$plain" --epoch "$SOURCE_DATE_EPOCH" \
	--notices "$stripped/ample-static.notices" \
	--out "$out/ample-$plain-image.tar" "amd64=$stripped/ample-x86_64" \
	"arm64=$stripped/ample-aarch64"
scripts/dist-build.sh maturin build --quiet --locked --release --target "$host" --strip \
	-m crates/python/Cargo.toml --out "$out"
python3 -m zipfile -e "$out"/ample-*.whl "$stripped/wheel"
no_path_of_the_build
rm -r "$stripped/wheel"
(cd "$out" && sha256sum -- *.deb *.json *.tar.gz *.tar *.whl >SHA256SUMS)
if ((smoke)); then
	scripts/dist-smoke-static.sh "$out"
	scripts/dist-smoke.sh "$out"
	scripts/dist-twice.sh "$out"
fi
echo "packages: $out"
