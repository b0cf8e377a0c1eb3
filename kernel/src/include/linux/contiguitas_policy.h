/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Contiguitas: the resizing decision and the region arithmetic.
 *
 * Freestanding C: integers only, no allocation, no state. Outside the kernel
 * the includer defines u64 and u32 first.
 * Three users compile this one file: the kernel (mm/contiguitas.c), the server
 * model (crates/mm, through the cc crate) and the user-space property tests.
 *
 * Source: Contiguitas (ISCA 2023), section 3.2 and Algorithm 1. The paper gives
 * the algorithm in real numbers and no parameter values; here pressures are
 * hundredths of a percent (basis points) and coefficients are milli-units, so
 * that the kernel needs no floating point.
 */
#ifndef _LINUX_CONTIGUITAS_POLICY_H
#define _LINUX_CONTIGUITAS_POLICY_H

#ifdef __KERNEL__
#include <linux/types.h>
#endif

/* Tunables of Algorithm 1. Pressures in basis points of time (10000 = 100 %). */
struct ctg_params {
	u32 threshold_unmov_bp;	/* Threshold_unmov */
	u32 threshold_mov_bp;	/* Threshold_mov */
	u32 c_ue_milli;		/* expand: weight of unmovable pressure */
	u32 c_me_milli;		/* expand: weight of movable slack */
	u32 c_us_milli;		/* shrink: weight of unmovable slack */
	u32 c_ms_milli;		/* shrink: weight of movable pressure */
};

/*
 * What the kernel decides with; the paper gives no values. A variable of the includer's,
 * so that kernel, model and tests have the same ones.
 */
#define CTG_KERNEL_PARAMS {		\
	.threshold_unmov_bp = 100,	\
	.threshold_mov_bp = 100,	\
	.c_ue_milli = 100,		\
	.c_me_milli = 1,		\
	.c_us_milli = 1,		\
	.c_ms_milli = 100,		\
}

/* What the caller knows about one node when it asks. All in 4 KB pages. */
struct ctg_state {
	u64 node_pages;		/* pages the border can range over */
	u64 unmov_pages;		/* size of the unmovable region now */
	u64 unmov_free_pages;	/* free pages inside it */
	u64 mov_free_pages;		/* free pages of the movable region */
	u64 unmov_low_wmark_pages;	/* region low watermarks */
	u64 mov_low_wmark_pages;
	u64 min_pages;		/* hard bounds of the unmovable region */
	u64 max_pages;
	u64 block_pages;		/* granule of the border (a power of two) */
	u32 pressure_unmov_bp;	/* Pressure_unmov */
	u32 pressure_mov_bp;	/* Pressure_mov */
};

#define CTG_BP_MAX		10000u	/* pressure is a share of time */
#define CTG_FACTOR_MAX_MILLI	1000u	/* F is bounded by 1: double, or nothing left */
#define CTG_STEP_DIV		8u	/* one decision moves at most 1/8 of the node */
#define CTG_GIVE_DIV		4u	/* a review gives back 1/4 of the spare, or a block */
#define CTG_LOW_MARK_DIV	4u	/* the part of a low mark that claims defend */
#define CTG_BATCH_PAGES		4096u	/* a growth is looked at again after 16 MB */
#define CTG_MAX_DIV		4u	/* of the node, unless told otherwise */
#define CTG_REVIEW_MS		5000u	/* between looks at a region that has grown */
#define CTG_BEYOND_MS		100u	/* between two steps beyond the maximum */
#define CTG_BACKOFF_MS		100u	/* after a failed resize; doubles */
#define CTG_BACKOFF_CAP_MS	30000u	/* at most between two attempts */

/* Saturating helpers: the callers pass values read without locks. */
static inline u64 ctg_min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 ctg_max(u64 a, u64 b)
{
	return a > b ? a : b;
}

static inline u64 ctg_round_down(u64 pages, u64 block)
{
	return pages & ~(block - 1);
}

static inline u64 ctg_round_up(u64 pages, u64 block)
{
	if (pages > ~(u64)0 - (block - 1))
		return ctg_round_down(~(u64)0, block);
	return ctg_round_down(pages + block - 1, block);
}

/*
 * a * b / d for a, b that fit in 32 bits each after clamping and d > 0: the
 * product cannot overflow 64 bits.
 */
static inline u64 ctg_ratio_milli(u32 num_bp, u32 den_bp, u32 c_milli)
{
	return ctg_min(num_bp, CTG_BP_MAX) * c_milli / ctg_max(den_bp, 1);
}

/*
 * F of Algorithm 1 in milli-units: line 4 when the unmovable region grows, line 8 when it
 * shrinks. Side a is the one in need.
 */
