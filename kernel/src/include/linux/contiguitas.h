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

#ifdef CONFIG_CONTIGUITAS
DECLARE_STATIC_KEY_FALSE(contiguitas_key);
#define contiguitas_enabled()	static_branch_unlikely(&contiguitas_key)
extern bool contiguitas_requested;
#else
#define contiguitas_enabled()	false
#define contiguitas_requested	false
#endif

/* First pfn of the movable region of each node, aligned to MAX_PAGE_ORDER. */
extern unsigned long contiguitas_border[MAX_NUMNODES];

static inline bool contiguitas_above(int nid, unsigned long pfn)
{
	return contiguitas_enabled() && pfn >= READ_ONCE(contiguitas_border[nid]);
}

#endif /* _LINUX_CONTIGUITAS_H */
