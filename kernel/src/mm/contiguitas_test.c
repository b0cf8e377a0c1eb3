// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contiguitas: KUnit tests of the rules, of a live border and of the hardware
 * seam. Those that need the feature are skipped unless booted with it.
 */
#include <kunit/test.h>
#include <linux/highmem.h>
#include <linux/memory_hotplug.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/page-isolation.h>
#include <linux/pagemap.h>
#include "contiguitas.h"

static void need_border(struct kunit *test)
{
	if (!contiguitas_enabled())
		kunit_skip(test, "boot with contiguitas=on");
}

static void test_fallback_rules(struct kunit *test)
{
	int from, to;

	for (from = 0; from < MIGRATE_PCPTYPES; from++)
		for (to = 0; to < MIGRATE_PCPTYPES; to++) {
			bool crosses = (from == MIGRATE_MOVABLE) != (to == MIGRATE_MOVABLE);

			KUNIT_EXPECT_EQ(test, contiguitas_may_fall_back(from, to),
					!contiguitas_enabled() || !crosses);
		}
	KUNIT_EXPECT_TRUE(test, contiguitas_low_type(MIGRATE_UNMOVABLE));
	KUNIT_EXPECT_TRUE(test, contiguitas_low_type(MIGRATE_RECLAIMABLE));
	KUNIT_EXPECT_TRUE(test, contiguitas_low_type(MIGRATE_HIGHATOMIC));
	KUNIT_EXPECT_FALSE(test, contiguitas_low_type(MIGRATE_MOVABLE));
	KUNIT_EXPECT_FALSE(test, contiguitas_low_type(MIGRATE_CMA));
	KUNIT_EXPECT_FALSE(test, contiguitas_low_type(MIGRATE_ISOLATE));
}

static void test_block_types(struct kunit *test)
{
	int nid = first_online_node;
	unsigned long border;

	need_border(test);
	border = contiguitas_border[nid];
	KUNIT_EXPECT_TRUE(test, IS_ALIGNED(border, CTG_CHUNK));
	KUNIT_EXPECT_EQ(test, contiguitas_block_type(pfn_to_page(border), MIGRATE_UNMOVABLE),
			MIGRATE_MOVABLE);
	KUNIT_EXPECT_EQ(test, contiguitas_block_type(pfn_to_page(border - 1), MIGRATE_MOVABLE),
			MIGRATE_UNMOVABLE);
	KUNIT_EXPECT_EQ(test, contiguitas_block_type(pfn_to_page(border - 1), MIGRATE_RECLAIMABLE),
			MIGRATE_RECLAIMABLE);
	KUNIT_EXPECT_EQ(test, contiguitas_block_type(pfn_to_page(border), MIGRATE_CMA),
			MIGRATE_CMA);
	KUNIT_EXPECT_TRUE(test, contiguitas_above(nid, border));
	KUNIT_EXPECT_FALSE(test, contiguitas_above(nid, border - 1));
	KUNIT_EXPECT_TRUE(test, contiguitas_near_border(nid, border));
	KUNIT_EXPECT_TRUE(test, contiguitas_near_border(nid, border - 1));
	KUNIT_EXPECT_FALSE(test, contiguitas_near_border(nid, contiguitas_nodes[nid]->base_pfn));
}

static void test_policy(struct kunit *test)
{
	struct ctg_params p = { 100, 100, 100, 1, 1, 100 };
	struct ctg_state s = {
		.node_pages = 64 << 18, .unmov_pages = 4 << 18, .unmov_free_pages = 1 << 18,
		.mov_free_pages = 30 << 18, .min_pages = 1 << 18, .max_pages = 32 << 18,
		.block_pages = CTG_CHUNK, .pressure_unmov_bp = 200,
	};

	/* F = 200/100 * 0.1 + 100/1 * 0.001 */
	KUNIT_EXPECT_EQ(test, ctg_target_pages(&p, &s),
			s.unmov_pages + ctg_round_up(s.unmov_pages * 3 / 10, CTG_CHUNK));
	s.unmov_free_pages = 0;
	s.pressure_unmov_bp = 0;
	KUNIT_EXPECT_EQ(test, ctg_target_pages(&p, &s), s.unmov_pages);
}

static void test_pages_go_where_they_belong(struct kunit *test)
{
	int order;

	need_border(test);
	for (order = 0; order <= pageblock_order; order++) {
		struct page *page = alloc_pages(GFP_KERNEL | __GFP_NOWARN, order);

		if (page) {
			KUNIT_EXPECT_FALSE(test, contiguitas_above(page_to_nid(page),
								   page_to_pfn(page)));
			__free_pages(page, order);
		}
		page = alloc_pages(GFP_HIGHUSER_MOVABLE | __GFP_NOWARN, order);
		if (page) {
			KUNIT_EXPECT_TRUE(test, contiguitas_above(page_to_nid(page),
								  page_to_pfn(page)));
			__free_pages(page, order);
		}
	}
}

