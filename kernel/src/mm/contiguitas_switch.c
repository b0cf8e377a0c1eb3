// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contiguitas: confinement on and off while the machine runs.
 *
 * Boot places the borders before there is anything to confine. Later each block
 * has to be given the type of its side, with the free pages that it has, and what
 * is in use is on either side already: movable pages go above, the cache that asks
 * for unmovable memory goes below, and the rest stays until it is freed. It is
 * counted and reported.
 */
#define pr_fmt(fmt) "contiguitas: " fmt

#include <linux/cpu.h>
#include <linux/memory_hotplug.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/sched/signal.h>
#include <linux/swap.h>
#include "internal.h"
#include "contiguitas.h"

/* One switch at a time; the files of the nodes come and go under it. */
static DEFINE_MUTEX(switch_lock);

/* Is @page in use, and nothing that migration could move? */
static bool page_stays(struct page *page)
{
	return page_count(page) && !PageBuddy(page) && !PageLRU(page) && !PageHuge(page) &&
	       !__PageMovable(page);
}

/* Pages of [@pfn, @end) that stay where they are, and in how many blocks they lie. */
static struct ctg_left left_in(struct contiguitas_node *n, unsigned long pfn, unsigned long end)
{
	struct ctg_left left = {};
	unsigned long block = ULONG_MAX;

	for (; pfn < end; pfn++) {
		struct page *page = pfn_to_online_page(pfn);

		if (!page) {
			pfn = ALIGN(pfn + 1, PAGES_PER_SECTION) - 1;
			continue;
		}
		if (pageblock_aligned(pfn))
			cond_resched();
		if (page_to_nid(page) != n->nid || !page_stays(page))
			continue;
		left.pages++;
		left.blocks += block != pageblock_start_pfn(pfn);
		block = pageblock_start_pfn(pfn);
	}
	return left;
}

/* What lies above the border of @n and cannot be migrated below it. Walks all of its memory. */
struct ctg_left ctg_left_above(struct contiguitas_node *n)
{
	lru_add_drain_all();
	return left_in(n, READ_ONCE(contiguitas_border[n->nid]),
		       pgdat_end_pfn(NODE_DATA(n->nid)));
}

/* What the low end of a node holds already is what its region has to hold at least. */
static unsigned long left_below(struct contiguitas_node *n, unsigned long base, unsigned long end)
{
	return left_in(n, base, end).pages;
}

/* Give the blocks of the chunk at @pfn the types of its side, with their free pages. */
static void fit_chunk(struct contiguitas_node *n, struct zone *zone, unsigned long pfn)
{
	unsigned long flags, at, reserved = 0;

	spin_lock_irqsave(&zone->lock, flags);
	if (pfn < READ_ONCE(contiguitas_border[n->nid])) {
		contiguitas_retype(zone, pfn, MIGRATE_MOVABLE, MIGRATE_UNMOVABLE);
		goto out;
	}
	for (at = pfn; at < pfn + CTG_CHUNK; at += pageblock_nr_pages)
		if (zone_spans_pfn(zone, at) &&
		    get_pageblock_migratetype(pfn_to_page(at)) == MIGRATE_HIGHATOMIC)
			reserved += pageblock_nr_pages;
	contiguitas_retype(zone, pfn, MIGRATE_UNMOVABLE, MIGRATE_MOVABLE);
	contiguitas_retype(zone, pfn, MIGRATE_RECLAIMABLE, MIGRATE_MOVABLE);
	contiguitas_retype(zone, pfn, MIGRATE_HIGHATOMIC, MIGRATE_MOVABLE);
	zone->nr_reserved_highatomic -= min(reserved, zone->nr_reserved_highatomic);
out:
	spin_unlock_irqrestore(&zone->lock, flags);
}

static void fit_zone(struct contiguitas_node *n, struct zone *zone, unsigned long end)
{
	unsigned long pfn = ALIGN_DOWN(zone->zone_start_pfn, CTG_CHUNK);

	for (; pfn < min(end, zone_end_pfn(zone)); pfn += CTG_CHUNK) {
		if (pfn_to_online_page(pfn))
			fit_chunk(n, zone, pfn);
		cond_resched();
	}
}

/* Blocks up to @end of all zones of @n. */
static void fit_node(struct contiguitas_node *n, unsigned long end)
{
	struct zone *zones = NODE_DATA(n->nid)->node_zones;
	int i;

	for (i = 0; i < MAX_NR_ZONES; i++)
		if (populated_zone(&zones[i]))
			fit_zone(n, &zones[i], end);
}

/* Free pages on the lists of the low side, which nobody has counted so far. */
static void count_low(struct zone *zone)
{
	unsigned long flags, pages = 0;
	struct list_head *at;
	int order, mt;

	spin_lock_irqsave(&zone->lock, flags);
	for (order = 0; order < NR_PAGE_ORDERS; order++)
		for (mt = 0; mt < MIGRATE_TYPES; mt++)
			if (contiguitas_low_type(mt))
				list_for_each(at, &zone->free_area[order].free_list[mt])
					pages += 1UL << order;
	WRITE_ONCE(zone->nr_free_unmovable, pages);
	spin_unlock_irqrestore(&zone->lock, flags);
}

/* Pages that CPUs keep, and those on their way to them, go to the list of their block. */
static void drain(void)
{
	lru_add_drain_all();
	synchronize_rcu();
	drain_all_pages(NULL);
}

