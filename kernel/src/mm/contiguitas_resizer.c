// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contiguitas: the thread that moves the border, who wakes it, and who waits
 * for it. How much it moves is Algorithm 1, in contiguitas_policy.h.
 */
#define pr_fmt(fmt) "contiguitas: " fmt

#include <linux/freezer.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include "internal.h"
#include "contiguitas.h"

/* Between two rounds nobody waits for. */
#define CTG_PAUSE_MS	100

/*
 * An unmovable request waits at most this long for a step of the border, then
 * reclaims. One that may not wait for I/O, or may fail, waits for less: the
 * step may need the I/O that it holds up.
 */
#define CTG_RELIEVE_MS	1000
#define CTG_RELIEVE_SHORT_MS	100

const struct ctg_params ctg_params = CTG_KERNEL_PARAMS;

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

static unsigned long backoff_until(unsigned int failures)
{
	return jiffies + msecs_to_jiffies(ctg_backoff_ms(failures, CTG_BACKOFF_MS,
							 CTG_BACKOFF_CAP_MS));
}

/*
 * Grow to @target, a batch at a time: what was urgent when Algorithm 1 was asked is served
 * by the first of them. The rest is for what may come and spares blocks that do not empty.
 * Blocks that gave nothing do not count, up to @limit.
 */
static int grow(struct contiguitas_node *n, unsigned long target, unsigned long limit, bool urgent)
{
	unsigned long wanted = target - ctg_size(n), step;
	struct ctg_state s;
	int ret, passes;
	bool must;

	for (;;) {
		urgent |= xchg(&n->urgent, false);
		passes = atomic_read(&n->passes);
		ctg_read_state(n, &s);
		must = ctg_must(&s, urgent);
		WRITE_ONCE(n->expand_hard, must);
		step = ctg_step_pages(&s, target, wanted, must);
		if (!step)
			return s.unmov_free_pages < ctg_enough_pages(&s) ? -EAGAIN : 0;
		ret = ctg_resize(n, ctg_size(n) + step, must);
		/* Who waits has had nothing of blocks that were taken as they are. */
		if (passes == atomic_read(&n->passes))
			target = ctg_stretch_pages(target, limit, CTG_CHUNK);
		else
			urgent = false;
		if (ret || ctg_size(n) >= target)
			return ret;
	}
}

/* Returns true if the next round need not be paced: in need, and blocks at the border empty. */
static bool resizer_round(struct contiguitas_node *n)
{
	unsigned long now, target, limit = 0;
	bool urgent = xchg(&n->urgent, false);
	bool beyond = !time_before(jiffies, n->beyond_after), waits, held;
	struct ctg_state s;
	int ret = -EAGAIN;

	ctg_read_state(n, &s);
	now = s.unmov_pages;
	if (urgent)
		limit = ctg_limit_pages(&s, beyond);
	if (limit > max(now, s.max_pages))
		n->beyond_after = jiffies + msecs_to_jiffies(CTG_BEYOND_MS);
	target = ctg_round_pages(&ctg_params, &s, urgent, limit);
	waits = time_before(jiffies, n->expand_after);
	held = ctg_backed_off(ctg_must(&s, urgent), n->expand_hard, waits);
	if (target > now && !held) {
		ret = grow(n, target, limit, urgent);
		n->expand_failures = ret ? n->expand_failures + 1 : 0;
		WRITE_ONCE(n->expand_after, backoff_until(n->expand_failures));
	} else if (target < now && !time_before(jiffies, n->shrink_after)) {
		n->shrink_failures = ctg_resize(n, target, false) ? n->shrink_failures + 1 : 0;
		n->shrink_after = backoff_until(n->shrink_failures);
	}
	/* Who asked meanwhile has had nothing yet: the next round is for him. */
	if (!READ_ONCE(n->urgent))
		ctg_served(n);
	return s.unmov_free_pages < s.unmov_low_wmark_pages && !ret;
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
		if (resizer_round(n))
			continue;
		wait_event_freezable_timeout(n->wait, READ_ONCE(n->urgent) || kthread_should_stop(),
					     msecs_to_jiffies(CTG_PAUSE_MS));
	}
	return 0;
}

/* From reclaim's own wake-ups: some region of @nid is below its low mark. */
void contiguitas_wake(int nid)
{
	struct contiguitas_node *n = contiguitas_nodes[nid];

	if (!n || !n->task || READ_ONCE(n->wake))
		return;
	WRITE_ONCE(n->wake, true);
	wake_up_interruptible(&n->wait);
}

/**
 * contiguitas_relieve - have the border moved for an unmovable request that may sleep
 * @nid: where it looks first
 * @gfp: its flags
 *
 * Return: true if it should look for a page now.
 */
bool contiguitas_relieve(int nid, gfp_t gfp)
{
	struct contiguitas_node *n = contiguitas_nodes[nid];
	bool hurry = (gfp & __GFP_NORETRY) || !gfp_has_io_fs(gfp);
	int passes;

	/* What the resizer itself needs, reclaim must find. */
	if (!n || !n->task || current == n->task || freezing(n->task) || frozen(n->task) ||
	    ctg_backed_off(true, READ_ONCE(n->expand_hard),
			   time_before(jiffies, READ_ONCE(n->expand_after))))
		return false;
	passes = atomic_read(&n->passes);
	WRITE_ONCE(n->urgent, true);
	wake_up_interruptible(&n->wait);
	return wait_event_killable_timeout(n->done, atomic_read(&n->passes) != passes,
					   msecs_to_jiffies(hurry ? CTG_RELIEVE_SHORT_MS :
							    CTG_RELIEVE_MS)) > 0;
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
