# SPDX-License-Identifier: GPL-2.0-only
# `ample scan` beside kpf on one guest, after a load: the figures of the bench
# and those of the scan come from two programs and have to agree.
disk
mkdir -p /mnt/t
if ! command -v ample > /dev/null; then
	echo "@@ FAIL no ample in the guest: cargo build --release -p ample-cli first"
	return
fi
load churn /mnt/t 1500 3 1
fragment 2 5 30
contiguity after
settle
kpf "$(border)" > /tmp/kpf

# scan NAME ARGS...: the object of that scan, on one line, in /tmp/NAME too
scan() {
	name=$1; shift
	ample scan --json "$@" 2>/tmp/err | tr -s ' \n' ' ' > /tmp/$name
	sed "s/^/@@ note $name: /" /tmp/err
	echo "@@ {\"what\": \"$name\", \"value\": $(cat /tmp/$name)}"
}
scan scan
# definition K at 2 MB: blocks that surely, and perhaps, hold an unmovable page
sizes='"size_bytes": 2097152, "unmovable_blocks": { "low": \([0-9]*\), "high": \([0-9]*\) }'
blocks='"unmovable_blocks": \([0-9]*\), "unmovable_blocks_min": \([0-9]*\)'
set -- $(sed "s/.*\"definitions\": { \"K\": {[^[]*\[ { $sizes.*/\1 \2/" /tmp/scan) \
	$(sed "s/.*\"order9\": {[^}]*$blocks.*/\2 \1/" /tmp/kpf)
emit agree "\"scan_low\": $1, \"scan_high\": $2, \"kpf_low\": $3, \"kpf_high\": $4"
# the scan itself allocates between the two readings
expect "scan finds no block unmovable that kpf excludes" [ $1 -le $(($4 + 8)) ]
expect "kpf finds no block unmovable that the scan excludes" [ $3 -le $(($2 + 8)) ]

grep -q page_owner=on /proc/cmdline || return
# all pages lie above pfn 0: nothing is asked about a border here, so no verdict of owner's
owner 0 < /sys/kernel/debug/page_owner > /tmp/owner 2>/dev/null
scan scan_owners --owners
pages='"definitions": .*"O": { "unmovable_pages": { "low": \([0-9]*\), "high": \([0-9]*\) }'
set -- $(sed "s/.*$pages.*/\1 \2/" /tmp/scan_owners) \
	$(sed 's/.*"unmovable_above_border_pages": \([0-9]*\).*/\1/' /tmp/owner)
ns=$(sed 's/.*"duration_ns": \([0-9]*\).*/\1/' /tmp/scan_owners)
emit agree_owners "\"scan_low\": $1, \"scan_high\": $2, \"owner\": $3, \"duration_ns\": $ns"
slack=$(($3 / 50 + 256))
expect "definition O of the scan is what page_owner says, within 2 % and 1 MB" \
	[ $1 -le $(($3 + slack)) -a $2 -ge $(($3 - slack)) ]

# owners by name, from the records alone: these kernels have no BPF
scan scan_who --who --owners
held() { grep -o "\"kind\": \"$1\"[^}]*\"pages\": [0-9]*" /tmp/scan_who |
	awk '{ s += $NF } END { print s + 0 }'; }
emit who "\"unmovable_pages\": $(held '[a-z_]*'), \"unknown_pages\": $(held unknown)"
expect "page_owner names nine tenths of what is unmovable" \
	[ $(($(held unknown) * 10)) -lt $(held '[a-z_]*') ]