/* Put the folio of @page on @list if its cache asks for unmovable memory. */
static void gather_page(struct page *page, struct list_head *list)
{
	struct folio *folio;

	if (!PageLRU(page) || PageTail(page))
		return;
	folio = page_folio(page);
	if (!folio_try_get(folio))
		return;
	if (contiguitas_wants_low(folio) && folio_isolate_lru(folio)) {
		list_add_tail(&folio->lru, list);
		node_stat_mod_folio(folio, NR_ISOLATED_ANON + folio_is_file_lru(folio),
				    folio_nr_pages(folio));
	}
	folio_put(folio);
}

/* Move what asks for unmovable memory and can be migrated from above the border below it. */
static void gather(struct contiguitas_node *n)
{
	unsigned long pfn = READ_ONCE(contiguitas_border[n->nid]), at;
	struct migration_target_control mtc = {
		.nid = n->nid,
		.gfp_mask = (GFP_USER | __GFP_NOWARN) & ~__GFP_DIRECT_RECLAIM,
		.reason = MR_COMPACTION,
	};
	LIST_HEAD(list);

	for (; pfn < n->end_pfn && !fatal_signal_pending(current); pfn += CTG_CHUNK) {
		if (!pfn_to_online_page(pfn))
			continue;
		for (at = pfn; at < pfn + CTG_CHUNK; at++)
			gather_page(pfn_to_page(at), &list);
		if (!list_empty(&list))
			migrate_pages(&list, ctg_target, NULL, (unsigned long)&mtc,
				      MIGRATE_SYNC_LIGHT, MR_COMPACTION, NULL);
		putback_movable_pages(&list);
		cond_resched();
	}
}

/* A border for each node with memory, or why there is none. The feature is off. */
static const char *place_all(int *nid)
{
	struct contiguitas_node *n;
	const char *reason;

	for_each_node_state(*nid, N_MEMORY) {
		n = contiguitas_nodes[*nid] ?: kzalloc_node(sizeof(*n), GFP_KERNEL, *nid);
		if (!n)
			return "has no memory for the bookkeeping";
		if (!contiguitas_nodes[*nid])
			ctg_init_node(n, *nid);
		mutex_lock(&n->resize_lock);
		reason = ctg_place(n, 0, left_below);
		mutex_unlock(&n->resize_lock);
		/* Kept from now on: somebody may be on his way out of the last use. */
		contiguitas_nodes[*nid] = n;
		if (reason)
			return reason;
	}
	return NULL;
}

static void report(struct contiguitas_node *n)
{
	struct ctg_left left = ctg_left_above(n);

	pr_info("node %d: %lu KiB in %lu blocks above the border cannot be moved and stay\n",
		n->nid, left.pages << (PAGE_SHIFT - 10), left.blocks);
}

static int switch_on(void)
{
	struct contiguitas_node *n;
	const char *reason;
	struct zone *zone;
	int nid;

	reason = place_all(&nid);
	if (reason) {
		pr_warn("stays off: node %d %s\n", nid, reason);
		return -EOPNOTSUPP;
	}
	/* Most of the region before anybody depends on it. */
	for_each_node_state(nid, N_MEMORY)
		fit_node(contiguitas_nodes[nid], contiguitas_border[nid]);
	static_branch_enable_cpuslocked(&contiguitas_key);
	for_each_populated_zone(zone)
		count_low(zone);
	for_each_node_state(nid, N_MEMORY)
		fit_node(contiguitas_nodes[nid], ULONG_MAX);
	drain();
	drain();
	init_per_zone_wmark_min();
	for_each_node_state(nid, N_MEMORY) {
		n = contiguitas_nodes[nid];
		if (!n)
			continue;
		ctg_start(n);
		gather(n);
		report(n);
		/* The resizer sends home what is movable below. */
		WRITE_ONCE(n->stray_pfn, n->base_pfn);
		contiguitas_wake(nid);
	}
	return 0;
}

/* From here on blocks are typed as ever. No resize is under way, and who waits for one stops. */
static void switch_off(void)
{
	int nid;

	for_each_node(nid)
		if (contiguitas_nodes[nid])
			mutex_lock_nest_lock(&contiguitas_nodes[nid]->resize_lock, &switch_lock);
	static_branch_disable_cpuslocked(&contiguitas_key);
	for_each_node(nid)
		if (contiguitas_nodes[nid]) {
			mutex_unlock(&contiguitas_nodes[nid]->resize_lock);
			ctg_served(contiguitas_nodes[nid]);
		}
	init_per_zone_wmark_min();
	pr_info("off\n");
}

/**
 * ctg_switch - turn confinement on or off
 * @on: which
 *
 * Return: 0, also if it is so already; -EOPNOTSUPP if a node can have no border, -EINTR.
 */
int ctg_switch(bool on)
{
	int ret = 0;

	if (mutex_lock_killable(&switch_lock))
		return -EINTR;
	if (on == contiguitas_enabled())
		goto out;
	if (!on)
		ctg_control_nodes(false);
	/* Memory neither comes nor goes meanwhile. */
	cpus_read_lock();
	get_online_mems();
	if (on)
		ret = switch_on();
	else
		switch_off();
	put_online_mems();
	cpus_read_unlock();
	if (on && !ret)
		ctg_control_nodes(true);
out:
	mutex_unlock(&switch_lock);
	return ret;
}
