#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Build the programs that need no C library into a directory.
# usage: bare.sh DIR
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
for src in "$here"/guest/src/bare/*.c; do
	# loops that clear or copy memory stay loops: there is no library to call
	gcc -O2 -Wall -Wextra -static -nostdlib -fno-stack-protector -fno-builtin \
		-fno-tree-loop-distribute-patterns -I "$here/guest/src" \
		-o "$1/$(basename "$src" .c)" "$src"
done
