#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The light form of make hw for every change: lint, proofs, and a short co-simulation with the
# unoptimised build of the tests. Usage: hw/check.sh
set -euo pipefail
cd "$(dirname "$0")/.."
hw/lint.sh
# 3: no proof in time, the depth is printed.
hw/formal/prove.sh --seconds 60 slice controller || (($? == 3))
hw/formal/prove.sh --seconds 10 chip
hw/sim/chip.sh
hw/sim/cosim.sh light
