/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Contiguitas: every node's memory has an unmovable region at its low end, a
 * movable region above it, and a border between them that can move.
 *
 * Everything the rest of the kernel calls is here.  With the feature off (the
 * default) each hook is one patched-out branch.
 */
#ifndef _LINUX_CONTIGUITAS_H
#define _LINUX_CONTIGUITAS_H

#include <linux/mmzone.h>
#include <linux/numa.h>
#include <linux/jump_label.h>

struct iov_iter;
struct alloc_context;

enum contiguitas_side {
	CONTIGUITAS_UNMOVABLE,
	CONTIGUITAS_MOVABLE,
	NR_CONTIGUITAS_SIDES,
};

/**
 * struct contiguitas_hw_ops - a device that can move pages while they are used
 * @migrate: make @dst the home of what @src holds, users of @src included;
 *	returns 0, or a negative error with @src untouched
 * @clear: forget the redirection from @src, which is then freed
 *
 * Both may sleep. Pages come as order-0 pages of one node.
 */
struct contiguitas_hw_ops {
	int (*migrate)(struct page *src, struct page *dst, unsigned int flags);
	int (*clear)(struct page *src);
};

#ifdef CONFIG_CONTIGUITAS

DECLARE_STATIC_KEY_FALSE(contiguitas_key);

/* First pfn of the movable region of each node, aligned to MAX_PAGE_ORDER. */
extern unsigned long contiguitas_border[MAX_NUMNODES];

static __always_inline bool contiguitas_enabled(void)
{
	return static_branch_unlikely(&contiguitas_key);
}

static inline bool contiguitas_above(int nid, unsigned long pfn)
{
	return contiguitas_enabled() && pfn >= READ_ONCE(contiguitas_border[nid]);
}

/* UNMOVABLE, RECLAIMABLE and HIGHATOMIC blocks live below the border only. */
static inline bool contiguitas_low_type(int migratetype)
{
	return migratetype != MIGRATE_MOVABLE && migratetype <= MIGRATE_HIGHATOMIC;
}

/* The type a block may take at @pfn where stock code would give it @mt. */
static inline int contiguitas_block_type(int nid, unsigned long pfn, int mt)
{
	if (!contiguitas_enabled())
		return mt;
	if (contiguitas_above(nid, pfn))
		return contiguitas_low_type(mt) ? MIGRATE_MOVABLE : mt;
	return mt == MIGRATE_MOVABLE ? MIGRATE_UNMOVABLE : mt;
}

/* May a request of type @from be served from the free lists of type @to? */
static inline bool contiguitas_may_fall_back(int from, int to)
{
	return !contiguitas_enabled() ||
	       (from == MIGRATE_MOVABLE) == (to == MIGRATE_MOVABLE);
}

/* Called wherever free pages are counted, zone->lock held. */
static inline void contiguitas_account_free(struct zone *zone, int nr_pages, int mt)
{
	if (contiguitas_enabled() && contiguitas_low_type(mt))
		WRITE_ONCE(zone->nr_free_unmovable, zone->nr_free_unmovable + nr_pages);
}

/*
 * Pages close to the border are handed out last: what lies there is what a
 * resize has to move.  The band is an eighth of the unmovable region, kept in
 * contiguitas_band[] so that the free path needs no arithmetic on sizes.
 */
extern unsigned long contiguitas_band[MAX_NUMNODES];

static inline bool contiguitas_near_border(int nid, unsigned long pfn)
{
	unsigned long border = READ_ONCE(contiguitas_border[nid]);
	unsigned long band = READ_ONCE(contiguitas_band[nid]);

	return pfn - (border - band) < 2 * band;
}

/*
 * One zone watermark serves two regions: a quarter guards the unmovable one,
 * whose reserve the border can refill at once, the rest the movable one.
 */
static inline unsigned long contiguitas_mark(unsigned long mark, bool unmovable)
{
	return unmovable ? mark >> 2 : mark - (mark >> 2);
}

