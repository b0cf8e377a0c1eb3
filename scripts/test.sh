#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The whole test suite, stage by stage. Stops at the first failing stage and ends with the sum of
# all tests that ran: "N passed, M failed". Every stage is required: scripts/setup.sh installs what
# they need.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p target
log=target/test.log
: >"$log"

export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
# What is built once needs no traces for the next build: a quarter of the disk.
[[ -n ${CI:-} ]] && export CARGO_INCREMENTAL=0
times_file=target/test-times
: >"$times_file.table"

cpu_s() { # seconds of processor time of all commands so far, in $REPLY
	times >"$times_file"
	REPLY=$(awk -F'[ms ]+' 'NR == 2 { printf "%.0f", $1 * 60 + $2 + $3 * 60 + $4 }' "$times_file")
}

shown() { # what a stage writes, without what went well
	tee -a "$log" | grep --line-buffered -vE '^(test .* ok|running |$)'
}

ended() { # ended NAME STATUS STARTED CPU: notes what a stage took; stops if it failed
	printf '%-18s %7d %7s\n' "$1" $((SECONDS - $3)) "$4" >>"$times_file.table"
	(($2 == 0)) || finish 1 "$1"
}

run() { # run NAME COMMAND...: one stage
	local name=$1 started=$SECONDS before
	shift
	cpu_s
	before=$REPLY
	echo "== $name"
	"$@" 2>&1 | shown
	local status=${PIPESTATUS[0]}
	cpu_s
	ended "$name" "$status" "$started" $((REPLY - before))
}

# A stage that has one thread or waits for others runs beside those that follow: beside NAME
# COMMAND..., and joined where its output is wanted. One at a time. Its processor time is in theirs.
beside() {
	beside_name=$1 beside_started=$SECONDS
	shift
	echo "== $beside_name, beside what follows"
	"$@" >"$times_file.beside" 2>&1 &
	beside_pid=$!
}

joined() {
	local status=0
	echo "== $beside_name"
	wait "$beside_pid" || status=$?
	shown <"$times_file.beside"
	ended "$beside_name" "$status" "$beside_started" beside
}

count() { # count FIELD: sums "N FIELD" over the "test result:" lines
	grep -E '^test result:' "$log" | grep -oE "[0-9]+ $1" |
		awk '{ n += $1 } END { print n + 0 }'
}

finish() { # finish STATUS [STAGE]
	local passed failed
	passed=$(count passed)
	failed=$(count failed)
	# What runs beside is not left behind.
	wait
	printf '\n%-18s %7s %7s\n' stage wall-s cpu-s
	cat "$times_file.table"
	printf '%-18s %7d\n\n' "in all" $SECONDS
	if (($1 != 0)); then
		echo "FAILED in stage: $2 (whole output in $log)"
		((failed > 0)) || failed=1
	fi
	echo "$passed passed, $failed failed"
	exit "$1"
}

run "format" cargo fmt --all --check
run "book" mdbook build docs --dest-dir target/book
run "dependencies" scripts/deny.sh
run "RTL" hw/synthesize.sh 1 16
# Clippy and rustdoc go along with the build; a pass of their own over all foreign crates is a
# quarter of the time.
export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/lint-rustc.sh
export CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
run "build and lints" cargo test --locked --workspace --all-targets --no-run
run "tests" cargo test --locked --workspace --no-fail-fast
beside "RTL slice" hw/check.sh
run "Python" scripts/python.sh test
run "Ray" scripts/python.sh ray-test
joined
beside "Spark" env AMPLE=target/debug/ample scripts/fleet-spark.sh --quick
run "book's pages" scripts/book-pages.py target/debug/ample --check
run "book's commands" scripts/book-run.py --quick target/debug/ample
run "reports" scripts/pages-check.py target/debug/ample
run "book's pictures" scripts/screenshots.py target/debug/ample --check
joined
run "metrics" scripts/agent-prometheus.py target/debug/ample
run "dashboard" build/grafana/bin/python scripts/dashboard-check.py
run "packages" scripts/dist-check.sh target/debug
# As root on a kernel with BTF; elsewhere they say that they were left out.
run "BPF reader" cargo test --locked -p ample-host --features bpf --test readers_agree \
	--test narrow
run "allocator bench" bench/malloc/run.py speed --rounds 1 --cases true --allocators glibc
run "allocator models" cargo test --locked -p ample-malloc --features models --lib models
run "allocator on other targets" scripts/malloc-targets.sh
run "allocator under programs" bench/malloc/foreign.py --runs 1 \
	--library target/debug/deps/libample_malloc.so perl git gcc python setuid
run "kernel policy" make kernel-policy
# Where the kernel has been built: apply the patches, build what changed, boot it, confine. From
# nothing that takes 15 to 30 minutes; KERNEL=1 asks for it all the same, KERNEL=0 leaves it out.
built=0
[[ -f build/kernel/ample/arch/x86/boot/bzImage ]] && built=1
if [[ ${KERNEL:-$built} == 1 ]]; then
	run "kernel" make kernel-test-quick
fi
finish 0
