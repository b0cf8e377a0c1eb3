// SPDX-License-Identifier: GPL-2.0-only
/* Contiguitas: the boot parameter and the places of the borders. */
#define pr_fmt(fmt) "contiguitas: " fmt

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include "contiguitas.h"

/* A node smaller than this has nothing to gain. */
#define CTG_MIN_NODE_PAGES	(SZ_128M >> PAGE_SHIFT)

DEFINE_STATIC_KEY_FALSE(contiguitas_key);
unsigned long contiguitas_border[MAX_NUMNODES] __read_mostly;
struct contiguitas_node *contiguitas_nodes[MAX_NUMNODES] __read_mostly;

bool contiguitas_requested __initdata;

static int __init contiguitas_param(char *arg)
{
	int ret = kstrtobool(arg, &contiguitas_requested);

	if (ret)
		pr_err("contiguitas=%s not understood, feature stays off; use on or off\n", arg);
	/* What boot allocates stays: it belongs to the low end */
	memblock_set_bottom_up(contiguitas_requested);
	return ret;
}
early_param("contiguitas", contiguitas_param);

/* Move the border of @n to @pfn. The lock of the zone that it lay in is held. */
void ctg_set_border(struct contiguitas_node *n, unsigned long pfn)
{
	WRITE_ONCE(contiguitas_border[n->nid], pfn);
}

/* What memblock has handed out of [@base, @end) by now, the kernel image included. */
static unsigned long __init boot_used_pages(unsigned long base, unsigned long end)
{
	phys_addr_t from, to;
	unsigned long used = 0;
	u64 i;

	for_each_reserved_mem_range(i, &from, &to)
		used += max_t(long, min(PFN_UP(to), end) - max(PFN_DOWN(from), base), 0);
	return used;
}

static bool __init node_overlaps(int nid, unsigned long start, unsigned long end)
{
	int other;

	for_each_node_state(other, N_MEMORY) {
		pg_data_t *pgdat = NODE_DATA(other);

		if (other != nid && pgdat->node_start_pfn < end && start < pgdat_end_pfn(pgdat))
			return true;
	}
	return false;
}

static const char * __init init_node(int nid)
{
	pg_data_t *pgdat = NODE_DATA(nid);
	struct zone *movable = &pgdat->node_zones[ZONE_MOVABLE];
	unsigned long base, end, pages, used, initial, from;
	struct contiguitas_node *n;

	base = ALIGN_DOWN(pgdat->node_start_pfn, CTG_CHUNK);
	end = ALIGN_DOWN(movable->present_pages ? movable->zone_start_pfn : pgdat_end_pfn(pgdat),
			 CTG_CHUNK);
	if (pgdat->node_present_pages < CTG_MIN_NODE_PAGES || end <= base)
		return "is too small";
	if (node_overlaps(nid, pgdat->node_start_pfn, pgdat_end_pfn(pgdat)))
		return "is interleaved with another node";

	pages = end - base;
	initial = ctg_initial_pages(pgdat->node_present_pages, 0, CTG_CHUNK);
	/*
	 * Boot allocates from the low end up. What it needs elsewhere (the image where
	 * KASLR put it, an initrd, room for a crash kernel) is an island above the border.
	 */
	do {
		from = initial;
		used = boot_used_pages(base, min(base + from, end));
		initial = max_t(unsigned long, from, ctg_round_up(used + used / 8, CTG_CHUNK));
	} while (initial > from);
	if (initial + CTG_CHUNK > pages)
		return "cannot hold the unmovable region";

	n = memblock_alloc_node(sizeof(*n), SMP_CACHE_BYTES, nid);
	if (!n)
		return "has no memory for the bookkeeping";
	n->nid = nid;
	n->base_pfn = base;
	n->end_pfn = end;
	n->pages = pages;
	n->initial_pages = initial;
	n->claim_dry = jiffies - 1;
	n->min_pages = min_t(unsigned long, initial,
			     ctg_round_up(max(initial / 2, used), CTG_CHUNK));
	n->max_pages = ctg_max_pages(pages, initial, CTG_CHUNK);
	mutex_init(&n->resize_lock);
	init_waitqueue_head(&n->wait);
	init_waitqueue_head(&n->done);
	contiguitas_nodes[nid] = n;
	ctg_set_border(n, base + initial);
	pr_info("node %d: border at %#llx, unmovable %lu MiB (min %lu, max %lu) of %lu MiB\n",
		nid, PFN_PHYS(contiguitas_border[nid]), initial >> (20 - PAGE_SHIFT),
		n->min_pages >> (20 - PAGE_SHIFT), n->max_pages >> (20 - PAGE_SHIFT),
		(unsigned long)pgdat->node_present_pages >> (20 - PAGE_SHIFT));
	return NULL;
}

/* Called when zones are known and before any pageblock is typed. */
void __init contiguitas_init_borders(void)
{
	const char *reason;
	int nid;

	if (!contiguitas_requested)
		return;
	for_each_node_state(nid, N_MEMORY) {
		reason = init_node(nid);
		if (reason) {
			pr_warn("off: node %d %s\n", nid, reason);
			memset(contiguitas_nodes, 0, sizeof(contiguitas_nodes));
			return;
		}
	}
	static_branch_enable(&contiguitas_key);
}
