// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contiguitas: the border between unmovable and movable memory, and the
 * thread that moves it.
 *
 * The free lists of a migratetype are the free lists of a region: below the
 * border every pageblock is UNMOVABLE, RECLAIMABLE or HIGHATOMIC, above it
 * MOVABLE, CMA or ISOLATE, and no request falls back across.  A movable page
 * may end up below the border (borrowed before an OOM kill, or in a block
 * swallowed with its pages); an unmovable page never ends up above it.
 *
 * contiguitas_border[] changes only under the lock of the zone it lies in.
 *
 * Source of the design: Contiguitas (ISCA 2023), section 3.2.
 */
#define pr_fmt(fmt) "contiguitas: " fmt

#include <linux/freezer.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/memory_hotplug.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/page-isolation.h>
#include <linux/sched/mm.h>
#include "internal.h"
#include "contiguitas.h"

#define CREATE_TRACE_POINTS
#include <trace/events/contiguitas.h>

/* One migration round: its fixed costs (draining every CPU) are high. */
#define CTG_BATCH	(4 * CTG_CHUNK)

/* Between two rounds nobody waits for. */
#define CTG_PAUSE_MS	100

/* While the region is larger than at boot, see this often whether it need be. */
#define CTG_REVIEW_MS	5000

/* An unmovable request waits this long for the border, then reclaims. */
#define CTG_RELIEVE_MS	200

struct ctg_tunables ctg_tunables = {
	.policy = {
		.threshold_unmov_bp = 100,
		.threshold_mov_bp = 100,
		.c_ue_milli = 100,
		.c_me_milli = 1,
		.c_us_milli = 1,
		.c_ms_milli = 100,
	},
	.backoff_base_ms = 100,
	.backoff_cap_ms = 30000,
};

static DEFINE_MUTEX(ctg_hw_lock);
static const struct contiguitas_hw_ops *ctg_hw;

/* Is the chunk at @pfn present memory of one zone? */
static bool chunk_whole(struct zone *zone, unsigned long pfn)
{
	unsigned long last = pfn + CTG_CHUNK - 1;
	struct page *head = pfn_to_online_page(pfn), *tail = pfn_to_online_page(last);

	return head && tail && page_zone(head) == zone && page_zone(tail) == zone &&
	       zone_spans_pfn(zone, pfn) && zone_spans_pfn(zone, last);
}

/* The types of the blocks in a chunk, as bits. */
static unsigned int chunk_types(unsigned long pfn)
{
	unsigned int types = 0, i;

	for (i = 0; i < CTG_CHUNK; i += pageblock_nr_pages)
		types |= BIT(get_pageblock_migratetype(pfn_to_page(pfn + i)));
	return types;
}

/* One free block of the largest order. zone->lock held. */
static bool chunk_free(unsigned long pfn)
{
	struct page *page = pfn_to_page(pfn);

	return PageBuddy(page) && buddy_order(page) == MAX_PAGE_ORDER;
}

static bool chunk_has_free(unsigned long pfn)
{
	unsigned long end = pfn + CTG_CHUNK;

	for (; pfn < end; pfn++)
		if (PageBuddy(pfn_to_page(pfn)))
			return true;
	return false;
}

/* Move the border of @n; the lock of the zone it lies in is held. */
void ctg_set_border(struct contiguitas_node *n, unsigned long pfn)
{
	struct zone *zones = NODE_DATA(n->nid)->node_zones;
	int i;

	WRITE_ONCE(contiguitas_border[n->nid], pfn);
	for (i = 0; i < MAX_NR_ZONES; i++)
		WRITE_ONCE(zones[i].above_border, zones[i].zone_start_pfn >= pfn);
}

/*
 * Pull the chunk at the border, whatever it holds, into the unmovable region.
 * zone->lock held. Returns the free pages gained.
 */
static unsigned long take_chunk(struct contiguitas_node *n, struct zone *zone,
				unsigned long pfn, int migratetype)
{
	unsigned long gained = 0;

	/* CMA and blocks that somebody isolates keep their type. */
	if (chunk_types(pfn) == BIT(MIGRATE_MOVABLE))
		gained = contiguitas_retype(zone, pfn, MIGRATE_MOVABLE, migratetype);
	if (gained < CTG_CHUNK)
		n->stray_pfn = min(n->stray_pfn, pfn);
	ctg_set_border(n, pfn + CTG_CHUNK);
	return gained;
}

