// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contiguitas: the thread that moves the border, who wakes it, and who waits
 * for it. How much it moves is Algorithm 1, in contiguitas_policy.h.
 */
#define pr_fmt(fmt) "contiguitas: " fmt

#include <linux/freezer.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include "internal.h"
#include "contiguitas.h"
#include <trace/events/contiguitas.h>

/* Between two rounds nobody waits for. */
#define CTG_PAUSE_MS	100

/* While the region is larger than at boot, see this often whether it need be. */
#define CTG_REVIEW_MS	5000

/*
 * An unmovable request waits at most this long for a step of the border, then
 * reclaims. One that may not wait for I/O, or may fail, waits for less: the
 * step may need the I/O that it holds up.
 */
#define CTG_RELIEVE_MS	1000
#define CTG_RELIEVE_SHORT_MS	100

/* Beyond the maximum the border moves a chunk at a time, and not more often than this. */
#define CTG_BEYOND_MS	100

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

/* What the policy wants to know. Read without locks, so slightly off. */
void ctg_read_state(struct contiguitas_node *n, struct ctg_state *s)
{
	pg_data_t *pgdat = NODE_DATA(n->nid);
	struct zone *zone;

	*s = (struct ctg_state) {
		.node_pages = n->pages,
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
		low_free = max(contiguitas_free_low(zone), 0L);
		free = zone_page_state(zone, NR_FREE_PAGES);
		s->mov_free_pages += free - min(free, low_free);
		/* Memory that GFP_KERNEL may not have is no use to it. */
		low_free -= min_t(unsigned long, low_free, zone->lowmem_reserve[ZONE_NORMAL]);
		s->unmov_free_pages += low_free;
		/*
		 * What atomic requests can have of a zone at its low mark, they
		 * find below the border, whichever zone it was counted for.
		 */
		s->unmov_low_wmark_pages += low_wmark_pages(zone);
		if (zone_end_pfn(zone) > READ_ONCE(contiguitas_border[n->nid]))
			s->mov_low_wmark_pages += low_wmark_pages(zone);
	}
}

/*
 * Pages of a cache that asks for unmovable memory (of a block device, of the
 * metadata of file systems) are in the region for as long as nobody needs the room:
 * those that were not read again go before the region grows.
 */
static bool cold_cache(struct folio *folio)
{
	return !folio_test_active(folio) && !folio_test_unevictable(folio);
}

/*
 * What need not be in the region leaves it: up to @nr pages, movable ones that were
 * lent room or swallowed with their chunks to above the border, and with @drop clean
 * pages of a cold cache for good. Only kswapd makes room above; what finds none waits
 * for the next round. Returns how many went.
 */
static unsigned long sweep(struct contiguitas_node *n, unsigned long nr, bool drop)
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
				list_move(&folio->lru, drop && cold_cache(folio) ? &cold : &stay);
		dropped = list_empty(&cold) ? 0 : reclaim_clean_pages_from_list(cc.zone, &cold);
		list_splice_init(&cold, &stay);
		putback_movable_pages(&stay);
		ret = migrate_pages(&cc.migratepages, alloc_migration_target, NULL,
				    (unsigned long)&mtc, cc.mode, mtc.reason, &went);
		putback_movable_pages(&cc.migratepages);
		n->swept_pages += dropped;
		count_vm_events(CTG_DROP, dropped);
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
	n->sweep_after = jiffies + msecs_to_jiffies(CTG_REVIEW_MS);
	n->swept_pages = 0;
	WRITE_ONCE(n->stray_pfn, n->base_pfn);
	return true;
}

static unsigned long backoff_until(unsigned int failures)
{
	return jiffies + msecs_to_jiffies(ctg_backoff_ms(failures, ctg_tunables.backoff_base_ms,
							 ctg_tunables.backoff_cap_ms));
}

/* Does some unmovable request need memory at once, or is the last of the gap in use? */
static bool must_grow(const struct ctg_state *s, bool urgent)
{
	return urgent || s->unmov_free_pages < s->unmov_low_wmark_pages / CTG_LOW_MARK_DIV;
}

/*
 * Does what need not be in the region make the room that it lacks, for all CPUs, before
 * it grows for want of it? Brings @s up to date.
 */
