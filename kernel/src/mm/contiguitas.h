/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Contiguitas: the hooks that files of mm/ call, and what its own files share.
 * Everything out of line is reached behind contiguitas_enabled() only.
 */
#ifndef _MM_CONTIGUITAS_H
#define _MM_CONTIGUITAS_H

#include <linux/contiguitas.h>
#include <linux/contiguitas_policy.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

struct alloc_context;

/*
 * The border moves in chunks of the largest buddy block, so that no buddy can
 * ever lie across it.
 */
#define CTG_CHUNK	((unsigned long)MAX_ORDER_NR_PAGES)

/* One migration round: its fixed costs (draining every CPU) are high. */
#define CTG_BATCH	(4 * CTG_CHUNK)

/*
 * One zone watermark serves two regions. This part of it guards the unmovable
 * one, whose reserve the border can refill at once; all of it the movable one.
 */
#define CTG_LOW_MARK_DIV	4

/* What lies so close to the border is handed out last, and claimed first. */
#define CTG_BAND	(16 * CTG_CHUNK)

/* For contiguitas_claim(): nothing else is left to a request that may not have the reserves. */
#define ALLOC_CLAIM	0x1000

/* What requests that cannot wait found missing is not given back for this long. */
#define CTG_HOLD_MS	10000

enum contiguitas_side {
	CONTIGUITAS_UNMOVABLE,
	CONTIGUITAS_MOVABLE,
	NR_CONTIGUITAS_SIDES,
};

/* Time lost on one side: some task waits for memory there. Kept as PSI does. */
struct ctg_stall {
	spinlock_t lock;	/* all of this; the first that waits and the last take it */
	atomic_t nr_tasks;
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
	unsigned long pages;		/* between the two, without holes */
	unsigned long absent_pages;	/* of holes below the border */
	unsigned long last_pfn;		/* from here to the border: handed out last */
	unsigned long initial_pages;
	unsigned long min_pages;
	unsigned long max_pages;
	unsigned long stray_pfn;	/* first chunk with lent or swallowed movable pages */
	bool lent;			/* some of them are lent */
	bool cache;			/* the region holds cache that can be dropped */
	unsigned long swept_pages;	/* dropped since the sweep began */
	unsigned long sweep_after;	/* jiffies: until then another would be in vain */
	unsigned long beyond_after;	/* jiffies: the next step beyond max_pages */
	unsigned long claim_dry;	/* jiffies: a desperate claim found nothing */
	unsigned long dry_pages;	/* if it could not wait: the size then, and 64 MB */

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
	return READ_ONCE(contiguitas_border[n->nid]) - n->base_pfn - READ_ONCE(n->absent_pages);
}

unsigned long ctg_absent(unsigned long pfn, unsigned long end);
void ctg_set_border(struct contiguitas_node *n, unsigned long pfn);
int ctg_resize(struct contiguitas_node *n, unsigned long target_pages, bool must);
bool ctg_hw_evacuate(struct contiguitas_node *n, unsigned long pfn);
void ctg_served(struct contiguitas_node *n);
void ctg_read_state(struct contiguitas_node *n, struct ctg_state *s);
void ctg_stall_read(struct ctg_stall *st, unsigned long avg[3], u64 *total_ns);
u32 ctg_stall_bp(struct ctg_stall *st);

/* UNMOVABLE, RECLAIMABLE and HIGHATOMIC blocks live below the border only. */
static inline bool contiguitas_low_type(int migratetype)
{
	return migratetype != MIGRATE_MOVABLE && migratetype <= MIGRATE_HIGHATOMIC;
}

/* The type that the block of @page may take where stock code would give it @mt. */
static inline int contiguitas_block_type(struct page *page, int mt)
{
	if (!contiguitas_enabled())
		return mt;
	if (contiguitas_above(page_to_nid(page), page_to_pfn(page)))
		return contiguitas_low_type(mt) ? MIGRATE_MOVABLE : mt;
	return mt == MIGRATE_MOVABLE ? MIGRATE_UNMOVABLE : mt;
}

/* May a request of type @from be served from the free lists of type @to? */
static inline bool contiguitas_may_fall_back(int from, int to)
{
	return !contiguitas_enabled() || (from == MIGRATE_MOVABLE) == (to == MIGRATE_MOVABLE);
}

/* Are pages at @pfn handed out last, since the border had better reach them without them? */
static inline bool contiguitas_near_border(int nid, unsigned long pfn)
{
	struct contiguitas_node *n;

	if (!contiguitas_enabled())
		return false;
	n = contiguitas_nodes[nid];
	return n && pfn >= READ_ONCE(n->last_pfn) &&
	       pfn < READ_ONCE(contiguitas_border[nid]) + CTG_BAND;
}