/**
 * contiguitas_claim - take memory at the border for a request that needs it now
 * @zone: zone of the request, its lock held
 * @migratetype: type that the claimed blocks get
 * @alloc_flags: of the request
 *
 * A free block costs one list operation. For a request that must not fail
 * lightly up to CTG_BAND pages are looked at, and blocks taken that are only
 * partly free. The maximum size is a matter of policy and does not bind here:
 * failing the request would be worse.
 *
 * Return: true if the zone has more free pages of @migratetype than before.
 */
bool contiguitas_claim(struct zone *zone, int migratetype, unsigned int alloc_flags)
{
	struct contiguitas_node *n = contiguitas_nodes[zone_to_nid(zone)];
	unsigned long border = READ_ONCE(contiguitas_border[zone_to_nid(zone)]), from = border;
	bool desperate = alloc_flags & (ALLOC_MIN_RESERVE | ALLOC_OOM | ALLOC_NO_WATERMARKS);
	unsigned long pfn, reach = desperate ? CTG_BAND : CTG_CHUNK, gained = 0;

	lockdep_assert_held(&zone->lock);
	if (!zone_spans_pfn(zone, border))
		return false;
	for (pfn = border; pfn < border + reach && pfn < n->end_pfn; pfn += CTG_CHUNK) {
		if (!chunk_whole(zone, pfn) || chunk_types(pfn) != BIT(MIGRATE_MOVABLE))
			break;
		if (!chunk_free(pfn) && (!desperate || !chunk_has_free(pfn)))
			continue;
		for (; border <= pfn; border += CTG_CHUNK)
			gained += take_chunk(n, zone, border, migratetype);
		trace_contiguitas_claim(n->nid, from, border, gained);
		break;
	}
	count_vm_event(gained ? CTG_CLAIM : CTG_CLAIM_FAIL);
	return gained;
}

/*
 * May a batch of @migratetype leave the free lists of @zone? Its own side must
 * have more than its part of the watermark. Unmovable requests that may dip
 * into reserves may have all of that side: claims refill it.
 */
bool __contiguitas_admit(struct zone *zone, int migratetype, unsigned int alloc_flags)
{
	unsigned long mark = wmark_pages(zone, alloc_flags & ALLOC_WMARK_MASK);
	long free;

	if (alloc_flags & ALLOC_NO_WATERMARKS)
		return true;
	if (migratetype == MIGRATE_MOVABLE)
		return __zone_watermark_ok(zone, 0, mark, 0, alloc_flags | ALLOC_CMA,
					   zone_page_state(zone, NR_FREE_PAGES));
	free = contiguitas_free_low(zone) - READ_ONCE(zone->nr_free_highatomic);
	if (free > (long)(mark / CTG_LOW_MARK_DIV))
		return true;
	return (alloc_flags & ALLOC_WMARK_MASK) == ALLOC_WMARK_MIN &&
	       (contiguitas_claim(zone, migratetype, alloc_flags) ||
		(alloc_flags & ALLOC_RESERVES));
}

void contiguitas_note_overflow(void)
{
	count_vm_event(CTG_OVERFLOW);
}

/*
 * Free what alloc_contig_range() gave, chunk by chunk and not page by page:
 * single pages would stay on the per-CPU lists, to be handed out first, when
 * what lies at the border is to be handed out last.
 */
static void free_chunks(unsigned long pfn, unsigned long nr)
{
	unsigned long i, end = pfn + nr;

	for (; pfn < end; pfn += CTG_CHUNK) {
		struct page *page = pfn_to_page(pfn);

		for (i = 1; i < CTG_CHUNK; i++)
			WARN_ON_ONCE(!put_page_testzero(page + i));
		__free_pages(page, MAX_PAGE_ORDER);
	}
}

/*
 * [@pfn, @pfn + @nr), emptied by alloc_contig_range() and thus ours, changes
 * sides: type it, move the border from @from to @to and free the range there.
 * If a claim has moved the border meanwhile, the range stays on its low side.
 */
