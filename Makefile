# SPDX-License-Identifier: MIT OR Apache-2.0
# Everything a user or CI types. `make help` lists the targets.

SHELL := /bin/bash
CARGO ?= cargo
AMPLE := target/release/ample
FEATURES ?= $(shell scripts/features.sh)
# The model reads its tables at random: glibc asks for huge pages for them.
HUGE_TABLES := GLIBC_TUNABLES=glibc.malloc.hugetlb=1

.DEFAULT_GOAL := help
.PHONY: help setup build ample demo test reproduce results refresh fuzz model-check \
	model-check-large model-mutants properties translation-peer \
	malloc-models malloc-soak malloc-foreign malloc-arm64 malloc-suites malloc-bench malloc-limits \
	bench malloc-lifetimes count-instructions \
	record-pages agent-hour fleet-bench fleet-files fleet-spark fleet-ray fleet-search \
	fleet-search-table python wheel dist fmt lint book book-pages book-run pages-check screenshots \
	deny advisories hw hw-full hw-cost rtl tighten clean

help:            ## list the targets
	@grep -hE '^[a-z0-9-]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 18

setup:           ## install what is missing (Debian packages, Rust)
	@scripts/setup.sh build

build: FEATURES += fleet
build: ample     ## build the command, target/release/ample, and the allocator, target/malloc
	$(CARGO) build --locked --profile malloc -p ample-malloc -p ample-malloc-tools

ample: setup     ## build the command alone
	$(CARGO) build --locked --release -p ample-cli --no-default-features --features "$(FEATURES)"

demo: ample      ## look at this machine, predict it under every option, write report/index.html
	$(HUGE_TABLES) $(AMPLE) whatif --report report/index.html

test:            ## everything CI checks: format, lints, tests of all layers
	@scripts/setup.sh test
	@scripts/test.sh

reproduce: build ## every experiment at full size (hours), as JSON and report/reproduce/index.html
	$(AMPLE) reproduce

results:         ## make results/*.md and its figures from results/data
	$(CARGO) run --locked -p ample-report --bin ample-results

refresh: ample   ## run an experiment and put its rows into results/data (ID=walks)
	$(AMPLE) sim $(ID) --json >target/$(ID).json
	$(CARGO) run --locked --release -p ample-report --bin ample-results -- \
		--refresh $(ID) target/$(ID).json $$(date -u +%F) $$(git rev-parse --short=12 HEAD)

fleet-bench: build ## time the study of a fleet at size: 100,000 made hosts
	scripts/fleet-bench.py

agent-hour: build ## what ample agent costs over an hour, scraped as Prometheus does
	scripts/agent-hour.py

fleet-files:     ## a study of 200,000 tiny files with 64 open files and 1 GiB at most
	AMPLE_FILES=$${AMPLE_FILES:-200000} $(CARGO) test --locked -p ample-cli --test fleet \
		many_tiny_files -- --nocapture

fleet-spark: build ## the study of a made fleet on DuckDB and on Spark workers: equal to the digit
	scripts/fleet-spark.sh

fleet-ray:       ## simulate a fleet on two nodes of Ray, one killed in the middle: the same bytes
	@scripts/setup.sh ray
	scripts/python.sh ray

fleet-search:    ## search the constants of Algorithm 1 over four objectives (ARGS="--help")
	@scripts/setup.sh python
	scripts/python.sh search $(ARGS)

fleet-search-table: ## put the front that fleet-search found into the results (FROM=search.json)
	scripts/search-table.py $(FROM)

python:          ## test the Python package: types, notebook, the bytes of the command
	@scripts/setup.sh python
	scripts/python.sh test

wheel:           ## build the Python package into target/wheels and try it
	@scripts/setup.sh python
	scripts/python.sh wheel

fuzz:            ## fuzz every reader of foreign input, a minute each (SECONDS=N TARGETS="perf gem5")
	scripts/fuzz.sh $(SECONDS) $(TARGETS)

model-check:     ## explore the migration protocol exhaustively (the large machines too)
	$(CARGO) run --locked --release -p ample-migration --features model-check --bin ample-model-check \
		-- --full --counterexamples

STATES ?= 50000000
model-check-large: ## explore the largest machine of the migration protocol, up to STATES states
	$(CARGO) run --locked --release -p ample-migration --features model-check --bin ample-model-check \
		-- --large $(STATES)

model-mutants:   ## change the protocol's code in some 600 places: does the model check notice?
	@scripts/setup.sh mutants
	scripts/protocol-mutants.py $(ARGS)

properties:      ## translation against the page table over two million random orders of events
	AMPLE_ORDERS=$${AMPLE_ORDERS:-2000000} $(CARGO) test --locked -p ample-translate \
		--test orders every_order -- --nocapture