/* What boot frees above the border is handed out from the far end on. */
static inline bool contiguitas_boot_far(struct page *page)
{
	int nid = page_to_nid(page);

	return contiguitas_above(nid, page_to_pfn(page)) && contiguitas_nodes[nid] &&
	       page_to_pfn(page) < contiguitas_nodes[nid]->end_pfn;
}

/* Does the whole of @zone lie above the border? */
static inline bool contiguitas_zone_above(struct zone *zone)
{
	return contiguitas_above(zone_to_nid(zone), zone->zone_start_pfn);
}

/* Had an unmovable request better look in a lower zone than @zone? Asked if enabled only. */
static inline bool contiguitas_skip_zone(struct zone *zone)
{
#ifdef CONFIG_CONTIGUITAS
	return READ_ONCE(zone->skip_unmovable);
#else
	return false;
#endif
}

/* Free pages below the border. */
static inline long contiguitas_free_low(struct zone *zone)
{
#ifdef CONFIG_CONTIGUITAS
	if (contiguitas_enabled())
		return READ_ONCE(zone->nr_free_unmovable);
#endif
	return 0;
}

/*
 * What the low side of @zone lacks has to come from above the border: reclaim
 * makes that much more room there.
 */
static inline unsigned long contiguitas_deficit(struct zone *zone)
{
	long lacks = (long)low_wmark_pages(zone) - contiguitas_free_low(zone);

	return contiguitas_enabled() && lacks > 0 && !contiguitas_zone_above(zone) ? lacks : 0;
}

/* Called wherever free pages are counted, zone->lock held. */
static inline void contiguitas_account_free(struct zone *zone, int nr_pages, int mt)
{
#ifdef CONFIG_CONTIGUITAS
	if (contiguitas_enabled() && contiguitas_low_type(mt)) {
		long free = (long)zone->nr_free_unmovable + nr_pages;

		WRITE_ONCE(zone->nr_free_unmovable, free);
		if (READ_ONCE(zone->skip_unmovable) && free > (long)low_wmark_pages(zone) / 2)
			WRITE_ONCE(zone->skip_unmovable, false);
	}
#endif
}

void contiguitas_init_borders(void);
bool contiguitas_keep_low(struct folio *folio);

/* In mm/page_alloc.c, next to the lists it moves pages between. */
int contiguitas_retype(struct zone *zone, unsigned long pfn, int old_mt, int new_mt);

bool contiguitas_claim(struct zone *zone, int migratetype, unsigned int alloc_flags);
bool __contiguitas_admit(struct zone *zone, int migratetype, unsigned int alloc_flags);
void __contiguitas_wake(int nid);
bool contiguitas_relieve(struct alloc_context *ac, gfp_t gfp, unsigned int order, bool last);
void __contiguitas_stall(int nid, enum contiguitas_side side, bool enter);

/*
 * The zone's watermark, checked before, counts the free pages of both regions;
 * whether those of the own one suffice is asked where pages leave the free
 * lists, once a batch. zone->lock held.
 */
static inline bool contiguitas_admit(struct zone *zone, int migratetype, unsigned int alloc_flags)
{
	return !contiguitas_enabled() || __contiguitas_admit(zone, migratetype, alloc_flags);
}

/*
 * Where alloc_contig_pages() looks after @pfn: downwards, as far as the border, since
 * what it finds can stay for long, and in the way of the region if it lies low.
 */
static inline unsigned long contiguitas_contig_next(struct zone *zone, unsigned long pfn,
						    unsigned long nr_pages)
{
	if (!contiguitas_enabled())
		return pfn + nr_pages;
	return pfn < READ_ONCE(contiguitas_border[zone_to_nid(zone)]) + nr_pages ? ULONG_MAX :
	       pfn - nr_pages;
}

/* Where it begins. */
static inline unsigned long contiguitas_contig_start(struct zone *zone, unsigned long nr_pages)
{
	if (!contiguitas_enabled())
		return ALIGN(zone->zone_start_pfn, nr_pages);
	return contiguitas_contig_next(zone, ALIGN_DOWN(zone_end_pfn(zone), nr_pages), nr_pages);
}

static inline void contiguitas_wake(int nid)
{
	if (contiguitas_enabled())
		__contiguitas_wake(nid);
}

static inline void contiguitas_stall(int nid, enum contiguitas_side side, bool enter)
{
	if (contiguitas_enabled())
		__contiguitas_stall(nid, side, enter);
}

#endif /* _MM_CONTIGUITAS_H */