static int hand_over(struct contiguitas_node *n, unsigned long pfn, unsigned long nr,
		     unsigned long from, unsigned long to)
{
	struct zone *zone = page_zone(pfn_to_page(pfn));
	unsigned long i, flags;
	int ret = -EAGAIN;

	spin_lock_irqsave(&zone->lock, flags);
	if (READ_ONCE(contiguitas_border[n->nid]) == from) {
		ctg_set_border(n, to);
		ret = 0;
	}
	for (i = pfn; i < pfn + nr; i += pageblock_nr_pages)
		set_pageblock_migratetype(pfn_to_page(i),
					  contiguitas_block_type(pfn_to_page(i), MIGRATE_MOVABLE));
	spin_unlock_irqrestore(&zone->lock, flags);
	free_chunks(pfn, nr);
	return ret;
}

/* The border steps over memory that has no type to change, a hole for example. */
static void step(struct contiguitas_node *n, struct zone *zone, unsigned long from,
		 unsigned long to)
{
	unsigned long flags;

	/* Nobody claims at a gap: any lock that orders the write will do. */
	zone = zone ?: &NODE_DATA(n->nid)->node_zones[ZONE_NORMAL];
	spin_lock_irqsave(&zone->lock, flags);
	if (READ_ONCE(contiguitas_border[n->nid]) == from)
		ctg_set_border(n, to);
	spin_unlock_irqrestore(&zone->lock, flags);
}

/*
 * The chunk at the border does not empty: take it with what is left in it,
 * which after the attempt is little.
 */
static int swallow(struct contiguitas_node *n, struct zone *zone, unsigned long pfn)
{
	unsigned long flags;
	int ret = -EBUSY;

	spin_lock_irqsave(&zone->lock, flags);
	if (READ_ONCE(contiguitas_border[n->nid]) != pfn) {
		ret = -EAGAIN;
	} else if (!(chunk_types(pfn) & BIT(MIGRATE_ISOLATE))) {
		take_chunk(n, zone, pfn, MIGRATE_UNMOVABLE);
		count_vm_event(CTG_SWALLOW);
		ret = 0;
	}
	spin_unlock_irqrestore(&zone->lock, flags);
	return ret;
}

/*
 * Movable pages that were swallowed with their chunks go back above the
 * border, so that the region holds what it is for and need not grow. Only
 * kswapd makes room for them; what finds none waits for the next round.
 */
static void send_strays_home(struct contiguitas_node *n)
{
	unsigned long border = READ_ONCE(contiguitas_border[n->nid]);
	unsigned long pfn = xchg(&n->stray_pfn, ULONG_MAX);
	struct migration_target_control mtc = {
		.nid = n->nid,
		.gfp_mask = (GFP_HIGHUSER_MOVABLE | __GFP_NOWARN) & ~__GFP_DIRECT_RECLAIM,
		.reason = MR_COMPACTION,
	};
	struct compact_control cc = {
		.order = -1,
		.mode = MIGRATE_SYNC_LIGHT,
		.ignore_skip_hint = true,
		.no_set_skip_hint = true,
	};

	INIT_LIST_HEAD(&cc.migratepages);
	while (pfn < border) {
		struct page *page = pfn_to_online_page(pfn);
		unsigned long end = min(pfn + CTG_CHUNK, border);

		cc.migrate_pfn = end;
		cc.nr_migratepages = 0;
		cc.zone = page ? page_zone(page) : NULL;
		if (!page || isolate_migratepages_range(&cc, pfn, end))
			cc.migrate_pfn = end;
		if (migrate_pages(&cc.migratepages, alloc_migration_target, NULL,
				  (unsigned long)&mtc, cc.mode, mtc.reason, NULL) < 0) {
			putback_movable_pages(&cc.migratepages);
			break;
		}
		putback_movable_pages(&cc.migratepages);
		pfn = cc.migrate_pfn;
		cond_resched();
	}
	/* ... a claim may have left others meanwhile */
	if (pfn < border)
		n->stray_pfn = min(READ_ONCE(n->stray_pfn), pfn);
}

static int try_range(unsigned long start, unsigned long end, int migratetype)
{
	return alloc_contig_range(start, end, migratetype, GFP_KERNEL | __GFP_NOWARN);
}