static unsigned long counted(enum vm_event_item item)
{
	static unsigned long events[NR_VM_EVENT_ITEMS];

	all_vm_events(events);
	return events[item];
}

static void test_resize_and_back(struct kunit *test)
{
	struct contiguitas_node *n = contiguitas_nodes[first_online_node];
	unsigned long made = counted(CTG_RESIZE), size, i;

	need_border(test);
	for (i = 1; i <= 4; i++) {
		size = ctg_size(n);
		KUNIT_ASSERT_EQ(test, ctg_resize(n, size + i * CTG_CHUNK, false), 0);
		KUNIT_EXPECT_GE(test, ctg_size(n), size + i * CTG_CHUNK);
		KUNIT_ASSERT_EQ(test, ctg_resize(n, size, false), 0);
		KUNIT_EXPECT_EQ(test, ctg_size(n), size);
	}
	KUNIT_EXPECT_GE(test, counted(CTG_RESIZE), made + 8);
}

/* Free pages on the lists of the low side. zone->lock held. */
static long listed_low(struct zone *zone)
{
	struct list_head *at;
	long pages = 0;
	int order, mt;

	for (order = 0; order < NR_PAGE_ORDERS; order++)
		for (mt = 0; mt < MIGRATE_TYPES; mt++)
			if (contiguitas_low_type(mt))
				list_for_each(at, &zone->free_area[order].free_list[mt])
					pages += 1L << order;
	return pages;
}

/* What is free below the border of @n is counted as its lists hold it. */
static void expect_counted(struct kunit *test, struct contiguitas_node *n)
{
	struct zone *zones = NODE_DATA(n->nid)->node_zones;
	long listed, counted;
	unsigned long flags;
	int i;

	for (i = 0; i < MAX_NR_ZONES; i++) {
		if (!populated_zone(&zones[i]))
			continue;	/* its lists may never have been made */
		spin_lock_irqsave(&zones[i].lock, flags);
		listed = listed_low(&zones[i]);
		counted = zones[i].nr_free_unmovable;
		spin_unlock_irqrestore(&zones[i].lock, flags);
		KUNIT_EXPECT_EQ(test, listed, counted);
	}
}

/* Every block of @n has a type of its side. */
static void expect_sides(struct kunit *test, struct contiguitas_node *n)
{
	unsigned long pfn, wrong = 0;

	for (pfn = n->base_pfn; pfn < n->end_pfn; pfn += pageblock_nr_pages) {
		struct page *page = pfn_to_online_page(pfn);
		int mt;

		/* page 0 is in no zone */
		if (!page || !zone_spans_pfn(page_zone(page), pfn))
			continue;
		mt = get_pageblock_migratetype(page);
		if (mt == MIGRATE_MOVABLE || contiguitas_low_type(mt))
			wrong += contiguitas_low_type(mt) == contiguitas_above(n->nid, pfn);
	}
	KUNIT_EXPECT_EQ(test, wrong, 0UL);
}

/* Off and on while it runs: as after boot. A resize is refused meanwhile. */
static void test_switch(struct kunit *test)
{
	bool on = contiguitas_enabled();
	struct contiguitas_node *n;

	if (ctg_switch(true))
		kunit_skip(test, "this machine can have no border");
	n = contiguitas_nodes[first_online_node];
	KUNIT_EXPECT_EQ(test, ctg_switch(true), 0);
	KUNIT_ASSERT_EQ(test, ctg_switch(false), 0);
	KUNIT_EXPECT_FALSE(test, contiguitas_enabled());
	KUNIT_EXPECT_EQ(test, ctg_resize(n, ctg_size(n) + CTG_CHUNK, true), -ENODEV);
	KUNIT_EXPECT_EQ(test, contiguitas_block_type(pfn_to_page(n->base_pfn), MIGRATE_MOVABLE),
			MIGRATE_MOVABLE);
	KUNIT_ASSERT_EQ(test, ctg_switch(true), 0);
	expect_sides(test, n);
	expect_counted(test, n);
	KUNIT_EXPECT_EQ(test, ctg_switch(on), 0);
}

/*
 * A claim goes past a chunk of which somebody has isolated a half, and who gives up
 * then: both halves are on our side, and counted there.
 */
