// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contiguitas: KUnit tests of the rules, of a live border and of the hardware
 * seam. Those that need the feature are skipped unless booted with it.
 */
#include <kunit/test.h>
#include <linux/highmem.h>
#include <linux/mm.h>
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

static void test_resize_and_back(struct kunit *test)
{
	struct contiguitas_node *n = contiguitas_nodes[first_online_node];
	unsigned long size, i;

	need_border(test);
	for (i = 1; i <= 4; i++) {
		size = ctg_size(n);
		KUNIT_ASSERT_EQ(test, ctg_resize(n, size + i * CTG_CHUNK, false), 0);
		KUNIT_EXPECT_GE(test, ctg_size(n), size + i * CTG_CHUNK);
		KUNIT_ASSERT_EQ(test, ctg_resize(n, size, false), 0);
		KUNIT_EXPECT_EQ(test, ctg_size(n), size);
	}
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
	unsigned long size;
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
