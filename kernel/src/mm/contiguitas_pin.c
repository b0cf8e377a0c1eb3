// SPDX-License-Identifier: GPL-2.0-only
/* Contiguitas: pages that must not stay above the border while somebody refers to them. */
#include <linux/mm.h>
#include <linux/uio.h>
#include "contiguitas.h"

static unsigned int pages_above(struct page **pages, unsigned int nr)
{
	unsigned int i, above = 0;

	for (i = 0; i < nr; i++)
		above += contiguitas_above(page_to_nid(pages[i]), page_to_pfn(pages[i]));
	return above;
}

/**
 * contiguitas_iov_get_pages2 - iov_iter_get_pages2() for long-lived references
 * @iter: as there
 * @pages: as there
 * @maxsize: as there
 * @maxpages: as there
 * @start: as there
 *
 * Pages found above the border are pinned for long term once, which migrates
 * them below it, unpinned, and looked up again.  What cannot be migrated is
 * used where it lies and counted in contiguitas_pin_left.
 */
ssize_t contiguitas_iov_get_pages2(struct iov_iter *iter, struct page **pages,
				   size_t maxsize, unsigned int maxpages, size_t *start)
{
	unsigned int i, nr;
	unsigned long addr;
	ssize_t got;
	long pinned;

	got = iov_iter_get_pages2(iter, pages, maxsize, maxpages, start);
	if (got <= 0 || !contiguitas_enabled() || !user_backed_iter(iter))
		return got;
	nr = DIV_ROUND_UP(got + *start, PAGE_SIZE);
	if (!pages_above(pages, nr))
		return got;

	for (i = 0; i < nr; i++)
		put_page(pages[i]);
	iov_iter_revert(iter, got);
	addr = (unsigned long)iter_iov_addr(iter) & PAGE_MASK;
	pinned = pin_user_pages_fast(addr, nr, FOLL_LONGTERM, pages);
	if (pinned > 0)
		unpin_user_pages(pages, pinned);

	got = iov_iter_get_pages2(iter, pages, maxsize, maxpages, start);
	if (got > 0)
		count_vm_events(CTG_PIN_LEFT, pages_above(pages, DIV_ROUND_UP(got + *start,
									      PAGE_SIZE)));
	return got;
}
EXPORT_SYMBOL_GPL(contiguitas_iov_get_pages2);
