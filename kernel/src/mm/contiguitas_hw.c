// SPDX-License-Identifier: GPL-2.0-only
/* Contiguitas: the seam for hardware that moves pages while they are in use. */
#include <linux/mm.h>
#include "internal.h"
#include "contiguitas.h"

static DEFINE_MUTEX(ctg_hw_lock);	/* held while it is at work */
static const struct contiguitas_hw_ops *ctg_hw;

/* Typed pages (slab, page tables) are known by their struct page, which stays. */
static bool hw_can_move(struct page *page)
{
	return page_count(page) && !PageReserved(page) && !PageLRU(page) &&
	       !PageCompound(page) && !page_has_type(page);
}

/* Let hardware, if there is some, move what software cannot out of [@pfn, @pfn + CTG_CHUNK). */
bool ctg_hw_evacuate(struct contiguitas_node *n, unsigned long pfn)
{
	unsigned long end = pfn + CTG_CHUNK, start = pfn;
	struct page *src, *dst;
	LIST_HEAD(unfit);

	if (!READ_ONCE(ctg_hw))
		return false;
	mutex_lock(&ctg_hw_lock);
	for (; ctg_hw && pfn < end; pfn++) {
		src = pfn_to_page(pfn);
		if (!hw_can_move(src))
			continue;
		while ((dst = alloc_pages_node(n->nid, GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY |
					       __GFP_THISNODE, 0)) && page_to_pfn(dst) >= start)
			list_add(&dst->lru, &unfit);
		if (!dst)
			break;
		if (ctg_hw->migrate(src, dst, 0))
			__free_page(dst);
		else if (!ctg_hw->clear(src))
			__free_page(src);
	}
	mutex_unlock(&ctg_hw_lock);
	list_for_each_entry_safe(src, dst, &unfit, lru)
		__free_page(src);
	return true;
}

/**
 * contiguitas_register_hw - offer hardware that moves pages in use
 * @ops: what it can do
 *
 * Return: 0, or -EBUSY if there is one already.
 */
int contiguitas_register_hw(const struct contiguitas_hw_ops *ops)
{
	return cmpxchg(&ctg_hw, NULL, ops) ? -EBUSY : 0;
}
EXPORT_SYMBOL_GPL(contiguitas_register_hw);

void contiguitas_unregister_hw(const struct contiguitas_hw_ops *ops)
{
	mutex_lock(&ctg_hw_lock);
	cmpxchg(&ctg_hw, ops, NULL);
	mutex_unlock(&ctg_hw_lock);
}
EXPORT_SYMBOL_GPL(contiguitas_unregister_hw);
