# SPDX-License-Identifier: GPL-2.0-only
# Boots, counts, allocates huge pages: a first look.
head -3 /proc/version
dmesg | grep -i contiguitas
extfrag_on
contiguity boot
result extfrag extfrag_crossing
result thp load thp 64
result huge_1g huge_1g
counters counters
[ -d $ctg ] && for f in $(find $ctg -type f); do echo "@@ note $f $(cat $f)"; done
cat /proc/pagetypeinfo
