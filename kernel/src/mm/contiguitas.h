/* SPDX-License-Identifier: GPL-2.0-only */
/* Contiguitas: what its own files share. */
#ifndef _MM_CONTIGUITAS_H
#define _MM_CONTIGUITAS_H

#include <linux/contiguitas.h>
#include <linux/contiguitas_policy.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

/*
 * The border moves in chunks of the largest buddy block, so that no buddy can
 * ever lie across it.
 */
#define CTG_CHUNK	MAX_ORDER_NR_PAGES

/* Time lost on one side: some task waits for memory there. Kept as PSI does. */
struct ctg_stall {
	spinlock_t lock;	/* all of this; taken for a few instructions */
	unsigned int nr_tasks;
	u64 since_ns;		/* when nr_tasks left 0 */
	u64 total_ns;
	u64 sampled_ns;		/* total_ns at the last sample */
	u64 sample_at_ns;	/* when it was taken */
	unsigned long avg[3];	/* percent over 10, 60, 300 s, fixed point */
};

struct contiguitas_node {
	int nid;
	unsigned long base_pfn;		/* the unmovable region starts here */
	unsigned long end_pfn;		/* the border stays below this */
	unsigned long initial_pages;
	unsigned long min_pages;
	unsigned long max_pages;

	struct mutex resize_lock;	/* one resize at a time */
	struct task_struct *task;
	wait_queue_head_t wait;		/* the resizer sleeps here */
	wait_queue_head_t done;		/* those who need its work sleep here */
	bool wake;
	bool urgent;			/* somebody is in done */
	atomic_t passes;
	bool expand_hard;		/* the last expansion had to succeed */
	unsigned int expand_failures;
	unsigned int shrink_failures;
	unsigned long expand_after;	/* jiffies: back-off ends */
	unsigned long shrink_after;

	struct ctg_stall stall[NR_CONTIGUITAS_SIDES];
};

struct ctg_tunables {
	struct ctg_params policy;
	u32 backoff_base_ms;
	u32 backoff_cap_ms;
};

extern struct contiguitas_node *contiguitas_nodes[MAX_NUMNODES];
extern struct ctg_tunables ctg_tunables;

static inline unsigned long ctg_size(const struct contiguitas_node *n)
{
	return READ_ONCE(contiguitas_border[n->nid]) - n->base_pfn;
}

static inline void ctg_set_border(int nid, unsigned long base_pfn, unsigned long pfn)
{
	WRITE_ONCE(contiguitas_border[nid], pfn);
	WRITE_ONCE(contiguitas_band[nid], max((pfn - base_pfn) / 8, CTG_CHUNK));
}

int ctg_resize(struct contiguitas_node *n, unsigned long target_pages, bool must);
void ctg_read_state(struct contiguitas_node *n, struct ctg_state *s);

void ctg_stall_init(struct ctg_stall *st);
void ctg_stall_read(struct ctg_stall *st, unsigned long avg[3], u64 *total_ns);
u32 ctg_stall_bp(struct ctg_stall *st);

#endif /* _MM_CONTIGUITAS_H */
