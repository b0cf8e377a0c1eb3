// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any bytes as parameters and state: the policy must not trip a sanitizer and
 * must answer within its bounds. LLVMFuzzerTestOneInput for libFuzzer; the
 * main below feeds random bytes where that is not at hand.
 * usage: policy_fuzz [SEED [RUNS]]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long u64;
typedef unsigned int u32;

#include <linux/contiguitas_policy.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct {
		struct ctg_params params;
		struct ctg_state state;
		uint32_t failures, base_ms, cap_ms;
		uint8_t shift;
	} in;
	u64 target, lo, hi;

	if (size < sizeof(in))
		return 0;
	memcpy(&in, data, sizeof(in));
	/* the one thing callers promise */
	in.state.block_pages = 1ULL << (in.shift % 31);
	target = ctg_target_pages(&in.params, &in.state);
	lo = ctg_round_up(in.state.min_pages, in.state.block_pages);
	hi = ctg_round_down(ctg_min(in.state.max_pages, in.state.node_pages),
			    in.state.block_pages);
	if (lo > hi ? target != in.state.unmov_pages : target < lo || target > hi)
		abort();
	if (lo <= hi && target % in.state.block_pages)
		abort();
	lo = ctg_review_pages(&in.params, &in.state);
	if (lo > ctg_max(target, ctg_round_up(in.state.min_pages, in.state.block_pages)))
		abort();
	hi = ctg_limit_pages(&in.state, in.failures & 1);
	if (ctg_round_pages(&in.params, &in.state, 0, hi) != lo)
		abort();
	target = ctg_round_pages(&in.params, &in.state, 1, hi);
	if (target < lo || target > ctg_max(ctg_max(lo, hi), in.state.unmov_pages))
		abort();
	if (ctg_stretch_pages(target, hi, in.state.block_pages) < target)
		abort();
	ctg_max_pages(in.state.node_pages, in.state.min_pages, in.state.block_pages);
	if (ctg_step_pages(&in.state, target, in.state.min_pages, in.failures & 1) >
	    ctg_max(CTG_BATCH_PAGES, in.state.block_pages))
		abort();
	if (ctg_backoff_ms(in.failures, in.base_ms, in.cap_ms) > ctg_max(in.cap_ms, in.base_ms))
		abort();
	ctg_initial_pages(in.state.node_pages, in.state.unmov_pages, in.state.block_pages);
	return 0;
}

#ifndef HAVE_LIBFUZZER
int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint64_t x = seed * 0x9e3779b97f4a7c15ULL | 1;
	unsigned long runs = argc > 2 ? strtoul(argv[2], NULL, 0) : 200000;
	uint64_t buf[32];

	for (unsigned long r = 0; r < runs; r++) {
		for (int i = 0; i < 32; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			buf[i] = x >> (x % 61);
		}
		LLVMFuzzerTestOneInput((uint8_t *)buf, sizeof(buf));
	}
	printf("policy_fuzz: %lu inputs, seed %llu\n", runs,
	       (unsigned long long)seed);
	return 0;
}
#endif
