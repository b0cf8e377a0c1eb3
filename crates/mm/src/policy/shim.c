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

uint64_t ample_ctg_enough_pages(const struct ctg_state *s)
{
	return ctg_enough_pages(s);
}

uint64_t ample_ctg_limit_pages(const struct ctg_state *s, int beyond)
{
	return ctg_limit_pages(s, beyond);
}

uint64_t ample_ctg_round_pages(const struct ctg_params *p, const struct ctg_state *s, int urgent,
			       uint64_t limit)
{
	return ctg_round_pages(p, s, urgent, limit);
}

int ample_ctg_must(const struct ctg_state *s, int urgent)
{
	return ctg_must(s, urgent);
}

int ample_ctg_backed_off(int must, int hard, int waits)
{
	return ctg_backed_off(must, hard, waits);
}

uint64_t ample_ctg_step_pages(const struct ctg_state *s, uint64_t target, uint64_t wanted,
			      int must)
{
	return ctg_step_pages(s, target, wanted, must);
}

uint64_t ample_ctg_max_pages(uint64_t node_pages, uint64_t initial_pages, uint64_t block_pages)
{
	return ctg_max_pages(node_pages, initial_pages, block_pages);
}

struct ctg_params ample_ctg_kernel_params(void)
{
	return (struct ctg_params) CTG_KERNEL_PARAMS;
}

/* Times of the kernel's resizer; the fields are those of KernelTimes in policy_ffi.rs. */
struct ample_ctg_times {
	uint32_t review_ms, beyond_ms, backoff_ms, backoff_cap_ms;
};

struct ample_ctg_times ample_ctg_kernel_times(void)
{
	return (struct ample_ctg_times) {
		CTG_REVIEW_MS, CTG_BEYOND_MS, CTG_BACKOFF_MS, CTG_BACKOFF_CAP_MS,
	};
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
