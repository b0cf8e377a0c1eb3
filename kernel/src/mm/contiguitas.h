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
#include <linux/wait.h>

/*
 * The border moves in chunks of the largest buddy block, so that no buddy can
 * ever lie across it.
 */
#define CTG_CHUNK	((unsigned long)MAX_ORDER_NR_PAGES)

/* One migration round: its fixed costs (draining every CPU) are high. */
#define CTG_BATCH	((unsigned long)CTG_BATCH_PAGES)

/* So far a claim for a request that must not fail lightly reaches. */
#define CTG_BAND	(16 * CTG_CHUNK)

/* For contiguitas_claim(): nothing else is left to a request that may not have the reserves. */
#define ALLOC_CLAIM	0x2000

struct contiguitas_node {
	int nid;
	unsigned long base_pfn;		/* the unmovable region starts here */
	unsigned long end_pfn;		/* the border stays below this */
	unsigned long pages;		/* between the two */
	unsigned long initial_pages;
	unsigned long min_pages;
	unsigned long max_pages;
	unsigned long beyond_after;	/* jiffies: the next step beyond max_pages */
	unsigned long claim_dry;	/* jiffies: a desperate claim found nothing */

	struct mutex resize_lock;	/* one resize at a time */
	struct task_struct *resizing;	/* who has it, and empties blocks */
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
};

extern struct contiguitas_node *contiguitas_nodes[MAX_NUMNODES];
extern const struct ctg_params ctg_params;

static inline unsigned long ctg_size(const struct contiguitas_node *n)
{
	return READ_ONCE(contiguitas_border[n->nid]) - n->base_pfn;
}

void ctg_set_border(struct contiguitas_node *n, unsigned long pfn);
int ctg_resize(struct contiguitas_node *n, unsigned long target_pages, bool must);
void ctg_served(struct contiguitas_node *n);
void ctg_read_state(struct contiguitas_node *n, struct ctg_state *s);

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

/* Does the whole of @zone lie above the border? */
static inline bool contiguitas_zone_above(struct zone *zone)
{
	return contiguitas_above(zone_to_nid(zone), zone->zone_start_pfn);
}

#ifdef CONFIG_CONTIGUITAS
/* Free pages below the border. */
static inline long contiguitas_free_low(struct zone *zone)
{
	return contiguitas_enabled() ? READ_ONCE(zone->nr_free_unmovable) : 0;
}

/* Called wherever free pages are counted, zone->lock held. */
static inline void contiguitas_account_free(struct zone *zone, int nr_pages, int mt)
{
	if (contiguitas_enabled() && contiguitas_low_type(mt))
		WRITE_ONCE(zone->nr_free_unmovable, zone->nr_free_unmovable + nr_pages);
}
#else
static inline long contiguitas_free_low(struct zone *zone) { return 0; }
static inline void contiguitas_account_free(struct zone *zone, int nr_pages, int mt) { }
#endif

/*
 * Is the caller the resizer, or does it empty blocks for the border? Compaction waits
 * where most pages are isolated already, and whoever has isolated them, for a long-term
 * pin of much memory, waits for the border.
 */
static inline bool contiguitas_resizing(int nid)
{
	struct contiguitas_node *n = contiguitas_enabled() ? contiguitas_nodes[nid] : NULL;

	return n && (n->task == current || READ_ONCE(n->resizing) == current);
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

/*
 * For the checks whether reclaim has made room enough: as for a movable request, since
 * what it frees lies above the border. (A macro: not every user of this has ALLOC_CMA.)
 */
#define contiguitas_reclaim_flags()	(contiguitas_enabled() ? ALLOC_CMA : 0)

/* kcompactd makes room for movable requests; it would end at a free block below the border. */
static inline gfp_t contiguitas_compact_gfp(void)
{
	return GFP_KERNEL | (contiguitas_enabled() ? __GFP_MOVABLE : 0);
}

void contiguitas_init_borders(void);
bool contiguitas_keep_low(struct folio *folio);

/* In mm/page_alloc.c, next to the lists it moves pages between. */
int contiguitas_retype(struct zone *zone, unsigned long pfn, int old_mt, int new_mt);

bool contiguitas_claim(struct zone *zone, int migratetype, unsigned int alloc_flags);
bool __contiguitas_admit(struct zone *zone, int migratetype, unsigned int alloc_flags);
void contiguitas_wake(int nid);
bool contiguitas_relieve(int nid, gfp_t gfp);

/*
 * The zone's watermark, checked before, counts the free pages of both regions;
 * whether those of the own one suffice is asked where pages leave the free
 * lists, once a batch. zone->lock held.
 */
static inline bool contiguitas_admit(struct zone *zone, int migratetype, unsigned int alloc_flags)
{
	return !contiguitas_enabled() || __contiguitas_admit(zone, migratetype, alloc_flags);
}

#endif /* _MM_CONTIGUITAS_H */