static void test_claim_past_isolation(struct kunit *test)
{
	struct contiguitas_node *n = contiguitas_nodes[first_online_node];
	unsigned long border, size, flags, i;
	struct zone *zone;

	need_border(test);
	/* More than the resizer wants, and it does nothing meanwhile: it isolates at the border. */
	KUNIT_ASSERT_EQ(test, ctg_resize(n, ctg_size(n) + 8 * CTG_CHUNK, true), 0);
	mutex_lock(&n->resize_lock);
	border = contiguitas_border[n->nid];
	size = ctg_size(n);
	zone = page_zone(pfn_to_page(border));
	KUNIT_EXPECT_EQ(test, start_isolate_page_range(border, border + pageblock_nr_pages,
						       MIGRATE_MOVABLE, 0, GFP_KERNEL), 0);
	n->claim_dry = jiffies - 1;
	spin_lock_irqsave(&zone->lock, flags);
	contiguitas_claim(zone, MIGRATE_UNMOVABLE, ALLOC_CLAIM);
	spin_unlock_irqrestore(&zone->lock, flags);
	undo_isolate_page_range(border, border + pageblock_nr_pages, MIGRATE_MOVABLE);

	KUNIT_EXPECT_GT(test, ctg_size(n), size + CTG_CHUNK);
	for (i = border; i < contiguitas_border[n->nid]; i += pageblock_nr_pages)
		KUNIT_EXPECT_TRUE(test,
				  contiguitas_low_type(get_pageblock_migratetype(pfn_to_page(i))));
	expect_counted(test, n);
	mutex_unlock(&n->resize_lock);
	KUNIT_EXPECT_EQ(test, ctg_resize(n, size, false), 0);
}

/* Pages of a cache stay low by its mapping; anonymous ones on their way to swap have none. */
static void test_keep_low(struct kunit *test)
{
	struct inode *inode = kunit_kzalloc(test, sizeof(*inode), GFP_KERNEL);
	struct folio *folio;

	need_border(test);
	folio = folio_alloc(GFP_KERNEL, 0);
	KUNIT_ASSERT_NOT_NULL(test, inode);
	KUNIT_ASSERT_NOT_NULL(test, folio);
	address_space_init_once(&inode->i_data);
	inode->i_data.host = inode;
	inode->i_mode = S_IFREG;
	mapping_set_gfp_mask(&inode->i_data, GFP_USER);
	folio->mapping = &inode->i_data;
	KUNIT_EXPECT_TRUE(test, contiguitas_keep_low(folio));
	mapping_set_gfp_mask(&inode->i_data, GFP_HIGHUSER_MOVABLE);
	KUNIT_EXPECT_FALSE(test, contiguitas_keep_low(folio));
	inode->i_mode = 0;
	KUNIT_EXPECT_TRUE(test, contiguitas_keep_low(folio));
	folio->mapping = NULL;
#ifdef CONFIG_SWAP
	/* no gfp mask at all, and freed without a grace period */
	folio_set_swapbacked(folio);
	folio_set_swapcache(folio);
	KUNIT_EXPECT_FALSE(test, contiguitas_keep_low(folio));
	folio_clear_swapcache(folio);
	folio_clear_swapbacked(folio);
#endif
	folio_put(folio);
}

/* Above the border nothing may be pinned for long but the memory of a device. */
static void test_pinnable(struct kunit *test)
{
	struct dev_pagemap pgmap = { .type = MEMORY_DEVICE_GENERIC };
	unsigned long __maybe_unused start, spanned;
	struct zone __maybe_unused *device;
	enum zone_type zone;
	struct folio *folio;

	need_border(test);
	folio = folio_alloc(GFP_HIGHUSER_MOVABLE, 0);
	KUNIT_ASSERT_NOT_NULL(test, folio);
	zone = page_zonenum(&folio->page);
#ifdef CONFIG_ZONE_DEVICE
	/* A debug kernel asks whether the zone has the page. */
	device = &NODE_DATA(folio_nid(folio))->node_zones[ZONE_DEVICE];
	start = device->zone_start_pfn;
	spanned = device->spanned_pages;
	device->zone_start_pfn = folio_pfn(folio);
	device->spanned_pages = 1;
#endif
	KUNIT_EXPECT_FALSE(test, folio_is_longterm_pinnable(folio));
#ifdef CONFIG_ZONE_DEVICE
	set_page_zone(&folio->page, ZONE_DEVICE);
	folio->page.pgmap = &pgmap;
	KUNIT_EXPECT_TRUE(test, folio_is_longterm_pinnable(folio));
	set_page_zone(&folio->page, zone);
	INIT_LIST_HEAD(&folio->lru);
	device->zone_start_pfn = start;
	device->spanned_pages = spanned;
#endif
	folio_put(folio);
}

static int owner_stays(struct contiguitas_owner *owner, struct page *src, struct page *dst)
{
	return -EBUSY;
}

