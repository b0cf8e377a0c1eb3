#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs what is missing on Debian 12, and nothing else.
# Usage: setup.sh build|book|deny|dist|mutants|pages|python|ray|rtl|test; test is build, book,
# deny, rtl and its own.
# Prints nothing when everything is there, so that it can run before every make target.
set -euo pipefail

MIN_RUST=1.90
MDBOOK=0.5.4
CARGO_DENY=0.20.2
CARGO_MUTANTS=27.1.0
AXE_CORE=4.14.1
AXE_CORE_SHA256=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
what=${1:?usage: setup.sh build|book|deny|dist|mutants|pages|python|ray|rtl|test}

wanted() { # wanted PART: is it asked for?
	[[ $what == "$1" || $what == test ]]
}

# What a build needs: a C compiler for zstd and the policy header; clang and libelf for the BPF
# reader (bpf/*.bpf.c is compiled for the bpf target).
packages=(gcc libc6-dev make pkg-config clang libelf-dev zlib1g-dev git ca-certificates)
if wanted rtl; then
	packages+=(g++ iverilog verilator yosys)
fi
if [[ $what == python || $what == ray ]]; then
	packages+=(python3 python3-venv)
fi
# A browser to look at pages with; npm comes with other packages of Node.js, too.
if [[ $what == pages ]]; then
	packages+=(chromium python3)
	command -v npm >/dev/null || packages+=(npm)
fi
if [[ $what == test ]]; then
	packages+=(jq g++ dpkg-dev systemd python3 python3-venv util-linux)
fi
if [[ $what == dist ]]; then
	packages+=(dpkg-dev lintian mmdebstrap python3 systemd systemd-container skopeo)
	packages+=(musl-tools gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static)
fi

version_at_least() {
	[[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]
}

have_rust() {
	command -v cargo >/dev/null && command -v rustc >/dev/null &&
		version_at_least "$(rustc --version | cut -d' ' -f2)" "$MIN_RUST"
}

if ! have_rust; then
	packages+=(rustc-web cargo-web)
	if [[ $what == test ]]; then
		packages+=(rustfmt-web rust-web-clippy)
	fi
fi

missing=()
for package in "${packages[@]}"; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok' ||
		missing+=("$package")
done

if ((${#missing[@]})); then
	if ! command -v apt-get >/dev/null; then
		echo "setup: no apt-get here; install by hand: ${missing[*]}" >&2
		exit 2
	fi
	sudo=
	if ((EUID != 0)); then
		command -v sudo >/dev/null || {
			echo "setup: run as root, or install: ${missing[*]}" >&2
			exit 2
		}
		sudo=sudo
	fi
	echo "setup: installing ${missing[*]}" >&2
	$sudo apt-get update -qq
	DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends \
		"${missing[@]}" >/dev/null
fi

have_rust || {
	found=$(rustc --version 2>&1 | head -n 1)
	echo "setup: Rust $MIN_RUST or newer is needed, found: $found" >&2
	echo "setup: install a current stable toolchain with rustup, then try again" >&2
	exit 2
}

if [[ $what == test ]]; then
	for tool in "cargo fmt" "cargo clippy" rustdoc; do
		$tool --version >/dev/null 2>&1 || {
			echo "setup: $tool is missing; with rustup: rustup component add rustfmt clippy" >&2
			exit 2
		}
	done
fi

# The static programs are of musl, whose library Debian has no package of.
if [[ $what == dist ]]; then
	for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl; do
		[[ ! -d $(rustc --print sysroot)/lib/rustlib/$target/lib ]] || continue
		command -v rustup >/dev/null || {
			echo "setup: Rust's library for $target is missing; install Rust with rustup" >&2
			exit 2
		}
		rustup --quiet target add "$target"
	done
fi

# Tools of Rust that Debian 12 has not: built once, in minutes.
tool() { # tool CRATE VERSION COMMAND...: COMMAND prints the version
	local crate=$1 version=$2
	shift 2
	"$@" 2>/dev/null | grep -qE "(^|[ v])${version//./\\.}$" && return
	echo "setup: building $crate $version" >&2
	# Optimised for speed of building: it runs for seconds.
	CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off \
		cargo install --locked --quiet --force --no-default-features "$crate@$version"
}

export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
if wanted book; then
	tool mdbook "$MDBOOK" mdbook --version
fi
if wanted deny; then
	tool cargo-deny "$CARGO_DENY" cargo deny --version
fi
if [[ $what == mutants ]]; then
	tool cargo-mutants "$CARGO_MUTANTS" cargo mutants --version
fi

cd "$(dirname "$0")/.."
# Python packages, each set in an environment of its own.
venv() { # venv NAME PACKAGE...: build/NAME, with these packages
	local folder=build/$1
	[[ -f $folder/.installed && $(<"$folder/.installed") == "${*:2}" ]] && return
	echo "setup: installing ${*:2} for Python" >&2
	rm -rf "$folder"
	python3 -m venv "$folder"
	"$folder/bin/pip" install --quiet --disable-pip-version-check "${@:2}"
	echo "${*:2}" >"$folder/.installed"
}
if [[ $what == test ]]; then
	# Grafana's own types of a dashboard.
	venv grafana 'grafana-foundation-sdk==1769699998!10.1.0'
fi

# The environment of the Python package: every version and hash is in the files named here.
environment() { # environment REQUIREMENTS...
	local place=build/python stamp=build/python/requirements wanted
	wanted=$(cat "$@" | sha256sum)
	[[ -f $stamp-$# && $(cat "$stamp-$#") == "$wanted" ]] && return
	echo "setup: making $place" >&2
	[[ -x $place/bin/pip ]] || python3 -m venv --clear "$place"
	"$place/bin/pip" install --quiet --disable-pip-version-check --require-hashes \
		"${@/#/--requirement=}"
	echo "$wanted" >"$stamp-$#"
}
if [[ $what == python ]]; then
	environment crates/python/requirements.txt
fi
if [[ $what == ray ]]; then
	environment crates/python/requirements.txt crates/python/requirements-ray.txt
fi

# Judges how accessible a page is. Unpacked here; nothing of it is installed or run outside a page.
axe=build/axe
if [[ $what == pages ]] && ! grep -qs "v$AXE_CORE" "$axe/package/axe.min.js"; then
	rm -rf "$axe" && mkdir -p "$axe"
	(
		cd "$axe"
		npm pack --silent "axe-core@$AXE_CORE" >/dev/null
		echo "$AXE_CORE_SHA256  axe-core-$AXE_CORE.tgz" | sha256sum --check --quiet
		tar -xzf "axe-core-$AXE_CORE.tgz" package/axe.min.js package/LICENSE
		rm "axe-core-$AXE_CORE.tgz"
	)
fi

# A Prometheus for the metrics of ample agent: unpacked here, because the installed package would
# start a server.
prometheus=build/prometheus
if [[ $what == test && ! -x $prometheus/usr/bin/promtool ]]; then
	mkdir -p "$prometheus"
	cd "$prometheus"
	apt-get download -qq prometheus 2>/dev/null || {
		echo "setup: fetching the list of packages" >&2
		$( ((EUID == 0)) || echo sudo) apt-get update -qq
		apt-get download -qq prometheus
	}
	dpkg -x prometheus_*.deb .
	rm prometheus_*.deb
fi
