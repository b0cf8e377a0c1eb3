/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Contiguitas: every node's memory has an unmovable region at its low end, a
 * movable region above it, and a border between them that can move.
 *
 * What the rest of the kernel sees; the hooks of mm/ are in mm/contiguitas.h.
 * With the feature off (the default) each hook is one patched-out branch, and
 * without CONFIG_CONTIGUITAS the compiler drops whatever it guards.
 */
#ifndef _LINUX_CONTIGUITAS_H
#define _LINUX_CONTIGUITAS_H

#include <linux/jump_label.h>
#include <linux/numa.h>
#include <linux/types.h>

struct iov_iter;
struct page;

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

int contiguitas_register_hw(const struct contiguitas_hw_ops *ops);
void contiguitas_unregister_hw(const struct contiguitas_hw_ops *ops);

#ifdef CONFIG_CONTIGUITAS
DECLARE_STATIC_KEY_FALSE(contiguitas_key);
#define contiguitas_enabled()	static_branch_unlikely(&contiguitas_key)
extern bool contiguitas_requested;
ssize_t contiguitas_iov_get_pages2(struct iov_iter *iter, struct page **pages,
				   size_t maxsize, unsigned int maxpages, size_t *start);
#else
#define contiguitas_enabled()	false
#define contiguitas_requested	false
#define contiguitas_iov_get_pages2 iov_iter_get_pages2
#endif

/* First pfn of the movable region of each node, aligned to MAX_PAGE_ORDER. */
extern unsigned long contiguitas_border[MAX_NUMNODES];

static inline bool contiguitas_above(int nid, unsigned long pfn)
{
	return contiguitas_enabled() && pfn >= READ_ONCE(contiguitas_border[nid]);
}

#endif /* _LINUX_CONTIGUITAS_H */
