# SPDX-License-Identifier: GPL-2.0-only
# A parameter that makes no sense, or a machine too small: one line, and off.
dmesg | grep contiguitas: | sed 's/^/@@ note /'
expect "the feature is off" [ ! -d $ctg/node0 ]
expect "one line says why" sh -c '[ $(dmesg | grep -c "contiguitas: .*off") = 1 ]'