static int expand_some(struct contiguitas_node *n, unsigned long nr, bool must)
{
	unsigned long pfn = READ_ONCE(contiguitas_border[n->nid]), got = CTG_CHUNK;
	struct page *page = pfn_to_online_page(pfn);
	struct zone *zone = page ? page_zone(page) : NULL;
	int ret;

	if (pfn + CTG_CHUNK > n->end_pfn)
		return -ENOSPC;
	/* over a hole, or the odd end of a zone */
	if (!zone || !chunk_whole(zone, pfn)) {
		step(n, zone, pfn, pfn + CTG_CHUNK);
		return 0;
	}
	nr = min(nr, n->end_pfn - pfn);
	while (got < nr && chunk_whole(zone, pfn + got))
		got += CTG_CHUNK;

	ret = try_range(pfn, pfn + got, MIGRATE_MOVABLE);
	if (ret && got > CTG_CHUNK) {
		got = CTG_CHUNK;
		ret = try_range(pfn, pfn + got, MIGRATE_MOVABLE);
	}
	if (ret)
		return must ? swallow(n, zone, pfn) : ret;
	return hand_over(n, pfn, got, pfn, pfn + got);
}

/* Typed pages (slab, page tables) are known by their struct page, which stays. */
static bool hw_can_move(struct page *page)
{
	return page_count(page) && !PageReserved(page) && !PageLRU(page) &&
	       !PageCompound(page) && !page_has_type(page);
}

/* Let hardware move what software cannot out of [@pfn, @pfn + CTG_CHUNK). */
static void evacuate_by_hw(struct contiguitas_node *n, unsigned long pfn)
{
	unsigned long end = pfn + CTG_CHUNK, start = pfn;
	struct page *src, *dst, *next;
	LIST_HEAD(unfit);

	mutex_lock(&ctg_hw_lock);
	for (; ctg_hw && pfn < end; pfn++) {
		src = pfn_to_page(pfn);
		if (!hw_can_move(src))
			continue;
		do {
			dst = alloc_pages_node(n->nid, GFP_KERNEL | __GFP_NOWARN |
					       __GFP_NORETRY | __GFP_THISNODE, 0);
			if (!dst)
				goto out;
			if (page_to_pfn(dst) >= start)
				list_add(&dst->lru, &unfit);
		} while (page_to_pfn(dst) >= start);
		if (ctg_hw->migrate(src, dst, 0)) {
			__free_page(dst);
			continue;
		}
		if (ctg_hw->clear(src))
			continue;
		__free_page(src);
		count_vm_event(CTG_HW_MOVED);
	}
out:
	mutex_unlock(&ctg_hw_lock);
	list_for_each_entry_safe(dst, next, &unfit, lru)
		__free_page(dst);
}

static int shrink_some(struct contiguitas_node *n, unsigned long nr)
{
	unsigned long border = READ_ONCE(contiguitas_border[n->nid]), pfn = border - CTG_CHUNK, i;
	struct page *page = pfn_to_online_page(pfn);
	struct zone *zone = page ? page_zone(page) : NULL;
	int ret;

	/* a gap that the border stepped over before: nothing was converted */
	if (!zone || !chunk_whole(zone, pfn)) {
		if (page && (chunk_types(pfn) & BIT(MIGRATE_UNMOVABLE)))
			return -EBUSY;
		step(n, zone, border, pfn);
		return 0;
	}
	while (border - pfn < nr && pfn - CTG_CHUNK >= n->base_pfn &&
	       chunk_whole(zone, pfn - CTG_CHUNK))
		pfn -= CTG_CHUNK;
retry:
	for (i = pfn; i < border; i += CTG_CHUNK)
		if (chunk_types(i) & (BIT(MIGRATE_HIGHATOMIC) | BIT(MIGRATE_CMA)))
			return -EBUSY;
	ret = try_range(pfn, border, MIGRATE_UNMOVABLE);
	if (ret && border - pfn > CTG_CHUNK) {
		pfn = border - CTG_CHUNK;
		goto retry;
	}
	if (ret && READ_ONCE(ctg_hw)) {
		evacuate_by_hw(n, pfn);
		ret = try_range(pfn, border, MIGRATE_UNMOVABLE);
	}
	return ret ?: hand_over(n, pfn, border - pfn, border, pfn);
}

/**
 * ctg_resize - move the border until the unmovable region has a given size
 * @n: the node
 * @target_pages: that size, a multiple of CTG_CHUNK
 * @must: unmovable requests wait or are about to: take blocks that cannot be
 *	emptied as they are. Otherwise they would only spread unmovable pages.
 *
 * Sleeps. Stops at the first chunk that cannot be moved.
 *
 * Return: 0, or why it stopped.
 */
