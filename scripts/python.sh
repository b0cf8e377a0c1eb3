#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The Python package: its tests, its wheel, and what runs on it.
# Usage: python.sh test [PYTEST ARGS]   builds as cargo test does, checks types, runs the notebook
#        python.sh wheel                builds target/wheels, tries it in a new environment
#        python.sh ray [PYTEST ARGS]    the tests on two nodes of Ray, one of which is killed
#        python.sh ray-test             the same, of what cargo test has built
#        python.sh search [ARGS]        the search of the resizing parameters
# scripts/setup.sh python has made build/python before.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
# What is compiled for the stable interface does not depend on the interpreter: naming ours to the
# build would make it anew after a build that names none.
python=$PWD/build/python/bin/python
export PYTHONPYCACHEPREFIX=$PWD/build/python-cache
what=${1:?usage: python.sh test|wheel|ray|ray-test|search}
shift

assembled() { # assembled PROFILE FOLDER: the package of that build in build/python-PROFILE
	local place=build/python-$1 what=(-p ample-python)
	# What cargo test has built, command included; for some packages alone the engine for SQL would
	# be built again, with other features.
	[[ $1 != test ]] || what=(--workspace --lib --tests)
	cargo build --locked --quiet --profile "$1" "${what[@]}"
	mkdir -p "$place"
	rm -rf "$place/ample"
	cp -r crates/python/python/ample "$place/"
	cp "target/$2/lib_ample.so" "$place/ample/_ample.abi3.so"
	export PYTHONPATH=$PWD/$place
}

case $what in
test)
	assembled test debug
	export AMPLE=${AMPLE:-$PWD/target/debug/ample}
	cd crates/python/tests
	exec "$python" -m pytest -q -p no:cacheprovider \
		test_tables.py test_simulations.py test_search.py test_package.py "$@"
	;;
wheel)
	rm -rf target/wheels build/python-clean
	build/python/bin/maturin build --quiet --locked --release --out target/wheels \
		-m crates/python/Cargo.toml
	python3 -m venv build/python-clean
	# By the file alone, without a registry: the package needs no other one.
	build/python-clean/bin/pip install --quiet --no-index target/wheels/ample-*.whl
	cd build/python-clean
	bin/python ../../scripts/python-smoke.py
	ls -l ../../target/wheels
	;;
ray | ray-test)
	if [[ $what == ray ]]; then assembled release release; else assembled test debug; fi
	exec "$python" -m pytest -q -s -p no:cacheprovider \
		crates/python/tests/test_ray.py "$@"
	;;
search)
	assembled release release
	exec "$python" -m ample.search "$@"
	;;
*)
	echo "python.sh: no part $what; give test, wheel, ray, ray-test or search" >&2
	exit 2
	;;
esac
