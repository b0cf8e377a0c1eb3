// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contiguitas: the border between unmovable and movable memory, and how it
 * is moved.
 *
 * The free lists of a migratetype are the free lists of a region: below the
 * border every pageblock is UNMOVABLE, RECLAIMABLE or HIGHATOMIC, above it
 * MOVABLE, CMA or ISOLATE, and no request falls back across.  A movable page
 * may end up below the border (lent room there, or in a block swallowed with its
 * pages); an unmovable page never ends up above it.
 *
 * contiguitas_border[] changes only under the lock of the zone it lies in.
 *
 * Source of the design: Contiguitas (ISCA 2023), section 3.2.
 */
#define pr_fmt(fmt) "contiguitas: " fmt

#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/page-isolation.h>
#include <linux/pagemap.h>
#include "internal.h"
#include "contiguitas.h"

/* Every allocation reads the watermarks, and every list operation writes the counter. */
static_assert(offsetof(struct zone, nr_free_unmovable) / INTERNODE_CACHE_BYTES !=
	      offsetof(struct zone, _watermark) / INTERNODE_CACHE_BYTES);

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

/*
 * Pull the chunk at the border, whatever it holds, into the unmovable region.
 * zone->lock held. Returns the free pages gained.
 */
static unsigned long take_chunk(struct contiguitas_node *n, struct zone *zone,
				unsigned long pfn, int migratetype)
{
	unsigned long gained = 0;

	ctg_set_border(n, pfn + CTG_CHUNK);
	/* Holes have none; CMA and blocks that somebody isolates keep theirs. */
	if (chunk_whole(zone, pfn))
		gained = contiguitas_retype(zone, pfn, MIGRATE_MOVABLE, migratetype);
	return gained;
}

/**
 * contiguitas_claim - take memory at the border for a request that needs it now
 * @zone: zone of the request, its lock held
 * @migratetype: type that the claimed blocks get
 * @alloc_flags: of the request
 *
 * A free block costs one list operation. For a request that must not fail
 * lightly CTG_BAND pages are within reach, CTG_BATCH of them are looked at one
 * by one, and blocks taken that are only partly free, or that the resizer is
 * emptying: it leaves them on our side. If that was in vain it is not repeated
 * within the tick. The maximum size binds requests that can wait: failing the
 * others would be worse.
 *
 * Return: true if the zone has more free pages of @migratetype than before.
 */
bool contiguitas_claim(struct zone *zone, int migratetype, unsigned int alloc_flags)
{
	struct contiguitas_node *n = contiguitas_nodes[zone_to_nid(zone)];
	unsigned long border = READ_ONCE(contiguitas_border[zone_to_nid(zone)]), end = 0;
	bool waits = !(alloc_flags & (ALLOC_RESERVES | ALLOC_CLAIM | ALLOC_NO_WATERMARKS));
	bool desperate = alloc_flags & (ALLOC_MIN_RESERVE | ALLOC_OOM | ALLOC_NO_WATERMARKS |
					ALLOC_CLAIM);
	unsigned long pfn, reach, gained = 0, holes = 0, looks = CTG_BATCH / CTG_CHUNK;

	lockdep_assert_held(&zone->lock);
	/* memory that came after boot, in a node that had none: all of it is movable */
	if (!n || !zone_spans_pfn(zone, border))
		return false;
	if (waits && ctg_size(n) >= READ_ONCE(n->max_pages))
		return false;
	desperate = desperate && time_before(n->claim_dry, jiffies);
	reach = desperate ? CTG_BAND : CTG_CHUNK;
	for (pfn = border; pfn < border + reach && pfn < n->end_pfn; pfn += CTG_CHUNK) {
		unsigned int types = chunk_whole(zone, pfn) ? chunk_types(pfn) : 0;
		bool look;

		/* The region has all of this zone: it goes on behind that. */
		if (!zone_spans_pfn(zone, pfn)) {
			end = pfn;
			break;
		}
		if (desperate && (types & BIT(MIGRATE_ISOLATE)) && pfn < border + CTG_BATCH)
			continue;
		/* A hole, or what boot took after the border was placed: on our side for good. */
		if (types ? PageReserved(pfn_to_page(pfn)) : holes++ < CTG_BAND / CTG_CHUNK) {
			reach += CTG_CHUNK;
			continue;
		}
		if (types != BIT(MIGRATE_MOVABLE))
			break;
		look = desperate && looks;
		looks -= look;
		if (!chunk_free(pfn) && !(look && chunk_has_free(pfn)))
			continue;
		end = pfn + CTG_CHUNK;
		break;
	}
	for (pfn = border; pfn < end; pfn += CTG_CHUNK)
		gained += take_chunk(n, zone, pfn, migratetype);
	if (desperate && !end)
		n->claim_dry = jiffies;
	if (gained)
		count_vm_event(CTG_CLAIM);
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
	/* Have the resizer woken once the lock is dropped, long before it is needed. */
	if (free < (long)low_wmark_pages(zone))
		set_bit(ZONE_BOOSTED_WATERMARK, &zone->flags);
	if (free > (long)(mark / CTG_LOW_MARK_DIV))
		return true;
	return (alloc_flags & ALLOC_WMARK_MASK) == ALLOC_WMARK_MIN &&
	       (contiguitas_claim(zone, migratetype, alloc_flags) ||
		(alloc_flags & ALLOC_RESERVES));
}

