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
#include <linux/mm.h>
#include <linux/page-isolation.h>
#include <linux/sched/mm.h>
#include "internal.h"
#include "contiguitas.h"

#define CREATE_TRACE_POINTS
#include <trace/events/contiguitas.h>

/* One migration round: its fixed costs (draining every CPU) are high. */
#define CTG_BATCH	(4 * CTG_CHUNK)

/* How far from the border a claim that cannot wait looks for free pages. */
#define CTG_CLAIM_REACH	(16 * CTG_CHUNK)

/* How far the resizer looks past memory it can neither move nor use. */
#define CTG_SWALLOW_REACH (SZ_1G / PAGE_SIZE + SZ_256M / PAGE_SIZE)

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

static bool chunk_typed(unsigned long pfn, int migratetype)
{
	unsigned long end = pfn + CTG_CHUNK;

	for (; pfn < end; pfn += pageblock_nr_pages)
		if (get_pageblock_migratetype(pfn_to_page(pfn)) != migratetype)
			return false;
	return true;
}

static bool chunk_has_type(unsigned long pfn, int migratetype)
{
	unsigned long end = pfn + CTG_CHUNK;

	for (; pfn < end; pfn += pageblock_nr_pages)
		if (get_pageblock_migratetype(pfn_to_page(pfn)) == migratetype)
			return true;
	return false;
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

/*
 * Pull the chunk at the border, whatever it holds, into the unmovable region.
 * zone->lock held. Returns the free pages gained.
 */
static unsigned long take_chunk(struct contiguitas_node *n, struct zone *zone,
				unsigned long pfn, int migratetype)
{
	unsigned long gained = 0;

	/* CMA and blocks that somebody isolates keep their type. */
	if (chunk_typed(pfn, MIGRATE_MOVABLE))
		gained = contiguitas_retype(zone, pfn, MIGRATE_MOVABLE, migratetype);
	ctg_set_border(n->nid, n->base_pfn, pfn + CTG_CHUNK);
	return gained;
}

/**
 * contiguitas_claim - take memory at the border for a request that needs it now
 * @zone: zone of the request, its lock held
 * @migratetype: type that the claimed blocks get
 * @desperate: also take blocks that are only partly free
 *
 * A free block costs one list operation. A desperate claim looks at up to
 * CTG_CLAIM_REACH pages. The maximum size is a matter of policy and does not
 * bind here: failing the request would be worse.
 *
 * Return: true if the zone has more free pages of @migratetype than before.
 */
bool contiguitas_claim(struct zone *zone, int migratetype, bool desperate)
{
	struct contiguitas_node *n = contiguitas_nodes[zone_to_nid(zone)];
	unsigned long border, pfn, reach, gained = 0;

	lockdep_assert_held(&zone->lock);
	if (!n)
		return false;
	border = READ_ONCE(contiguitas_border[n->nid]);
	if (!zone_spans_pfn(zone, border))
		return false;

	reach = desperate ? CTG_CLAIM_REACH : CTG_CHUNK;
	for (pfn = border; pfn < border + reach && pfn < n->end_pfn; pfn += CTG_CHUNK) {
		if (!chunk_whole(zone, pfn) || !chunk_typed(pfn, MIGRATE_MOVABLE))
			break;
		if (!chunk_free(pfn) && (!desperate || !chunk_has_free(pfn)))
			continue;
		for (; border <= pfn; border += CTG_CHUNK)
			gained += take_chunk(n, zone, border, migratetype);
		trace_contiguitas_claim(n->nid, pfn, border - pfn, gained);
		break;
	}
	count_vm_event(gained ? CTG_CLAIM : CTG_CLAIM_FAIL);
	return gained;
}

bool __contiguitas_refill(struct zone *zone, bool desperate)
{
	unsigned long flags;
	bool claimed;

	if (!zone_spans_pfn(zone, READ_ONCE(contiguitas_border[zone_to_nid(zone)])))
		return false;
	spin_lock_irqsave(&zone->lock, flags);
	claimed = contiguitas_claim(zone, MIGRATE_UNMOVABLE, desperate);
	spin_unlock_irqrestore(&zone->lock, flags);
	return claimed;
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
 * [@pfn, @pfn + @nr) above the border, emptied by alloc_contig_range() and
 * thus ours: make it part of the unmovable region and free it there. A claim
 * may have come past in the meantime, which changes nothing.
 */
static void adopt_range(struct contiguitas_node *n, unsigned long pfn, unsigned long nr)
{
	struct zone *zone = page_zone(pfn_to_page(pfn));
	unsigned long i, flags;

	spin_lock_irqsave(&zone->lock, flags);
	for (i = 0; i < nr; i += pageblock_nr_pages)
		set_pageblock_migratetype(pfn_to_page(pfn + i), MIGRATE_UNMOVABLE);
	if (READ_ONCE(contiguitas_border[n->nid]) < pfn + nr)
		ctg_set_border(n->nid, n->base_pfn, pfn + nr);
	spin_unlock_irqrestore(&zone->lock, flags);
	free_chunks(pfn, nr);
}

/* Memory at the border that does not budge: take it with what is in it. */
static int swallow(struct contiguitas_node *n, struct zone *zone, unsigned long pfn)
{
	unsigned long flags, last = pfn, limit = min(n->end_pfn, pfn + CTG_SWALLOW_REACH);

	while (last < limit && chunk_whole(zone, last) && !chunk_has_free(last)) {
		last += CTG_CHUNK;
		cond_resched();
	}
	if (last >= limit || !chunk_whole(zone, last))
		return -EBUSY;
	for (; pfn <= last; pfn += CTG_CHUNK) {
		spin_lock_irqsave(&zone->lock, flags);
		if (READ_ONCE(contiguitas_border[n->nid]) == pfn &&
		    !chunk_has_type(pfn, MIGRATE_ISOLATE)) {
			take_chunk(n, zone, pfn, MIGRATE_UNMOVABLE);
			count_vm_event(CTG_SWALLOW);
		}
		spin_unlock_irqrestore(&zone->lock, flags);
		cond_resched();
	}
	return 0;
}

/* Over a hole, or the odd end of a zone, the border simply steps. */
static bool step_over_gap(struct contiguitas_node *n, unsigned long pfn)
{
	struct page *page = pfn_to_online_page(pfn);
	unsigned long flags, next = pfn + CTG_CHUNK;
	struct zone *zone;

	if (page && chunk_whole(page_zone(page), pfn))
		return false;
	/* Nobody claims at a gap: any lock that orders the write will do. */
	zone = page ? page_zone(page) : &NODE_DATA(n->nid)->node_zones[ZONE_NORMAL];
	spin_lock_irqsave(&zone->lock, flags);
	if (READ_ONCE(contiguitas_border[n->nid]) == pfn)
		ctg_set_border(n->nid, n->base_pfn, next);
	spin_unlock_irqrestore(&zone->lock, flags);
	return true;
}

static int expand_some(struct contiguitas_node *n, unsigned long nr, bool must)
{
	unsigned long pfn = READ_ONCE(contiguitas_border[n->nid]), got = CTG_CHUNK;
	struct zone *zone;
	int ret;

	if (pfn + CTG_CHUNK > n->end_pfn)
		return -ENOSPC;
	if (step_over_gap(n, pfn))
		return 0;
	zone = page_zone(pfn_to_page(pfn));
	nr = min(nr, n->end_pfn - pfn);
	while (got < nr && chunk_whole(zone, pfn + got))
		got += CTG_CHUNK;

	ret = alloc_contig_range(pfn, pfn + got, MIGRATE_MOVABLE, GFP_KERNEL | __GFP_NOWARN);
	if (ret && got > CTG_CHUNK) {
		got = CTG_CHUNK;
		ret = alloc_contig_range(pfn, pfn + got, MIGRATE_MOVABLE,
					 GFP_KERNEL | __GFP_NOWARN);
	}
	if (ret)
		return must ? swallow(n, zone, pfn) : ret;
	adopt_range(n, pfn, got);
	return 0;
}

static bool hw_can_move(struct page *page)
{
	return page_count(page) && !PageReserved(page) && !PageLRU(page) &&
	       !PageCompound(page) && !PageBuddy(page);
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
	unsigned long border = READ_ONCE(contiguitas_border[n->nid]), pfn = border - CTG_CHUNK;
	struct page *page = pfn_to_online_page(pfn);
	struct zone *zone = page ? page_zone(page) : NULL;
	unsigned long i, flags;
	int ret;

	/* A gap that the border stepped over before: nothing was converted. */
	if (!zone || !chunk_whole(zone, pfn)) {
		if (page && chunk_has_type(pfn, MIGRATE_UNMOVABLE))
			return -EBUSY;
		zone = zone ?: &NODE_DATA(n->nid)->node_zones[ZONE_NORMAL];
		goto move;
	}
	while (border - pfn < nr && pfn - CTG_CHUNK >= n->base_pfn &&
	       chunk_whole(zone, pfn - CTG_CHUNK))
		pfn -= CTG_CHUNK;
retry:
	for (i = pfn; i < border; i += CTG_CHUNK)
		if (chunk_has_type(i, MIGRATE_HIGHATOMIC) || chunk_has_type(i, MIGRATE_CMA))
			return -EBUSY;
	ret = alloc_contig_range(pfn, border, MIGRATE_UNMOVABLE, GFP_KERNEL | __GFP_NOWARN);
	if (ret && border - pfn > CTG_CHUNK) {
		pfn = border - CTG_CHUNK;
		goto retry;
	}
	if (ret && READ_ONCE(ctg_hw)) {
		evacuate_by_hw(n, pfn);
		ret = alloc_contig_range(pfn, border, MIGRATE_UNMOVABLE,
					 GFP_KERNEL | __GFP_NOWARN);
	}
	if (ret)
		return ret;

	spin_lock_irqsave(&zone->lock, flags);
	/* A claim that came in between has moved the border: give up this round. */
	if (READ_ONCE(contiguitas_border[n->nid]) == border) {
		for (i = pfn; i < border; i += pageblock_nr_pages)
			set_pageblock_migratetype(pfn_to_page(i), MIGRATE_MOVABLE);
		ctg_set_border(n->nid, n->base_pfn, pfn);
	} else {
		ret = -EAGAIN;
	}
	spin_unlock_irqrestore(&zone->lock, flags);
	free_chunks(pfn, border - pfn);
	return ret;
move:
	spin_lock_irqsave(&zone->lock, flags);
	if (READ_ONCE(contiguitas_border[n->nid]) == border)
		ctg_set_border(n->nid, n->base_pfn, pfn);
	spin_unlock_irqrestore(&zone->lock, flags);
	return 0;
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
			s->unmov_low_wmark_pages += contiguitas_mark(low_wmark_pages(zone), true);
		if (zone_end_pfn(zone) > n->base_pfn + s->unmov_pages)
			s->mov_low_wmark_pages += contiguitas_mark(low_wmark_pages(zone), false);
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
	trace_contiguitas_decide(n->nid, now, target, s.pressure_unmov_bp, s.pressure_mov_bp);

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
					     ctg_size(n) > n->initial_pages ?
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
void contiguitas_wake(int nid)
{
	struct contiguitas_node *n = contiguitas_nodes[nid];

	if (!contiguitas_enabled() || !n || !n->task || READ_ONCE(n->wake))
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

	if (!contiguitas_enabled() || ac->migratetype == MIGRATE_MOVABLE)
		return false;
	nid = zonelist_node_idx(ac->preferred_zoneref);
	n = contiguitas_nodes[nid];
	/* What the resizer itself needs, reclaim must find. */
	if (!n || !n->task || current == n->task ||
	    (READ_ONCE(n->expand_hard) && time_before(jiffies, READ_ONCE(n->expand_after))))
		return false;

	count_vm_event(CTG_RELIEVE);
	passes = atomic_read(&n->passes);
	__contiguitas_stall_enter(nid, CONTIGUITAS_UNMOVABLE);
	WRITE_ONCE(n->urgent, true);
	wake_up_interruptible(&n->wait);
	left = wait_event_timeout(n->done, atomic_read(&n->passes) != passes,
				  msecs_to_jiffies(CTG_RELIEVE_MS));
	__contiguitas_stall_leave(nid, CONTIGUITAS_UNMOVABLE);
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
