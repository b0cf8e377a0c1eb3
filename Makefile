# SPDX-License-Identifier: MIT OR Apache-2.0
# Everything a user or CI types. `make help` lists the targets.

SHELL := /bin/bash
CARGO ?= cargo
AMPLE := target/release/ample
FEATURES ?= $(shell scripts/features.sh)
# The model reads its tables at random: glibc asks for huge pages for them.
HUGE_TABLES := GLIBC_TUNABLES=glibc.malloc.hugetlb=1

.DEFAULT_GOAL := help
.PHONY: help setup build ample demo test reproduce fuzz model-check properties \
	malloc-models malloc-soak malloc-suites bench fmt clean

help:            ## list the targets
	@grep -hE '^[a-z-]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 18

setup:           ## install what is missing (Debian packages, Rust)
	@scripts/setup.sh build

build: ample     ## build the command, target/release/ample, and the allocator, target/malloc
	$(CARGO) build --locked --profile malloc -p ample-malloc -p ample-malloc-tools

ample: setup     ## build the command alone
	$(CARGO) build --locked --release -p ample-cli --no-default-features --features "$(FEATURES)"

demo: ample      ## look at this machine, predict it under every policy, write report/index.html
	$(HUGE_TABLES) $(AMPLE) whatif --report report/index.html

test:            ## everything CI checks: format, lints, tests of all layers
	@scripts/setup.sh test
	@scripts/test.sh

reproduce: build ## every experiment at full size (hours), as JSON and report/reproduce/index.html
	$(AMPLE) reproduce

fuzz:            ## fuzz every reader of foreign input, a minute each (SECONDS=N)
	scripts/fuzz.sh $(SECONDS)

model-check:     ## explore the migration protocol exhaustively (the large machines too)
	$(CARGO) run --locked --release -p ample-migration --features model-check --bin ample-model-check \
		-- --full --counterexamples

properties:      ## translation against the page table over two million random orders of events
	AMPLE_ORDERS=$${AMPLE_ORDERS:-2000000} $(CARGO) test --locked -p ample-translate \
		--test orders every_order -- --nocapture

malloc-models:   ## check the allocator's concurrent parts with a randomised scheduler
	AMPLE_MODEL_ROUNDS=$${AMPLE_MODEL_ROUNDS:-2000} $(CARGO) test --locked -p ample-malloc \
		--features models --lib models

malloc-soak:     ## the allocator under real programs and ten million random calls
	$(CARGO) build --locked --profile malloc -p ample-malloc
	bench/malloc/soak.py

malloc-suites:   ## the own tests of redis, sqlite and CPython under the allocator, beside glibc
	$(CARGO) build --locked --profile malloc -p ample-malloc
	bench/malloc/suites.py

bench: build     ## all benchmarks (criterion)
	$(CARGO) bench --locked --workspace

fmt:             ## format the Rust code
	$(CARGO) fmt --all

clean:           ## remove build products
	rm -rf target report build

include kernel/Makefile
