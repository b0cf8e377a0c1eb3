# SPDX-License-Identifier: GPL-2.0-only
# The kernel's image lies where KASLR puts it: an island above the border, that spoils its own
# blocks and nothing else. ample.plain= is the size of the region with nokaslr.
image=$(awk '/Kernel code/ { print substr($1, 1, index($1, "-") - 1) }' /proc/iomem)
size=$(region_mib)
settle
kpf $(border) > /tmp/kpf
emit kaslr "\"image_mib\": $((0x$image / 1048576)), \"region_mib\": $size"
result kpf cat /tmp/kpf
expect "the feature is on" [ -d $ctg/node0 ]
[ -z "$plain" ] || expect "the region is within 5 % of what it is without" \
	at_most $((plain / 20 + 4)) $((size > plain ? size - plain : plain - size))
echo 64 > $hostile/hold
result held cat $hostile/stats