translation-peer: ample ## misses of real programs beside ChampSim's (CHAMPSIM=FILE ARGS=--ends)
	scripts/translation-peer.py $(ARGS) $(AMPLE) $(CHAMPSIM)

malloc-models:   ## check the allocator's concurrent parts with a randomised scheduler
	AMPLE_MODEL_ROUNDS=$${AMPLE_MODEL_ROUNDS:-2000} $(CARGO) test --locked -p ample-malloc \
		--features models --lib models

malloc-soak:     ## the allocator under real programs and ten million random calls
	$(CARGO) build --locked --profile malloc -p ample-malloc
	bench/malloc/soak.py

malloc-foreign:  ## browsers, servers, compilers, aarch64 under the allocator, beside glibc
	$(CARGO) build --locked --profile malloc -p ample-malloc
	bench/malloc/foreign.py $(ARGS)

malloc-arm64:    ## the tests' programs on arm64, in a guest of four emulated CPUs
	bench/malloc/arm64.py $(ARGS)

malloc-suites:   ## the own tests of redis, sqlite and CPython under the allocator, beside glibc
	$(CARGO) build --locked --profile malloc -p ample-malloc
	bench/malloc/suites.py

malloc-lifetimes: ## record the allocations of real programs for the experiment lifetime
	bench/malloc/lifetimes.py $(ARGS)

malloc-bench:    ## programs under the allocator and its peers (minutes; ARGS="--help")
	$(CARGO) build --locked --profile malloc -p ample-malloc
	bench/malloc/run.py $(ARGS)

malloc-limits:   ## the least memory under which a program ends, and what it keeps (as root)
	$(CARGO) build --locked --profile malloc -p ample-malloc
	bench/malloc/limits.py $(ARGS)

bench: build     ## all benchmarks (criterion)
	$(CARGO) bench --locked --workspace

count-instructions: ample ## instructions of the host that a simulated access takes (valgrind)
	scripts/count-instructions.sh $(AMPLE)

record-pages: ample ## record page events of this machine, as root (ARGS="OUT [SECONDS]")
	scripts/record-pages.sh $(ARGS)

dist:            ## build the packages, try them in a clean Debian 12 (as root)
	@scripts/setup.sh dist
	@scripts/dist.sh $(ARGS)

fmt:             ## format the Rust code
	$(CARGO) fmt --all

lint:            ## format, clippy and rustdoc, warnings denied
	@scripts/setup.sh test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --workspace

book:            ## build the book of docs/ into target/book
	@scripts/setup.sh book
	mdbook build docs --dest-dir target/book

book-pages: build ## make the pages of the book that say what the program says
	scripts/book-pages.py $(AMPLE)

book-run: build  ## run every command of the book and of the README, made small
	scripts/book-run.py $(AMPLE) $(ARGS)

pages-check: build ## look at every kind of page in a browser: axe-core, widths, paper, keyboard
	@scripts/setup.sh pages
	scripts/pages-check.py $(AMPLE) $(ARGS)

screenshots: build ## take the pictures of the book
	@scripts/setup.sh pages
	scripts/screenshots.py $(AMPLE)

deny:            ## licences, advisories, versions and sources of the dependencies
	@scripts/setup.sh deny
	scripts/deny.sh

advisories:      ## renew the snapshot of the advisory database from a clone of it (FROM=folder)
	$(CARGO) run --locked -p ample-tidy --bin ample-advisories -- \
		take $(FROM) crates/tidy/advisories.toml

hw:              ## lint and prove the hardware of a slice, and follow the protocol's code with it
	@scripts/setup.sh rtl
	hw/lint.sh
	hw/formal/prove.sh --seconds 120 || test $$? = 3 # 3: no proof, the depth is printed
	hw/sim/chip.sh hw/rtl 20000
	hw/sim/cosim.sh quick

hw-full:         ## the same over ten million events, its coverage, and planted faults
	@scripts/setup.sh rtl
	hw/lint.sh
	hw/formal/prove.sh --seconds 600 || test $$? = 3
	for seed in 1 2 3 4 5; do hw/sim/chip.sh hw/rtl 60000 $$seed || exit 1; done
	hw/faults.sh
	hw/sim/cosim.sh full
	hw/sim/cosim.sh coverage

hw-cost:         ## area, timing and energy of the hardware on the cells of an open library
	@scripts/setup.sh cost
	hw/cost.sh

rtl:             ## simulate and synthesise the metadata table of the migration hardware
	@scripts/setup.sh rtl
	hw/synthesize.sh
	hw/energy.sh

tighten:         ## lower the exceptions of the tidy rules to what is found
	$(CARGO) run --locked -p ample-tidy --bin ample-tighten

clean:           ## remove build products
	rm -rf target report build

include kernel/Makefile