static inline long contiguitas_free_low(struct zone *zone)
{
	return READ_ONCE(zone->nr_free_unmovable);
}

/* Free pages of @zone that the other region owns, or that are set aside. */
static inline long contiguitas_unusable(struct zone *zone, long free_pages, bool unmovable,
					bool reserves)
{
	long low = contiguitas_free_low(zone);

	if (!unmovable)
		return low;
	return free_pages - low + (reserves ? 0 : READ_ONCE(zone->nr_free_highatomic));
}

bool contiguitas_requested(void);
void contiguitas_init_borders(void);
unsigned long contiguitas_contig_start(struct zone *zone, unsigned long pfn);

/* In mm/page_alloc.c, next to the lists it moves pages between. */
int contiguitas_retype(struct zone *zone, unsigned long pfn, int old_mt, int new_mt);

/* Border claims: O(1) for a free block; @desperate also takes partly free ones. */
bool contiguitas_claim(struct zone *zone, int migratetype, bool desperate);
bool __contiguitas_refill(struct zone *zone, bool desperate);

void contiguitas_wake(int nid);
bool contiguitas_relieve(const struct alloc_context *ac);

void __contiguitas_stall_enter(int nid, enum contiguitas_side side);
void __contiguitas_stall_leave(int nid, enum contiguitas_side side);

static inline void contiguitas_stall_enter(int nid, enum contiguitas_side side)
{
	if (contiguitas_enabled())
		__contiguitas_stall_enter(nid, side);
}

static inline void contiguitas_stall_leave(int nid, enum contiguitas_side side)
{
	if (contiguitas_enabled())
		__contiguitas_stall_leave(nid, side);
}

ssize_t contiguitas_iov_get_pages2(struct iov_iter *iter, struct page **pages,
				   size_t maxsize, unsigned int maxpages, size_t *start);

#define contiguitas_note_overflow() count_vm_event(CTG_OVERFLOW)

int contiguitas_register_hw(const struct contiguitas_hw_ops *ops);
void contiguitas_unregister_hw(const struct contiguitas_hw_ops *ops);

#else /* !CONFIG_CONTIGUITAS */

static inline bool contiguitas_enabled(void) { return false; }
static inline bool contiguitas_above(int nid, unsigned long pfn) { return false; }
static inline bool contiguitas_may_fall_back(int from, int to) { return true; }
static inline bool contiguitas_near_border(int nid, unsigned long pfn) { return false; }
static inline bool contiguitas_requested(void) { return false; }
static inline long contiguitas_free_low(struct zone *zone) { return 0; }
static inline void contiguitas_init_borders(void) { }
static inline void contiguitas_wake(int nid) { }

static inline int contiguitas_block_type(int nid, unsigned long pfn, int mt)
{
	return mt;
}

static inline void contiguitas_account_free(struct zone *zone, int nr_pages, int mt) { }

static inline unsigned long contiguitas_mark(unsigned long mark, bool unmovable)
{
	return mark;
}

static inline long contiguitas_unusable(struct zone *zone, long free_pages, bool unmovable,
					bool reserves)
{
	return 0;
}

static inline unsigned long contiguitas_contig_start(struct zone *zone, unsigned long pfn)
{
	return pfn;
}

static inline bool contiguitas_claim(struct zone *zone, int migratetype, bool desperate)
{
	return false;
}

static inline bool __contiguitas_refill(struct zone *zone, bool desperate)
{
	return false;
}

static inline bool contiguitas_relieve(const struct alloc_context *ac)
{
	return false;
}

static inline void contiguitas_stall_enter(int nid, enum contiguitas_side side) { }
static inline void contiguitas_stall_leave(int nid, enum contiguitas_side side) { }

#define contiguitas_iov_get_pages2 iov_iter_get_pages2
#define contiguitas_note_overflow() do { } while (0)

#endif /* CONFIG_CONTIGUITAS */
#endif /* _LINUX_CONTIGUITAS_H */
