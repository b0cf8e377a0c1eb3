#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The whole test suite, stage by stage. Stops at the first failing stage and ends with the sum of
# all tests that ran: "N passed, M failed".
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p target
log=target/test.log
: >"$log"

run() { # run NAME COMMAND...: one stage
	local name=$1 started=$SECONDS
	shift
	echo "== $name"
	"$@" 2>&1 | tee -a "$log" |
		grep --line-buffered -vE '^(test .* ok|running |$)'
	local status=${PIPESTATUS[0]}
	echo "== $name: $((SECONDS - started)) s"
	((status == 0)) || finish 1 "$name"
}

count() { # count FIELD: sums "N FIELD" over the "test result:" lines
	grep -E '^test result:' "$log" | grep -oE "[0-9]+ $1" |
		awk '{ n += $1 } END { print n + 0 }'
}

finish() { # finish STATUS [STAGE]
	local passed failed
	passed=$(count passed)
	failed=$(count failed)
	if (($1 != 0)); then
		echo "FAILED in stage: $2 (whole output in $log)"
		((failed > 0)) || failed=1
	fi
	echo "$passed passed, $failed failed"
	exit "$1"
}

if cargo fmt --version >/dev/null 2>&1; then
	run "format" cargo fmt --all --check
fi
if cargo clippy --version >/dev/null 2>&1; then
	run "clippy" cargo clippy --locked --workspace --all-targets -- -D warnings
fi
run "tests" cargo test --locked --workspace --no-fail-fast
run "allocator models" cargo test --locked -p ample-malloc --features models --lib models
run "kernel policy" make kernel-policy
# Where the kernel has been built: apply the patches, build what changed, boot it, confine. From
# nothing that takes 15 to 30 minutes; KERNEL=1 asks for it all the same, KERNEL=0 leaves it out.
built=0
[[ -f build/kernel/ample/arch/x86/boot/bzImage ]] && built=1
if [[ ${KERNEL:-$built} == 1 ]]; then
	run "kernel" make kernel-test-quick
fi
finish 0
