#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The light form of make hw for every change: lint, proofs, and a short co-simulation with the
# unoptimised build of the tests. Usage: hw/check.sh
set -euo pipefail
cd "$(dirname "$0")/.."
hw/lint.sh
hw/formal/prove.sh --seconds 60 || (($? == 3)) # 3: no proof in time, the depth is printed
hw/sim/cosim.sh light