/*
 * Is @folio below the border as a page of a cache that asks for unmovable memory?
 * Of what is no regular file (a cache that a file system has for itself) the mapping
 * does not tell.
 * Migration may move it while nobody holds it, but not above. It is not locked:
 * the mapping, that of an inode, may go away, after an RCU grace period. Anonymous
 * and shared memory on its way to swap has none of its own.
 */
bool contiguitas_keep_low(struct folio *folio)
{
	struct address_space *mapping;
	bool keep;

	rcu_read_lock();
	mapping = READ_ONCE(folio->mapping);
	keep = mapping && !((unsigned long)mapping & PAGE_MAPPING_FLAGS) &&
	       (!(mapping_gfp_mask(mapping) & __GFP_MOVABLE) ||
		!S_ISREG(mapping->host->i_mode)) &&
	       !contiguitas_above(folio_nid(folio), folio_pfn(folio));
	rcu_read_unlock();
	return keep;
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
 * If a claim has moved the border meanwhile, the range stays on its low side,
 * which is all that a growth wanted. With @nr 0 the border steps over memory
 * that has no type to change, a hole for example.
 */
static int hand_over(struct contiguitas_node *n, struct zone *zone, unsigned long pfn,
		     unsigned long nr, unsigned long from, unsigned long to)
{
	int ret = to > from ? 0 : -EAGAIN;
	unsigned long i, flags;
	struct zone *at;

	/* Nobody claims at a gap: any lock that orders the write will do. */
	zone = zone ?: &NODE_DATA(n->nid)->node_zones[ZONE_NORMAL];
	at = zone_spans_pfn(zone, from) || !pfn_to_online_page(from) ? zone :
	     page_zone(pfn_to_page(from));
	spin_lock_irqsave(&at->lock, flags);
	/* A shrink from the first chunk behind a hole is into the zone below. */
	if (zone != at)
		spin_lock_nested(&zone->lock, SINGLE_DEPTH_NESTING);
	if (READ_ONCE(contiguitas_border[n->nid]) == from) {
		ctg_set_border(n, to);
		ret = 0;
	}
	for (i = pfn; i < pfn + nr; i += pageblock_nr_pages)
		set_pageblock_migratetype(pfn_to_page(i), MIGRATE_MOVABLE);
	if (zone != at)
		spin_unlock(&zone->lock);
	spin_unlock_irqrestore(&at->lock, flags);
	free_chunks(pfn, nr);
	return ret;
}

/*
 * The chunk at the border does not empty: take it with what is left in it,
 * which after the attempt is little. Returns the free pages gained.
 */
static int swallow(struct contiguitas_node *n, struct zone *zone, unsigned long pfn)
{
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&zone->lock, flags);
	if (chunk_types(pfn) & BIT(MIGRATE_ISOLATE)) {
		ret = -EBUSY;
	} else if (READ_ONCE(contiguitas_border[n->nid]) == pfn) {
		ret = take_chunk(n, zone, pfn, MIGRATE_UNMOVABLE);
		count_vm_event(CTG_SWALLOW);
	}
	spin_unlock_irqrestore(&zone->lock, flags);
	return ret;
}

static int try_range(unsigned long start, unsigned long end, int migratetype)
{
	return alloc_contig_range(start, end, migratetype, GFP_KERNEL | __GFP_NOWARN);
}

