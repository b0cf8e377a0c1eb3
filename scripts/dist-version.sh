#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What the packages of this commit are called: sets VERSION (Debian's form, which grows with every
# commit) and SOURCE_DATE_EPOCH. To be sourced in the root of the tree.
release=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
commit=$(git rev-parse --short=8 HEAD 2>/dev/null || echo none)
VERSION=${VERSION:-$release~git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d.%H%M%S).$commit-1}
export VERSION SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C.UTF-8
umask 022
