# SPDX-License-Identifier: GPL-2.0-only
# The allocator on two nodes: of what two threads on two nodes hold at the end, how much lies on the
# other node. With one heap for all, memory freed by one node is handed out on the other.
for numa in 0 1; do
	text=$(AMPLE_MALLOC=numa=$numa LD_PRELOAD=/usr/lib/libample_malloc.so \
		numa bound 2>/tmp/err) || true
	sed 's/^/@@ note numa: /' /tmp/err
	set -- $text
	emit numa "\"heaps_by_node\": $numa, \"remote_pages\": $1, \"pages\": $3"
	[ $numa = 0 ] || expect "a tenth of the pages is remote at most" [ $(($1 * 10)) -le "$3" ]
done
