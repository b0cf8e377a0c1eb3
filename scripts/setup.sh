#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs what is missing on Debian 12, and nothing else.
# Usage: setup.sh build|book|cost|deny|dist|mutants|pages|python|ray|rtl|spark|test; test is
# build, book, deny, pages, python, ray, rtl, spark and its own.
# Prints nothing when everything is there, so that it can run before every make target.
set -euo pipefail

MIN_RUST=1.90
MDBOOK=0.5.4
CARGO_DENY=0.20.2
CARGO_MUTANTS=27.1.0
AXE_CORE=4.12.1
AXE_CORE_PACKAGE="axe-playwright-python==0.1.8 \
	--hash=sha256:fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8"
what=${1:?usage: setup.sh build|book|cost|deny|dist|mutants|pages|python|ray|rtl|spark|test}

wanted() { # wanted PART: is it asked for?
	[[ $what == "$1" || $what == test ]]
}

# What a build needs: a C compiler for zstd and the policy header; clang and libelf for the BPF
# reader (bpf/*.bpf.c is compiled for the bpf target).
packages=(gcc libc6-dev make pkg-config clang libelf-dev zlib1g-dev git ca-certificates jq)
if wanted rtl || [[ $what == cost ]]; then
	packages+=(g++ iverilog verilator yosys)
fi
if [[ $what == cost ]]; then
	packages+=(opensta python3 qflow-tech-osu018)
fi
if [[ $what == python || $what == ray || $what == dist ]]; then
	packages+=(python3 python3-venv)
fi
if wanted spark; then
	packages+=(procps python3 python3-venv)
	command -v java >/dev/null || packages+=(default-jre-headless)
fi
# A browser to look at pages with.
if wanted pages; then
	packages+=(chromium python3 python3-venv)
fi
if [[ $what == test ]]; then
	packages+=(g++ dpkg-dev systemd python3 python3-venv util-linux qemu-user)
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
	"$folder/bin/pip" install --quiet --disable-pip-version-check --no-compile "${@:2}"
	echo "${*:2}" >"$folder/.installed"
}
if [[ $what == test ]]; then
	# Grafana's own types of a dashboard.
	venv grafana 'grafana-foundation-sdk==1769699998!10.1.0'
fi

if wanted spark; then
	venv spark pyspark==4.3.0 duckdb==1.4.0
fi

# The environment of the Python package: every version and hash is in the files named here.
environment() { # environment REQUIREMENTS...
	local place=build/python stamp=build/python/requirements wanted
	wanted=$(cat "$@" | sha256sum)
	[[ -f $stamp-$# && $(cat "$stamp-$#") == "$wanted" ]] && return
	echo "setup: making $place" >&2
	[[ -x $place/bin/pip ]] || python3 -m venv --clear "$place"
	# Compiled where it is imported: of most of it nothing ever is.
	"$place/bin/pip" install --quiet --disable-pip-version-check --no-compile --require-hashes \
		"${@/#/--requirement=}"
	echo "$wanted" >"$stamp-$#"
}
if wanted python || [[ $what == dist ]]; then
	environment crates/python/requirements.txt
fi
if wanted ray; then
	environment crates/python/requirements.txt crates/python/requirements-ray.txt
fi

# Judges how accessible a page is: the one file of a package that carries it.
axe=build/axe
if wanted pages && ! grep -qs "axe v$AXE_CORE" "$axe/axe.min.js"; then
	rm -rf "$axe"
	python3 -m venv "$axe"
	"$axe/bin/pip" install --quiet --disable-pip-version-check --no-compile --no-deps \
		--require-hashes --requirement <(echo "${AXE_CORE_PACKAGE//[$'\n\t']/}")
	cp "$axe"/lib/python3*/site-packages/axe_playwright_python/axe.min.js "$axe/"
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