static inline u32 ctg_factor_milli(u32 a_bp, u32 threshold_a_bp, u32 c_a_milli,
				   u32 b_bp, u32 threshold_b_bp, u32 c_b_milli)
{
	u64 f = ctg_ratio_milli(a_bp, threshold_a_bp, c_a_milli) +
		ctg_ratio_milli(threshold_b_bp, b_bp, c_b_milli);

	return (u32)ctg_min(f, CTG_FACTOR_MAX_MILLI);
}

/* pages * f / 1000 without overflow for any 64-bit page count, f <= 1000. */
static inline u64 ctg_scale_milli(u64 pages, u32 f_milli)
{
	return pages / 1000 * f_milli + pages % 1000 * f_milli / 1000;
}

/*
 * ctg_target_pages - size the unmovable region should have, in pages
 *
 * Algorithm 1 plus what a kernel must add to it (the paper leaves these out):
 *  - a region below its own low watermark is served even when the pressure
 *    average, which lags by seconds, does not say so yet;
 *  - growth is never answered by taking the movable region below its watermark
 *    unless the unmovable side is the one in need;
 *  - shrinking leaves the used pages and a reserve of twice the low watermark,
 *    so that a shrink cannot itself cause the next expansion;
 *  - bounds, a step limit, and whole blocks.
 *
 * The result is a multiple of block_pages within [min_pages, max_pages] rounded
 * inwards; if no multiple fits, the present size is returned.
 */
static inline u64 ctg_target_pages(const struct ctg_params *p, const struct ctg_state *s)
{
	u64 lo = ctg_round_up(s->min_pages, s->block_pages);
	u64 hi = ctg_round_down(ctg_min(s->max_pages, s->node_pages), s->block_pages);
	u64 used = s->unmov_pages - ctg_min(s->unmov_free_pages, s->unmov_pages);
	u64 step = ctg_max(ctg_round_down(s->node_pages / CTG_STEP_DIV, s->block_pages),
			       s->block_pages);
	int unmov_starved = s->unmov_free_pages < s->unmov_low_wmark_pages;
	int mov_starved = s->mov_free_pages < s->mov_low_wmark_pages;
	/* Algorithm 1, line 2 */
	int wants = s->pressure_unmov_bp >= p->threshold_unmov_bp &&
		    s->pressure_mov_bp < p->threshold_mov_bp;
	u64 now = s->unmov_pages, target = now, delta, floor;

	if (lo > hi)
		return now;

	if (unmov_starved || (wants && !mov_starved)) {
		delta = ctg_scale_milli(now, ctg_factor_milli(s->pressure_unmov_bp,
							      p->threshold_unmov_bp, p->c_ue_milli,
							      s->pressure_mov_bp,
							      p->threshold_mov_bp, p->c_me_milli));
		/* At least what lifts free memory to twice the low watermark. */
		if (unmov_starved)
			delta = ctg_max(delta, 2 * s->unmov_low_wmark_pages - s->unmov_free_pages);
		delta = ctg_min(ctg_round_up(ctg_max(delta, 1), s->block_pages), step);
		target = ctg_min(ctg_round_down(now, s->block_pages) + delta, hi);
		return ctg_max(ctg_max(target, lo), ctg_min(now, hi));
	}

	delta = ctg_scale_milli(now, ctg_factor_milli(s->pressure_mov_bp, p->threshold_mov_bp,
						      p->c_ms_milli, s->pressure_unmov_bp,
						      p->threshold_unmov_bp, p->c_us_milli));
	delta = ctg_min(ctg_round_down(delta, s->block_pages), step);
	floor = ctg_round_up(used + 2 * s->unmov_low_wmark_pages, s->block_pages);
	target = ctg_round_down(now, s->block_pages);
	target = target > delta ? target - delta : 0;
	target = ctg_max(target, ctg_min(floor, ctg_round_down(now, s->block_pages)));
	return ctg_max(lo, ctg_min(target, hi));
}

/* With so much free a region does not grow: half as much again as its low watermark. */
static inline u64 ctg_enough_pages(const struct ctg_state *s)
{
	u64 low = ctg_min(s->unmov_low_wmark_pages, ~(u64)0 / 2);

	return low + low / 2;
}

/*
 * ctg_review_pages - the same for a kernel that asks again while it resizes
 *
 * The pressure is an average over 10 s and outlives its cause: what an earlier
 * round gained and nobody has taken yet answers it, and a burst that is over is
 * no reason to grow for another, nor to keep what it has left.
 */
static inline u64 ctg_review_pages(const struct ctg_params *p, const struct ctg_state *s)
{
	u64 target = ctg_target_pages(p, s), free = s->unmov_free_pages;
	u64 now = ctg_round_down(s->unmov_pages, s->block_pages), enough = ctg_enough_pages(s);
	u64 need = ctg_round_up(enough - ctg_min(enough, free), s->block_pages);
	u64 spare = free - ctg_min(free, enough), block = s->block_pages;
	u64 give = ctg_round_down(ctg_max(spare / CTG_GIVE_DIV, ctg_min(spare, block)), block);

	target = ctg_min(target, now + need);
	if (spare)
		target = ctg_min(target, now - ctg_min(now, give));
	return ctg_max(target, ctg_round_up(s->min_pages, s->block_pages));
}

