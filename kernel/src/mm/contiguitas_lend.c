// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contiguitas: what need not be in the unmovable region leaves it, and what of it
 * cannot be given back is lent to movable requests.
 */
#include <linux/migrate.h>
#include <linux/mm.h>
#include "internal.h"
#include "contiguitas.h"

/* After a sweep in vain, this long until the next. */
#define CTG_SWEEP_MS	5000

/**
 * ctg_target - a place for a page that goes to the other side of the border
 * @src: the page
 * @private: a struct migration_target_control
 *
 * alloc_migration_target() would ask for that of a large one as for huge pages: movable, and with
 * direct reclaim. Without a place it is split.
 */
struct folio *ctg_target(struct folio *src, unsigned long private)
{
	struct migration_target_control *mtc = (void *)private;

	if (folio_test_hugetlb(src))
		return alloc_migration_target(src, private);
	return __folio_alloc(mtc->gfp_mask, folio_order(src), mtc->nid, NULL);
}

/*
 * What need not be in the region leaves it: up to @nr pages, movable ones that were
 * lent room or swallowed with their chunks to above the border, and with @drop clean
 * pages of a cache that asks for unmovable memory (of a block device, of the metadata of
 * file systems) and were not read again, for good. Only kswapd makes room above; what finds
 * none waits for the next round. Returns how many went.
 */
unsigned long ctg_sweep(struct contiguitas_node *n, unsigned long nr, bool drop)
{
	unsigned long border = READ_ONCE(contiguitas_border[n->nid]), gone = 0;
	unsigned long pfn = xchg(&n->stray_pfn, ULONG_MAX);
	struct migration_target_control mtc = {
		.nid = n->nid,
		.gfp_mask = (GFP_HIGHUSER_MOVABLE | __GFP_NOWARN) & ~__GFP_DIRECT_RECLAIM,
		.reason = MR_COMPACTION,
	};
	struct compact_control cc = {
		.order = -1,
		.gfp_mask = GFP_KERNEL,
		.mode = MIGRATE_SYNC_LIGHT,
		.ignore_skip_hint = true,
		.no_set_skip_hint = true,
		.alloc_contig = true,	/* huge pages, too */
	};
	LIST_HEAD(cold);
	LIST_HEAD(stay);
	int ret;

	INIT_LIST_HEAD(&cc.migratepages);
	while (pfn < border && gone < nr) {
		struct page *page = pfn_to_online_page(pfn);
		unsigned int went = 0, dropped;
		unsigned long end = min(pfn + CTG_CHUNK, border);
		struct folio *folio, *next;

		cc.migrate_pfn = end;
		cc.nr_migratepages = 0;
		cc.zone = page ? page_zone(page) : NULL;
		if (!page || isolate_migratepages_range(&cc, pfn, end))
			cc.migrate_pfn = end;
		list_for_each_entry_safe(folio, next, &cc.migratepages, lru)
			if (!__folio_test_movable(folio) && contiguitas_keep_low(folio))
				list_move(&folio->lru, drop && !folio_test_active(folio) &&
					  !folio_test_unevictable(folio) ? &cold : &stay);
		dropped = list_empty(&cold) ? 0 : reclaim_clean_pages_from_list(cc.zone, &cold);
		list_splice_init(&cold, &stay);
		putback_movable_pages(&stay);
		ret = migrate_pages(&cc.migratepages, ctg_target, NULL,
				    (unsigned long)&mtc, cc.mode, mtc.reason, &went);
		putback_movable_pages(&cc.migratepages);
		n->swept_pages += dropped;
		gone += went + dropped;
		pfn = cc.migrate_pfn;
		if (ret < 0)
			break;
		cond_resched();
	}
	/* ... a claim, or a request that was lent to, may have left others meanwhile */
	if (pfn < border)
		n->stray_pfn = min(READ_ONCE(n->stray_pfn), pfn);
	if (pfn >= border || n->swept_pages >= CTG_BATCH)
		WRITE_ONCE(n->cache, n->swept_pages >= CTG_BATCH);
	WRITE_ONCE(n->lent, n->lent && READ_ONCE(n->stray_pfn) < border);
	return gone;
}

/*
 * May a sweep make room in the region? One that is under way may; another begins if
 * the last one was not in vain lately, and there is cache to drop at all.
 */
static bool may_sweep(struct contiguitas_node *n)
{
	if (READ_ONCE(n->stray_pfn) < READ_ONCE(contiguitas_border[n->nid]))
		return true;
	if (node_page_state(NODE_DATA(n->nid), NR_INACTIVE_FILE) < CTG_BATCH)
		WRITE_ONCE(n->cache, false);
	if (!READ_ONCE(n->cache) && time_before(jiffies, n->sweep_after))
		return false;
	n->sweep_after = jiffies + msecs_to_jiffies(CTG_SWEEP_MS);
	n->swept_pages = 0;
	WRITE_ONCE(n->stray_pfn, n->base_pfn);
	return true;
}

/*
 * Does what need not be in the region make the room that it lacks, for all CPUs, before
 * it grows for want of it? Brings @s up to date.
 */
bool ctg_sweep_enough(struct contiguitas_node *n, struct ctg_state *s)
{
	int rounds;

	for (rounds = 0; rounds < 4 && may_sweep(n) && ctg_sweep(n, CTG_BATCH, true); rounds++) {
		drain_all_pages(NULL);
		ctg_read_state(n, s);
		if (!ctg_must_grow(s))
			return true;
	}
	return false;
}

/**
 * contiguitas_lend - may a movable request have a page of the unmovable region?
 * @nid: where it looks first
 * @order: of the request
 * @last: nothing is left but the OOM killer: any request may
 *
 * Pages in use can keep a region from shrinking that is free for the most part. While
 * the movable side loses time for lack of memory, it is lent what a shrink would give.
 */
bool contiguitas_lend(int nid, unsigned int order, bool last)
{
	struct contiguitas_node *n = contiguitas_nodes[nid];
	struct ctg_state s;

	/* What the resizer itself needs, reclaim must find. */
	if (!n || !n->task || (current == n->task && !last))
		return false;
	if (!last && (order || !READ_ONCE(n->shrink_failures)))
		return false;
	ctg_read_state(n, &s);
	if (!last && (s.pressure_mov_bp < ctg_params.threshold_mov_bp ||
		      s.unmov_free_pages < 2 * s.unmov_low_wmark_pages + CTG_CHUNK))
		return false;
	WRITE_ONCE(n->stray_pfn, n->base_pfn);
	WRITE_ONCE(n->lent, true);
	count_vm_event(CTG_LEND);
	return true;
}
