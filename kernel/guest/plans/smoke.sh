# SPDX-License-Identifier: GPL-2.0-only
# Boots, counts, allocates huge pages: a first look.
head -3 /proc/version
dmesg | grep -i contiguitas
extfrag_on
contiguity boot
result extfrag extfrag_crossing
result thp load thp 64
kpf > /tmp/kpf
huge_1g > /tmp/huge_1g
result huge_1g cat /tmp/huge_1g
if [ -d $ctg/node0 ]; then
	clean=$(sed 's/.*"order18": {.*"potential_blocks_max": \([0-9]*\).*/\1/' /tmp/kpf)
	expect "each of $clean GB without an unmovable page became a huge page" \
		[ "$(sed 's/.*"got": //; s/}//' /tmp/huge_1g)" -ge "$clean" ]
fi
counters counters
[ -d $ctg/node0 ] && for f in $(find $ctg -type f); do echo "@@ note $f $(cat $f)"; done
cat /proc/pagetypeinfo
