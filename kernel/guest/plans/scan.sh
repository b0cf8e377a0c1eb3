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
ample scan --json 2>/tmp/err | tr -s ' \n' ' ' > /tmp/scan
sed 's/^/@@ note scan: /' /tmp/err
echo "@@ {\"what\": \"scan\", \"value\": $(cat /tmp/scan)}"
# definition K at 2 MB: blocks that surely, and perhaps, hold an unmovable page
sizes='"size_bytes": 2097152, "unmovable_blocks": { "low": \([0-9]*\), "high": \([0-9]*\) }'
blocks='"unmovable_blocks": \([0-9]*\), "unmovable_blocks_min": \([0-9]*\)'
set -- $(sed "s/.*\"definitions\": { \"K\": {[^[]*\[ { $sizes.*/\1 \2/" /tmp/scan) \
	$(sed "s/.*\"order9\": {[^}]*$blocks.*/\2 \1/" /tmp/kpf)
emit agree "\"scan_low\": $1, \"scan_high\": $2, \"kpf_low\": $3, \"kpf_high\": $4"
# the scan itself allocates between the two readings
expect "scan finds no block unmovable that kpf excludes" [ $1 -le $(($4 + 8)) ]
expect "kpf finds no block unmovable that the scan excludes" [ $3 -le $(($2 + 8)) ]
