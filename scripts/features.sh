#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Prints the cargo features of the ample command that this machine can build.
set -euo pipefail
features=(watch)
if command -v clang >/dev/null && [[ -e /usr/include/libelf.h ]]; then
	features+=(bpf)
fi
echo "${features[*]}"
