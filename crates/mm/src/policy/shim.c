/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Gives the inline functions of the shared policy header external linkage. */
#include <stdint.h>

typedef unsigned long long u64;
typedef unsigned int u32;

#include <linux/contiguitas_policy.h>

uint64_t ample_ctg_target_pages(const struct ctg_params *p, const struct ctg_state *s)
{
	return ctg_target_pages(p, s);
}

uint64_t ample_ctg_review_pages(const struct ctg_params *p, const struct ctg_state *s)
{
	return ctg_review_pages(p, s);
}

uint64_t ample_ctg_step_pages(const struct ctg_state *s, uint64_t target, uint64_t wanted)
{
	return ctg_step_pages(s, target, wanted, ctg_must_grow(s));
}

uint64_t ample_ctg_initial_pages(uint64_t node_pages, uint64_t boot_used_pages,
				 uint64_t block_pages)
{
	return ctg_initial_pages(node_pages, boot_used_pages, block_pages);
}

uint32_t ample_ctg_backoff_ms(uint32_t failures, uint32_t base_ms, uint32_t cap_ms)
{
	return ctg_backoff_ms(failures, base_ms, cap_ms);
}
