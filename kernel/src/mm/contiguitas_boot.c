// SPDX-License-Identifier: GPL-2.0-only
/* Contiguitas: the boot parameter and the first place of the borders. */
#define pr_fmt(fmt) "contiguitas: " fmt

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include "contiguitas.h"

/* A node smaller than this has nothing to gain. */
#define CTG_MIN_NODE_PAGES	(SZ_128M >> PAGE_SHIFT)

struct ctg_boot_size {
	u64 value;		/* 0: not given */
	bool percent;
};

DEFINE_STATIC_KEY_FALSE(contiguitas_key);
unsigned long contiguitas_border[MAX_NUMNODES] __read_mostly;
struct contiguitas_node *contiguitas_nodes[MAX_NUMNODES] __read_mostly;

bool contiguitas_requested __initdata;
static struct ctg_boot_size boot_size[3] __initdata;	/* initial, min, max */

/* One size, ended by a comma or the end of the string. */
static bool __init parse_size(char **s, struct ctg_boot_size *size)
{
	char *end;

	size->value = memparse(*s, &end);
	size->percent = *end == '%';
	end += size->percent;
	if (!size->value || (size->percent && size->value > 100) || (*end && *end++ != ','))
		return false;
	*s = end;
	return true;
}

static int __init contiguitas_param(char *arg)
{
	char *s = arg;
	int i = 0;

	contiguitas_requested = false;
	if (!arg || !strcmp(arg, "off"))
		return 0;
	if (strcmp(arg, "on")) {
		while (i < ARRAY_SIZE(boot_size) && *s && parse_size(&s, &boot_size[i]))
			i++;
		if (*s || !i) {
			memset(boot_size, 0, sizeof(boot_size));
			pr_err("contiguitas=%s not understood, feature stays off; use on, off or <initial>[,<min>[,<max>]] in bytes (K, M, G) or %%\n",
			       arg);
			return 0;
		}
	}
	contiguitas_requested = true;
	return 0;
}
early_param("contiguitas", contiguitas_param);

static unsigned long __init size_in_pages(const struct ctg_boot_size *size,
					  unsigned long node_pages, unsigned long dflt)
{
	if (!size->value)
		return dflt;
	return ctg_round_up(size->percent ? (u64)node_pages * size->value / 100 :
			    size->value >> PAGE_SHIFT, CTG_CHUNK);
}

/* What memblock has handed out of [@base, @end) by now, the kernel image included. */
static unsigned long __init boot_used_pages(unsigned long base, unsigned long end)
{
	phys_addr_t from, to;
	unsigned long used = 0;
	u64 i;

	for_each_reserved_mem_range(i, &from, &to) {
		unsigned long lo = max(PFN_DOWN(from), base);
		unsigned long hi = min(PFN_UP(to), end);

		if (lo < hi)
			used += hi - lo;
	}
	return used;
}

/* The end of the first @pages from @base on that lie in no hole. */
static unsigned long __init present_end(unsigned long base, unsigned long pages)
{
	unsigned long end = base + pages, absent;

	while ((absent = base + pages + ctg_absent(base, end) - end))
		end += absent;
	return end;
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
	struct contiguitas_node *n;
	unsigned long base, end, pages, used, initial, from, border;
	int side;

	base = ALIGN_DOWN(pgdat->node_start_pfn, CTG_CHUNK);
	end = ALIGN_DOWN(movable->present_pages ? movable->zone_start_pfn : pgdat_end_pfn(pgdat),
			 CTG_CHUNK);
	if (pgdat->node_present_pages < CTG_MIN_NODE_PAGES || end <= base)
		return "is too small";
	if (node_overlaps(nid, pgdat->node_start_pfn, pgdat_end_pfn(pgdat)))
		return "is interleaved with another node";

	pages = end - base - ctg_absent(base, end);
	/*
	 * Boot allocates from the low end up. What it needs elsewhere (the image where
	 * KASLR put it, an initrd, room for a crash kernel) is an island above the border.
	 */
	initial = size_in_pages(&boot_size[0], pages,
				ctg_initial_pages(pgdat->node_present_pages, 0, CTG_CHUNK));
	do {
		from = initial;
		border = present_end(base, from);
		used = boot_used_pages(base, min(border, end));
		initial = max_t(unsigned long, from, ctg_round_up(used + used / 8, CTG_CHUNK));
	} while (initial > from);
	if (initial + CTG_CHUNK > pages)
		return "cannot hold the requested unmovable region";

	n = memblock_alloc_node(sizeof(*n), SMP_CACHE_BYTES, nid);
	if (!n)
		return "has no memory for the bookkeeping";
	n->nid = nid;
	n->base_pfn = base;
	n->end_pfn = end;
	n->pages = pages;
	n->initial_pages = initial;
	n->stray_pfn = ULONG_MAX;
	n->claim_dry = jiffies - 1;
	n->min_pages = min(size_in_pages(&boot_size[1], pages,
					 ctg_round_up(max(initial / 2, used), CTG_CHUNK)), initial);
	n->max_pages = clamp(size_in_pages(&boot_size[2], pages,
					   ctg_round_up(pages / 4, CTG_CHUNK)),
			     initial, pages - CTG_CHUNK);
	mutex_init(&n->resize_lock);
	init_waitqueue_head(&n->wait);
	init_waitqueue_head(&n->done);
	for (side = 0; side < NR_CONTIGUITAS_SIDES; side++)
		spin_lock_init(&n->stall[side].lock);
	contiguitas_nodes[nid] = n;
	ctg_set_border(n, border);
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