/* A page of a program has one owner at most, and gets another when that one lets go. */
static void test_owner(struct kunit *test)
{
	struct contiguitas_owner mine = { .moved = owner_stays }, other = mine;
	struct folio *folio = folio_alloc(GFP_KERNEL, 0);

	KUNIT_ASSERT_NOT_NULL(test, folio);
	KUNIT_EXPECT_EQ(test, contiguitas_own(&folio->page, &mine), -EBUSY);
	/* PAGE_MAPPING_ANON, which has another name since 6.17 */
	folio->mapping = (void *)1UL;
	KUNIT_EXPECT_EQ(test, contiguitas_own(&folio->page, &mine), 0);
	KUNIT_EXPECT_EQ(test, contiguitas_own(&folio->page, &other), -EBUSY);
	contiguitas_disown(&folio->page, &other);
	KUNIT_EXPECT_EQ(test, contiguitas_own(&folio->page, &other), -EBUSY);
	contiguitas_disown(&folio->page, &mine);
	KUNIT_EXPECT_EQ(test, contiguitas_own(&folio->page, &other), 0);
	contiguitas_disown(&folio->page, &other);
	KUNIT_EXPECT_NULL(test, folio_get_private(folio));
	folio->mapping = NULL;
	folio_put(folio);
}

/* A device that can move the one page it is shown. */
static struct page *hw_src, *hw_dst;
static int hw_cleared, hw_shown_typed;

static int mock_migrate(struct page *src, struct page *dst, unsigned int flags)
{
	hw_shown_typed += page_has_type(src);
	if (src != hw_src)
		return -EBUSY;
	copy_highpage(dst, src);
	hw_dst = dst;
	return 0;
}

static int mock_clear(struct page *src)
{
	hw_cleared++;
	return src == hw_src ? 0 : -EINVAL;
}

static const struct contiguitas_hw_ops mock_ops = {
	.migrate = mock_migrate,
	.clear = mock_clear,
};

static void test_hardware_seam(struct kunit *test)
{
	struct contiguitas_node *n = contiguitas_nodes[first_online_node];
	struct page *page, *next;
	unsigned long size, failed = counted(CTG_RESIZE_FAIL);
	LIST_HEAD(held);

	need_border(test);
	size = ctg_size(n);
	KUNIT_ASSERT_EQ(test, ctg_resize(n, size + CTG_CHUNK, false), 0);
	/* use up what lies lower, until a page comes from the top chunk */
	do {
		page = alloc_page(GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);
		if (page && page_to_pfn(page) < n->base_pfn + size)
			list_add(&page->lru, &held);
	} while (page && page_to_pfn(page) < n->base_pfn + size);
	list_for_each_entry_safe(hw_dst, next, &held, lru)
		__free_page(hw_dst);
	hw_dst = NULL;
	KUNIT_ASSERT_NOT_NULL(test, page);
	hw_src = page;
	memset(page_address(page), 0x5a, PAGE_SIZE);
	/* everything above this page has to go as well */
	if (page_to_pfn(page) >= n->base_pfn + ctg_size(n) - CTG_CHUNK) {
		KUNIT_EXPECT_NE(test, ctg_resize(n, ctg_size(n) - CTG_CHUNK, false), 0);
		KUNIT_EXPECT_GT(test, counted(CTG_RESIZE_FAIL), failed);
		KUNIT_ASSERT_EQ(test, contiguitas_register_hw(&mock_ops), 0);
		KUNIT_EXPECT_EQ(test, contiguitas_register_hw(&mock_ops), -EBUSY);
		ctg_resize(n, ctg_size(n) - CTG_CHUNK, false);
		contiguitas_unregister_hw(&mock_ops);
		KUNIT_EXPECT_NOT_NULL(test, hw_dst);
		KUNIT_EXPECT_EQ(test, hw_cleared, 1);
		KUNIT_EXPECT_EQ(test, hw_shown_typed, 0);
	}
	page = hw_dst ?: hw_src;
	KUNIT_EXPECT_EQ(test, *(u8 *)page_address(page), 0x5a);
	KUNIT_EXPECT_FALSE(test, contiguitas_above(page_to_nid(page), page_to_pfn(page)));
	__free_page(page);
}

static struct kunit_case contiguitas_cases[] = {
	KUNIT_CASE(test_fallback_rules),
	KUNIT_CASE(test_block_types),
	KUNIT_CASE(test_policy),
	KUNIT_CASE(test_pages_go_where_they_belong),
	KUNIT_CASE(test_resize_and_back),
	KUNIT_CASE(test_switch),
	KUNIT_CASE(test_claim_past_isolation),
	KUNIT_CASE(test_keep_low),
	KUNIT_CASE(test_pinnable),
	KUNIT_CASE(test_owner),
	KUNIT_CASE(test_hardware_seam),
	{}
};

static struct kunit_suite contiguitas_suite = {
	.name = "contiguitas",
	.test_cases = contiguitas_cases,
};

kunit_test_suite(contiguitas_suite);

MODULE_DESCRIPTION("KUnit tests of Contiguitas");
MODULE_LICENSE("GPL");