static bool sweep_enough(struct contiguitas_node *n, struct ctg_state *s)
{
	int rounds;

	for (rounds = 0; rounds < 4 && may_sweep(n) && sweep(n, CTG_BATCH, true); rounds++) {
		drain_all_pages(NULL);
		ctg_read_state(n, s);
		if (!must_grow(s, false))
			return true;
	}
	return false;
}

/*
 * How large the region may become for who waits now. Its maximum binds all growth
 * for what may come. Who waits when that is reached is served in small steps with
 * time between them, in which others that wait reclaim: kernel memory in use has no
 * other place.
 */
static unsigned long limit_pages(struct contiguitas_node *n, const struct ctg_state *s)
{
	unsigned long now = s->unmov_pages;

	if (now + CTG_CHUNK <= s->max_pages)
		return s->max_pages;
	if (time_before(jiffies, n->beyond_after))
		return now;
	n->beyond_after = jiffies + msecs_to_jiffies(CTG_BEYOND_MS);
	return min(now + CTG_CHUNK, n->pages);
}

/*
 * Grow to @target, a batch at a time: what was urgent when Algorithm 1 was
 * asked is served by the first of them. The rest is for what may come: it spares
 * blocks that do not empty, is not worth starving the movable side, and ends
 * when as much as was wanted has become free in the region itself. Blocks that gave
 * nothing do not count, up to @limit.
 */
static int grow(struct contiguitas_node *n, unsigned long target, unsigned long limit, bool urgent)
{
	unsigned long wanted = target - ctg_size(n);
	struct ctg_state s;
	int ret, passes;
	bool must;

	for (;;) {
		urgent |= xchg(&n->urgent, false);
		passes = atomic_read(&n->passes);
		ctg_read_state(n, &s);
		must = must_grow(&s, urgent);
		WRITE_ONCE(n->expand_hard, must);
		if (!must && s.mov_free_pages < s.mov_low_wmark_pages)
			return -EAGAIN;
		if (s.unmov_free_pages >= wanted + ctg_enough_pages(&s))
			return 0;
		ret = ctg_resize(n, min(target, ctg_size(n) + CTG_BATCH), must);
		/* Who waits has had nothing of blocks that were taken as they are. */
		if (passes == atomic_read(&n->passes))
			target = max(target, min(target + CTG_CHUNK, limit));
		else
			urgent = false;
		if (ret || ctg_size(n) >= target)
			return ret;
	}
}