int ctg_resize(struct contiguitas_node *n, unsigned long target_pages, bool must)
{
	bool expand = target_pages > ctg_size(n);
	int ret = 0;

	mutex_lock(&n->resize_lock);
	while (!ret && (expand ? ctg_size(n) < target_pages : ctg_size(n) > target_pages)) {
		unsigned long from = ctg_size(n);

		if (expand)
			ret = expand_some(n, min(target_pages - from, CTG_BATCH), must);
		else
			ret = shrink_some(n, min(from - target_pages, CTG_BATCH));
		trace_contiguitas_resize(n->nid, n->base_pfn + from,
					 n->base_pfn + ctg_size(n), ret);
		if (ret)
			count_vm_event(expand ? CTG_EXPAND_FAIL : CTG_SHRINK_FAIL);
		else
			count_vm_event(expand ? CTG_EXPAND : CTG_SHRINK);
		atomic_inc(&n->passes);
		wake_up_all(&n->done);
		cond_resched();
	}
	mutex_unlock(&n->resize_lock);
	return ret;
}

/* What the policy wants to know. Read without locks, so slightly off. */
void ctg_read_state(struct contiguitas_node *n, struct ctg_state *s)
{
	pg_data_t *pgdat = NODE_DATA(n->nid);
	struct zone *zone;

	*s = (struct ctg_state) {
		.node_pages = n->end_pfn - n->base_pfn,
		.unmov_pages = ctg_size(n),
		.min_pages = READ_ONCE(n->min_pages),
		.max_pages = READ_ONCE(n->max_pages),
		.block_pages = CTG_CHUNK,
		.unmov_low_wmark_pages = CTG_CHUNK,
		.pressure_unmov_bp = ctg_stall_bp(&n->stall[CONTIGUITAS_UNMOVABLE]),
		.pressure_mov_bp = ctg_stall_bp(&n->stall[CONTIGUITAS_MOVABLE]),
	};
	for (zone = pgdat->node_zones; zone < pgdat->node_zones + MAX_NR_ZONES; zone++) {
		unsigned long low_free, free;

		if (!managed_zone(zone))
			continue;
		low_free = READ_ONCE(zone->nr_free_unmovable);
		free = zone_page_state(zone, NR_FREE_PAGES);
		s->mov_free_pages += free - min(free, low_free);
		/* Memory that GFP_KERNEL may not have is no use to it. */
		low_free -= min_t(unsigned long, low_free, zone->lowmem_reserve[ZONE_NORMAL]);
		s->unmov_free_pages += low_free;
		if (zone->zone_start_pfn < n->base_pfn + s->unmov_pages)
			s->unmov_low_wmark_pages += low_wmark_pages(zone) / CTG_LOW_MARK_DIV;
		if (zone_end_pfn(zone) > n->base_pfn + s->unmov_pages)
			s->mov_low_wmark_pages += low_wmark_pages(zone);
	}
}

static unsigned long backoff_until(unsigned int failures)
{
	return jiffies + msecs_to_jiffies(ctg_backoff_ms(failures, ctg_tunables.backoff_base_ms,
							 ctg_tunables.backoff_cap_ms));
}

static void resizer_round(struct contiguitas_node *n)
{
	bool urgent = xchg(&n->urgent, false), must;
	unsigned long now, target;
	struct ctg_state s;
	int ret;

	ctg_read_state(n, &s);
	now = s.unmov_pages;
	target = ctg_target_pages(&ctg_tunables.policy, &s);
	/* Somebody waits, so free pages there may be are of no use to him. */
	if (urgent)
		target = max(target, min(now + CTG_CHUNK, n->end_pfn - n->base_pfn));
	must = urgent || s.unmov_free_pages < s.unmov_low_wmark_pages;
	trace_contiguitas_decide(n->nid, n->base_pfn + now, n->base_pfn + target,
				 (long)s.pressure_unmov_bp - s.pressure_mov_bp);

	/* Back-off after an attempt that spared blocks does not bind one that must. */
	if (target > now && ((must && !n->expand_hard) ||
			     !time_before(jiffies, n->expand_after))) {
		ret = ctg_resize(n, target, must);
		WRITE_ONCE(n->expand_hard, must);
		n->expand_failures = ret ? n->expand_failures + 1 : 0;
		WRITE_ONCE(n->expand_after, backoff_until(n->expand_failures));
	} else if (target < now && !time_before(jiffies, n->shrink_after)) {
		ret = ctg_resize(n, target, false);
		n->shrink_failures = ret ? n->shrink_failures + 1 : 0;
		n->shrink_after = backoff_until(n->shrink_failures);
	}
	if (!must && READ_ONCE(n->stray_pfn) < n->base_pfn + s.unmov_pages)
		send_strays_home(n);
	atomic_inc(&n->passes);
	wake_up_all(&n->done);
}

