# SPDX-License-Identifier: GPL-2.0-only
# The KUnit suites ran at boot: their verdict is in the log.
dmesg | grep -E '^ *(\[.*\] )? *(# |ok|not ok|KTAP)' | sed 's/^/@@ note /'
expect "the suite passed" sh -c \
	'dmesg | grep -qE "ok [0-9]+ contiguitas$" && ! dmesg | grep -q "not ok"'
