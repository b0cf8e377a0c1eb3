// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contiguitas: time lost for lack of memory, by side of the border.
 *
 * PSI cannot tell the sides apart, and making it do so would grow structures
 * the scheduler touches at every switch.  Stalls on memory are slow paths, so
 * a lock and two timestamps at their edges do; the average is PSI's own.
 * Samples are taken lazily, by whoever reads or stalls.
 */
#include <linux/math64.h>
#include <linux/sched/clock.h>
#include <linux/sched/loadavg.h>
#include <linux/timekeeping.h>
#include "contiguitas.h"

#define CTG_PERIOD_NS	(2 * NSEC_PER_SEC)

/* exp(-2 s / 10 s) in FSHIFT fixed point */
#define CTG_DECAY	1677

/* Bring the average up to @now. lock held. */
static void ctg_stall_sample(struct ctg_stall *st, u64 now)
{
	u64 elapsed = now - st->sample_at_ns, total = st->total_ns, lost;

	if (atomic_read(&st->nr_tasks))
		total += now - st->since_ns;
	if (elapsed < CTG_PERIOD_NS)
		return;
	lost = min(total - st->sampled_ns, elapsed);
	st->avg10 = calc_load_n(st->avg10, CTG_DECAY, div64_u64(lost * 100, elapsed) * FIXED_1,
				min(div64_u64(elapsed, CTG_PERIOD_NS), 1000ULL));
	st->sampled_ns = total;
	st->sample_at_ns = now;
}

/* A task begins (@enter) or ends to wait for memory of @side. */
void __contiguitas_stall(int nid, enum contiguitas_side side, bool enter)
{
	struct contiguitas_node *n = contiguitas_nodes[nid];
	struct ctg_stall *st;
	unsigned long flags;
	u64 now;

	if (!n)
		return;
	st = &n->stall[side];
	/* Neither the first nor the last: nothing begins or ends. */
	if (enter ? atomic_inc_not_zero(&st->nr_tasks) : atomic_add_unless(&st->nr_tasks, -1, 1))
		return;
	spin_lock_irqsave(&st->lock, flags);
	now = ktime_get_mono_fast_ns();
	ctg_stall_sample(st, now);
	if (enter && atomic_inc_return(&st->nr_tasks) == 1)
		st->since_ns = now;
	if (!enter && atomic_dec_and_test(&st->nr_tasks))
		st->total_ns += now - st->since_ns;
	spin_unlock_irqrestore(&st->lock, flags);
}

/* The pressure that Algorithm 1 sees: the 10 s average in basis points. */
u32 ctg_stall_bp(struct ctg_stall *st)
{
	unsigned long flags, avg10;

	spin_lock_irqsave(&st->lock, flags);
	ctg_stall_sample(st, ktime_get_mono_fast_ns());
	avg10 = st->avg10;
	spin_unlock_irqrestore(&st->lock, flags);
	return min_t(unsigned long, (avg10 * 100) >> FSHIFT, CTG_BP_MAX);
}