/* Is the last of the reserve in use? Then blocks are taken that cannot be emptied. */
static inline int ctg_must_grow(const struct ctg_state *s)
{
	return s->unmov_free_pages < s->unmov_low_wmark_pages / CTG_LOW_MARK_DIV;
}

/* Has a growth to gain room at once? Then it takes blocks that do not empty. */
static inline int ctg_must(const struct ctg_state *s, int urgent)
{
	return urgent || ctg_must_grow(s);
}

/*
 * ctg_limit_pages - how large the region may become for who waits now, in pages
 * @beyond: the last step beyond the maximum is CTG_BEYOND_MS ago
 *
 * The maximum binds all growth for what may come. Who waits when that is reached is
 * served in steps of a block with time between them, in which others that wait
 * reclaim: kernel memory in use has no other place.
 */
static inline u64 ctg_limit_pages(const struct ctg_state *s, int beyond)
{
	u64 next = s->unmov_pages + ctg_min(s->block_pages, ~s->unmov_pages);

	if (next <= s->max_pages)
		return s->max_pages;
	return beyond ? ctg_min(next, s->node_pages) : s->unmov_pages;
}

/* Up to @limit there is a block more than @pages: blocks that gave nothing do not count. */
static inline u64 ctg_stretch_pages(u64 pages, u64 limit, u64 block)
{
	return ctg_max(pages, ctg_min(pages + ctg_min(block, ~pages), limit));
}

/*
 * ctg_round_pages - what a round of the resizer makes for, in pages
 * @urgent: somebody waits, so that free pages there may be are of no use to him
 * @limit: ctg_limit_pages(), for who waits
 */
static inline u64 ctg_round_pages(const struct ctg_params *p, const struct ctg_state *s,
				  int urgent, u64 limit)
{
	u64 target = ctg_review_pages(p, s);

	if (!urgent)
		return target;
	return ctg_max(target, ctg_stretch_pages(s->unmov_pages, limit, s->block_pages));
}

/*
 * ctg_backed_off - does the back-off after a failed growth bind the next one?
 * @must: ctg_must() of the next one
 * @hard: the failed one had to gain room at once, too
 * @waits: the back-off is not over
 *
 * One that spared blocks does not bind one that must.
 */
static inline int ctg_backed_off(int must, int hard, int waits)
{
	return waits && (!must || hard);
}

/*
 * ctg_step_pages - how far a growth to @target goes before it is looked at again, in pages
 * @wanted: what it was to gain when it began
 * @must: ctg_must(): somebody waits, or the last of the reserve is in use
 *
 * Growth for what may come does not starve the movable side. Any growth is over, and
 * 0 the answer, when as much as was wanted has become free in the region itself.
 */
static inline u64 ctg_step_pages(const struct ctg_state *s, u64 target, u64 wanted, int must)
{
	u64 now = s->unmov_pages, step = ctg_max(CTG_BATCH_PAGES, s->block_pages);

	if (!must && s->mov_free_pages < s->mov_low_wmark_pages)
		return 0;
	if (s->unmov_free_pages >= wanted && s->unmov_free_pages - wanted >= ctg_enough_pages(s))
		return 0;
	return ctg_min(target - ctg_min(now, target), step);
}

/*
 * ctg_initial_pages - initial size of the unmovable region
 *
 * The paper uses 4 GB of a 64 GB server: one sixteenth, never less than what
 * boot itself has already taken (boot_used_pages) plus an eighth of slack.
 */
static inline u64 ctg_initial_pages(u64 node_pages, u64 boot_used_pages, u64 block_pages)
{
	u64 want = ctg_max(node_pages / 16, boot_used_pages + boot_used_pages / 8);

	return ctg_min(ctg_round_up(want, block_pages), ctg_round_down(node_pages, block_pages));
}

/* The maximum that a region has unless told otherwise, in pages: not less than at boot. */
static inline u64 ctg_max_pages(u64 node_pages, u64 initial_pages, u64 block_pages)
{
	return ctg_max(initial_pages, ctg_round_up(node_pages / CTG_MAX_DIV, block_pages));
}

/*
 * Exponential back-off of the resizer after a failure, in milliseconds:
 * base, 2 base, 4 base ... up to cap.
 */
static inline u32 ctg_backoff_ms(u32 failures, u32 base_ms, u32 cap_ms)
{
	u64 ms = base_ms;

	if (!failures)
		return 0;
	if (failures > 20)
		return cap_ms;
	ms <<= failures - 1;
	return (u32)ctg_min(ms, cap_ms);
}

#endif /* _LINUX_CONTIGUITAS_POLICY_H */