static int resizer(void *arg)
{
	struct contiguitas_node *n = arg;

	set_freezable();
	while (!kthread_should_stop()) {
		wait_event_freezable_timeout(n->wait, READ_ONCE(n->wake) ||
					     READ_ONCE(n->urgent) || kthread_should_stop(),
					     ctg_size(n) > n->initial_pages ||
					     READ_ONCE(n->stray_pfn) != ULONG_MAX ?
					     msecs_to_jiffies(CTG_REVIEW_MS) :
					     MAX_SCHEDULE_TIMEOUT);
		WRITE_ONCE(n->wake, false);
		resizer_round(n);
		wait_event_freezable_timeout(n->wait, READ_ONCE(n->urgent) ||
					     kthread_should_stop(),
					     msecs_to_jiffies(CTG_PAUSE_MS));
	}
	return 0;
}

/* From reclaim's own wake-ups: some region of @nid is below its low mark. */
void __contiguitas_wake(int nid)
{
	struct contiguitas_node *n = contiguitas_nodes[nid];

	if (!n || !n->task || READ_ONCE(n->wake))
		return;
	WRITE_ONCE(n->wake, true);
	wake_up_interruptible(&n->wait);
}

/**
 * contiguitas_relieve - have the border moved for a request that may sleep
 * @ac: the request
 *
 * Return: true if the resizer did something since; the request should look
 * for a page before it reclaims.
 */
bool contiguitas_relieve(const struct alloc_context *ac)
{
	struct contiguitas_node *n;
	int nid, passes;
	long left;

	if (ac->migratetype == MIGRATE_MOVABLE)
		return false;
	nid = zonelist_node_idx(ac->preferred_zoneref);
	n = contiguitas_nodes[nid];
	/* What the resizer itself needs, reclaim must find. */
	if (!n || !n->task || current == n->task ||
	    (READ_ONCE(n->expand_hard) && time_before(jiffies, READ_ONCE(n->expand_after))))
		return false;

	count_vm_event(CTG_RELIEVE);
	passes = atomic_read(&n->passes);
	contiguitas_stall_enter(nid, CONTIGUITAS_UNMOVABLE);
	WRITE_ONCE(n->urgent, true);
	wake_up_interruptible(&n->wait);
	left = wait_event_timeout(n->done, atomic_read(&n->passes) != passes,
				  msecs_to_jiffies(CTG_RELIEVE_MS));
	contiguitas_stall_leave(nid, CONTIGUITAS_UNMOVABLE);
	return left;
}

/**
 * contiguitas_register_hw - offer hardware that moves pages in use
 * @ops: what it can do
 *
 * Return: 0, or -EBUSY if there is one already.
 */
int contiguitas_register_hw(const struct contiguitas_hw_ops *ops)
{
	int ret = 0;

	mutex_lock(&ctg_hw_lock);
	if (ctg_hw)
		ret = -EBUSY;
	else
		WRITE_ONCE(ctg_hw, ops);
	mutex_unlock(&ctg_hw_lock);
	return ret;
}
EXPORT_SYMBOL_GPL(contiguitas_register_hw);

void contiguitas_unregister_hw(const struct contiguitas_hw_ops *ops)
{
	mutex_lock(&ctg_hw_lock);
	if (ctg_hw == ops)
		WRITE_ONCE(ctg_hw, NULL);
	mutex_unlock(&ctg_hw_lock);
}
EXPORT_SYMBOL_GPL(contiguitas_unregister_hw);

static int __init contiguitas_start(void)
{
	struct contiguitas_node *n;
	struct task_struct *task;
	int nid;

	if (!contiguitas_enabled())
		return 0;
	for_each_node_state(nid, N_MEMORY) {
		n = contiguitas_nodes[nid];
		if (!n)
			continue;
		task = kthread_create_on_node(resizer, n, nid, "kcontiguitas%d", nid);
		if (IS_ERR(task)) {
			pr_err("node %d: no resizer thread, border stays\n", nid);
			continue;
		}
		n->task = task;
		wake_up_process(task);
	}
	return 0;
}
subsys_initcall(contiguitas_start);