/* Returns true if the next round need not be paced: in need, and blocks at the border empty. */
static bool resizer_round(struct contiguitas_node *n)
{
	bool urgent = xchg(&n->urgent, false), starved;
	unsigned long border = READ_ONCE(contiguitas_border[n->nid]), now, target, dry, limit = 0;
	struct ctg_state s;
	int ret = -EAGAIN;

	ctg_read_state(n, &s);
	now = s.unmov_pages;
	/* If the region were full up to some place, this were it: from there on it empties. */
	WRITE_ONCE(n->last_pfn, border - min(border, max(s.unmov_free_pages, CTG_BAND)));
	target = ctg_review_pages(&ctg_tunables.policy, &s);
	/* Somebody waits, so free pages there may be are of no use to him. */
	if (urgent) {
		limit = limit_pages(n, &s);
		target = max(target, min(now + CTG_CHUNK, limit));
	}
	/* The gap is worth migrating for, but only the last of it blocks taken as they are. */
	starved = s.unmov_free_pages < s.unmov_low_wmark_pages;
	trace_contiguitas_decide(n->nid, border, border + target - now,
				 (long)s.pressure_unmov_bp - s.pressure_mov_bp);

	if ((target > now || urgent) && sweep_enough(n, &s))
		target = min(target, now);
	/* Back-off after an attempt that spared blocks does not bind one that must. */
	if (target > now && ((must_grow(&s, urgent) && !n->expand_hard) ||
			     !time_before(jiffies, n->expand_after))) {
		ret = grow(n, target, limit, urgent);
		n->expand_failures = ret ? n->expand_failures + 1 : 0;
		WRITE_ONCE(n->expand_after, backoff_until(n->expand_failures));
	} else if (target < now && !time_before(jiffies, n->shrink_after)) {
		ret = ctg_resize(n, target, false);
		n->shrink_failures = ret ? n->shrink_failures + 1 : 0;
		n->shrink_after = backoff_until(n->shrink_failures);
		ret = -EAGAIN;
	}
	/* Nobody waits in a burst of atomic requests: what it lacked is there for the next one. */
	dry = min(READ_ONCE(n->dry_pages), s.max_pages);
	if (now < dry && s.mov_free_pages >= s.mov_low_wmark_pages &&
	    time_before(jiffies, READ_ONCE(n->claim_dry) + msecs_to_jiffies(CTG_HOLD_MS)) &&
	    ctg_resize(n, dry, false))
		WRITE_ONCE(n->dry_pages, 0);
	if (!starved && READ_ONCE(n->stray_pfn) < READ_ONCE(contiguitas_border[n->nid]) &&
	    (!READ_ONCE(n->lent) || s.mov_free_pages > 2 * s.mov_low_wmark_pages))
		sweep(n, ULONG_MAX, false);
	/* Who asked meanwhile has had nothing yet: the next round is for him. */
	if (!READ_ONCE(n->urgent))
		ctg_served(n);
	return starved && !ret && READ_ONCE(n->stray_pfn) == ULONG_MAX;
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
		if (resizer_round(n))
			continue;
		wait_event_freezable_timeout(n->wait, READ_ONCE(n->urgent) || kthread_should_stop(),
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

/*
 * Pages in use can keep a region from shrinking that is free for the most part. While
 * the movable side loses time for lack of memory, it is lent what a shrink would give.
 */
static bool may_lend(struct contiguitas_node *n)
{
	struct ctg_state s;

	ctg_read_state(n, &s);
	if (!READ_ONCE(n->shrink_failures) ||
	    s.pressure_mov_bp < ctg_tunables.policy.threshold_mov_bp ||
	    s.unmov_free_pages < 2 * s.unmov_low_wmark_pages + CTG_CHUNK)
		return false;
	return true;
}

/**
 * contiguitas_relieve - find memory for a request that may sleep before it reclaims
 * @ac: the request; a movable one that is lent a page of the region becomes unmovable
 * @gfp: its flags
 * @order: of the request
 * @last: nothing is left but the OOM killer: any movable request is lent to
 *
 * An unmovable request waits for the border to be moved.
 *
 * Return: true if it should look for a page now.
 */
bool contiguitas_relieve(struct alloc_context *ac, gfp_t gfp, unsigned int order, bool last)
{
	int nid = zonelist_node_idx(ac->preferred_zoneref), passes;
	struct contiguitas_node *n = contiguitas_nodes[nid];
	bool hurry = (gfp & __GFP_NORETRY) || !gfp_has_io_fs(gfp);
	long left;

	/* What the resizer itself needs, reclaim must find. */
	if (!n || !n->task || (current == n->task && !last))
		return false;
	if (ac->migratetype == MIGRATE_MOVABLE) {
		if (!last && (order || !may_lend(n)))
			return false;
		WRITE_ONCE(n->stray_pfn, n->base_pfn);
		WRITE_ONCE(n->lent, true);
		ac->migratetype = MIGRATE_UNMOVABLE;
		count_vm_event(CTG_OVERFLOW);
		return true;
	}
	if (last || freezing(n->task) || frozen(n->task) ||
	    (READ_ONCE(n->expand_hard) && time_before(jiffies, READ_ONCE(n->expand_after))))
		return false;

	count_vm_event(CTG_RELIEVE);
	passes = atomic_read(&n->passes);
	contiguitas_stall(nid, CONTIGUITAS_UNMOVABLE, true);
	WRITE_ONCE(n->urgent, true);
	wake_up_interruptible(&n->wait);
	left = wait_event_killable_timeout(n->done, atomic_read(&n->passes) != passes,
					   msecs_to_jiffies(hurry ? CTG_RELIEVE_SHORT_MS :
							    CTG_RELIEVE_MS));
	contiguitas_stall(nid, CONTIGUITAS_UNMOVABLE, false);
	return left > 0;
}

static int __init contiguitas_start(void)
{
	struct contiguitas_node *n;
	struct task_struct *task;
	int nid;

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