/* Returns the free pages gained, or why there are none. */
static int expand_some(struct contiguitas_node *n, unsigned long nr, bool must)
{
	unsigned long pfn = READ_ONCE(contiguitas_border[n->nid]), got = CTG_CHUNK;
	struct page *page = pfn_to_online_page(pfn);
	struct zone *zone = page ? page_zone(page) : NULL;
	int ret;

	if (pfn + CTG_CHUNK > n->end_pfn)
		return -ENOSPC;
	/* over a hole, or the odd end of a zone */
	if (!zone || !chunk_whole(zone, pfn))
		return hand_over(n, zone, pfn, 0, pfn, pfn + CTG_CHUNK);
	nr = min(nr, n->end_pfn - pfn);
	while (got < nr && chunk_whole(zone, pfn + got))
		got += CTG_CHUNK;

	ret = try_range(pfn, pfn + got, MIGRATE_MOVABLE);
	if (ret && got > CTG_CHUNK) {
		got = CTG_CHUNK;
		ret = try_range(pfn, pfn + got, MIGRATE_MOVABLE);
	}
	if (ret)
		return must || PageReserved(page) ? swallow(n, zone, pfn) : ret;
	return hand_over(n, zone, pfn, got, pfn, pfn + got) ?: got;
}

static int shrink_some(struct contiguitas_node *n, unsigned long nr)
{
	unsigned long border = READ_ONCE(contiguitas_border[n->nid]), end = border;
	unsigned long pfn = end - CTG_CHUNK, i;
	struct page *page = pfn_to_online_page(pfn);
	struct zone *zone = page ? page_zone(page) : NULL;
	int ret;

	/* a gap that the border stepped over before: nothing was converted */
	if (!zone || !chunk_whole(zone, pfn)) {
		if (page && (chunk_types(pfn) & BIT(MIGRATE_UNMOVABLE)))
			return -EBUSY;
		return hand_over(n, zone, pfn, 0, border, pfn);
	}
	while (end - pfn < nr && pfn - CTG_CHUNK >= n->base_pfn &&
	       chunk_whole(zone, pfn - CTG_CHUNK))
		pfn -= CTG_CHUNK;
retry:
	for (i = pfn; i < end; i += CTG_CHUNK)
		if (chunk_types(i) & (BIT(MIGRATE_HIGHATOMIC) | BIT(MIGRATE_CMA)))
			return -EBUSY;
	ret = try_range(pfn, end, MIGRATE_UNMOVABLE);
	if (ret && end - pfn > CTG_CHUNK) {
		pfn = end - CTG_CHUNK;
		goto retry;
	}
	return ret ?: hand_over(n, zone, pfn, end - pfn, border, pfn);
}

/* Let those who wait in contiguitas_relieve() look for a page. */
void ctg_served(struct contiguitas_node *n)
{
	atomic_inc(&n->passes);
	wake_up_all(&n->done);
}

/**
 * ctg_resize - move the border until the unmovable region has a given size
 * @n: the node
 * @target_pages: that size, a multiple of CTG_CHUNK
 * @must: unmovable requests wait or are about to, or somebody insists: take
 *	blocks that cannot be emptied as they are. Otherwise they would only
 *	spread unmovable pages.
 *
 * Sleeps. Stops at the first chunk that cannot be moved.
 *
 * Return: 0, or why it stopped.
 */
int ctg_resize(struct contiguitas_node *n, unsigned long target_pages, bool must)
{
	/* Who waits is served by the first chunk; the fixed costs matter later. */
	unsigned long batch = waitqueue_active(&n->done) ? CTG_CHUNK : CTG_BATCH;
	bool expand = target_pages > ctg_size(n);
	int ret = 0;

	mutex_lock(&n->resize_lock);
	WRITE_ONCE(n->resizing, current);
	while (ret >= 0 && (expand ? ctg_size(n) < target_pages : ctg_size(n) > target_pages)) {
		unsigned long from = ctg_size(n);

		if (expand)
			ret = expand_some(n, min(target_pages - from, batch), must);
		else if (READ_ONCE(n->urgent))
			ret = -EAGAIN;	/* somebody waits for the opposite */
		else
			ret = shrink_some(n, min(from - target_pages, batch));
		count_vm_event(ret < 0 ? CTG_RESIZE_FAIL : CTG_RESIZE);
		batch = min(2 * batch, CTG_BATCH);
		/*
		 * A block taken with all its pages serves nobody, and one that was
		 * spared is taken in the next round if somebody has come to wait.
		 */
		if (expand && (ret > 0 || (ret && must)))
			ctg_served(n);
		cond_resched();
	}
	WRITE_ONCE(n->resizing, NULL);
	mutex_unlock(&n->resize_lock);
	return min(ret, 0);
}
