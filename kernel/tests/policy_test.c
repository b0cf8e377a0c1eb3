// SPDX-License-Identifier: GPL-2.0-only
/*
 * Properties and closed forms of contiguitas_policy.h.
 * usage: policy_test [SEED]; a failure prints the state that made it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long u64;
typedef unsigned int u32;

#include <linux/contiguitas_policy.h>

static uint64_t rng_state;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static uint64_t below(uint64_t n)
{
	return n ? rng() % n : 0;
}

static struct ctg_params params;
static struct ctg_state state;

#define CHECK(cond)								\
	do {									\
		if (!(cond))							\
			fail(#cond, __LINE__);					\
	} while (0)

static void fail(const char *what, int line)
{
	fprintf(stderr, "policy_test.c:%d: %s does not hold for\n", line, what);
	fprintf(stderr, "  thresholds %u %u bp, c_ue %u c_me %u c_us %u c_ms %u milli\n",
		params.threshold_unmov_bp, params.threshold_mov_bp, params.c_ue_milli,
		params.c_me_milli, params.c_us_milli, params.c_ms_milli);
	fprintf(stderr, "  node %llu unmov %llu free %llu mov free %llu"
		" low %llu %llu min %llu max %llu block %llu"
		" pressure %u %u\n", state.node_pages, state.unmov_pages, state.unmov_free_pages,
		state.mov_free_pages, state.unmov_low_wmark_pages, state.mov_low_wmark_pages,
		state.min_pages, state.max_pages, state.block_pages, state.pressure_unmov_bp,
		state.pressure_mov_bp);
	exit(1);
}

/* A state that a kernel could be in: sizes in whole blocks, bounds in order. */
static void draw(void)
{
	uint64_t blocks = 2 + below(1 << 12), lo, hi;

	params = (struct ctg_params) {
		.threshold_unmov_bp = 1 + below(CTG_BP_MAX),
		.threshold_mov_bp = 1 + below(CTG_BP_MAX),
		.c_ue_milli = below(2000), .c_me_milli = below(2000),
		.c_us_milli = below(2000), .c_ms_milli = below(2000),
	};
	memset(&state, 0, sizeof(state));
	state.block_pages = 1ULL << (9 + below(3));
	state.node_pages = blocks * state.block_pages;
	lo = 1 + below(blocks - 1);
	hi = lo + below(blocks - lo);
	state.min_pages = lo * state.block_pages;
	state.max_pages = hi * state.block_pages;
	state.unmov_pages = (lo + below(hi - lo + 1)) * state.block_pages;
	state.unmov_free_pages = below(state.unmov_pages + 1);
	state.mov_free_pages = below(state.node_pages - state.unmov_pages + 1);
	state.unmov_low_wmark_pages = below(state.node_pages / 16);
	state.mov_low_wmark_pages = below(state.node_pages / 16);
	state.pressure_unmov_bp = below(3) ? below(CTG_BP_MAX + 1) : 0;
	state.pressure_mov_bp = below(3) ? below(CTG_BP_MAX + 1) : 0;
}

static uint64_t step_pages(void)
{
	return ctg_max(ctg_round_down(state.node_pages / CTG_STEP_DIV, state.block_pages),
		       state.block_pages);
}

static void check_target(void)
{
	uint64_t t = ctg_target_pages(&params, &state), now = state.unmov_pages;
	uint64_t used = now - state.unmov_free_pages;
	int starved = state.unmov_free_pages < state.unmov_low_wmark_pages;
	int mov_starved = state.mov_free_pages < state.mov_low_wmark_pages;
	int wants = state.pressure_unmov_bp >= params.threshold_unmov_bp &&
		    state.pressure_mov_bp < params.threshold_mov_bp;

	CHECK(t % state.block_pages == 0);
	CHECK(t >= state.min_pages && t <= state.max_pages);
	CHECK(t <= now || t - now <= step_pages());
	CHECK(t >= now || now - t <= step_pages());
	CHECK(!starved || t >= now);
	CHECK(!starved || t > now || now == state.max_pages);
	CHECK(t <= now || starved || (wants && !mov_starved));
	/* a shrink leaves what is used and twice the low watermark */
	CHECK(t >= now || t >= used + 2 * state.unmov_low_wmark_pages);
	/* so it does not provoke the next expansion */
	if (t < now) {
		struct ctg_state after = state;

		after.unmov_pages = t;
		after.unmov_free_pages -= now - t;
		after.mov_free_pages += now - t;
		CHECK(after.unmov_free_pages >= after.unmov_low_wmark_pages);
	}
	/* more unmovable pressure never turns growth into less growth */
	if (t > now && state.pressure_unmov_bp < CTG_BP_MAX) {
		struct ctg_state more = state;

		more.pressure_unmov_bp++;
		CHECK(ctg_target_pages(&params, &more) >= t);
	}
}

/* A review asks for no more than Algorithm 1 does, and for what free memory lacks at most. */
static void check_review(void)
{
	uint64_t r = ctg_review_pages(&params, &state), now = state.unmov_pages;
	uint64_t enough = ctg_enough_pages(&state), free = state.unmov_free_pages;

	CHECK(r % state.block_pages == 0);
	CHECK(r >= state.min_pages && r <= state.max_pages);
	CHECK(r <= ctg_max(ctg_target_pages(&params, &state), state.min_pages));
	CHECK(r <= now || free <= enough);
	CHECK(r <= now || r - now < enough - free + state.block_pages);
	/* a whole block to spare is given back, down to the least size */
	CHECK(r < now || free < enough + state.block_pages || now < state.min_pages + state.block_pages);
	/* what it gives back leaves enough */
	CHECK(r >= now || now - r <= free - ctg_min(enough, free));
}

/* Steps reach the target, and none is taken for what has become free meanwhile. */
static void check_step(void)
{
	uint64_t target = state.unmov_pages + below(64) * state.block_pages;
	uint64_t wanted = target - state.unmov_pages, free = state.unmov_free_pages;
	int must = below(2), over = free >= wanted + ctg_enough_pages(&state);
	uint64_t step = ctg_step_pages(&state, target, wanted, must);

	CHECK(step <= wanted && step <= CTG_BATCH_PAGES && step % state.block_pages == 0);
	CHECK(!over || !step);
	CHECK(over || !must || step || !wanted);
	CHECK(must || !step || state.mov_free_pages >= state.mov_low_wmark_pages);
	CHECK(!ctg_must_grow(&state) || free < state.unmov_low_wmark_pages);
}

/*
 * Who waits gets a block more than there is, within the maximum at any time and beyond it
 * when the time for that has come; nobody else goes beyond what a review gives.
 */
static void check_round(void)
{
	uint64_t review = ctg_review_pages(&params, &state), now = state.unmov_pages;
	uint64_t block = state.block_pages, max = state.max_pages;
	int beyond = below(2), room = now + block <= max;
	uint64_t limit = ctg_limit_pages(&state, beyond);
	uint64_t urgent = ctg_round_pages(&params, &state, 1, limit);

	CHECK(ctg_round_pages(&params, &state, 0, limit) == review);
	CHECK(limit == (room ? max : beyond ? ctg_min(now + block, state.node_pages) : now));
	CHECK(urgent >= review && urgent % block == 0);
	CHECK(urgent <= ctg_max(review, limit));
	CHECK(urgent >= ctg_min(now + block, limit));
	CHECK(!room || urgent > now);
	CHECK(room || beyond || urgent <= ctg_max(review, now));
	CHECK(ctg_stretch_pages(urgent, 0, block) == urgent);
	CHECK(ctg_stretch_pages(urgent, limit, block) <= urgent + block);
	CHECK(ctg_stretch_pages(urgent, limit, block) >= urgent);
	CHECK(ctg_must(&state, 1) && ctg_must(&state, 0) == ctg_must_grow(&state));
	CHECK(ctg_max_pages(state.node_pages, now, block) >= ctg_max(now, state.node_pages / 4));
}

/* The same in wider arithmetic: F of Algorithm 1, rounded term by term. */
static uint64_t factor_ref(uint64_t num_a, uint64_t den_a, uint64_t c_a,
			   uint64_t num_b, uint64_t den_b, uint64_t c_b)
{
	unsigned __int128 f;

	num_a = num_a > 10000 ? 10000 : num_a;
	num_b = num_b > 10000 ? 10000 : num_b;
	f = (unsigned __int128)num_a * c_a / (den_a ? den_a : 1) +
	    (unsigned __int128)num_b * c_b / (den_b ? den_b : 1);
	return f > 1000 ? 1000 : (uint64_t)f;
}

static void check_factors(void)
{
	uint32_t u = below(20000), m = below(20000);

	CHECK(ctg_factor_milli(u, params.threshold_unmov_bp, params.c_ue_milli,
			       m, params.threshold_mov_bp, params.c_me_milli) ==
	      factor_ref(u, params.threshold_unmov_bp, params.c_ue_milli,
			 params.threshold_mov_bp, m, params.c_me_milli));
	CHECK(ctg_factor_milli(m, params.threshold_mov_bp, params.c_ms_milli,
			       u, params.threshold_unmov_bp, params.c_us_milli) ==
	      factor_ref(m, params.threshold_mov_bp, params.c_ms_milli,
			 params.threshold_unmov_bp, u, params.c_us_milli));
}

static void check_scale(void)
{
	uint64_t pages = rng() >> below(64);
	uint32_t f = below(1001);

	CHECK(ctg_scale_milli(pages, f) == (uint64_t)((unsigned __int128)pages * f / 1000));
}

static void check_backoff(void)
{
	uint32_t base = 1 + below(1000), cap = base + below(100000), k = below(64);

	CHECK(ctg_backoff_ms(0, base, cap) == 0);
	CHECK(ctg_backoff_ms(1, base, cap) == base);
	CHECK(ctg_backoff_ms(k + 1, base, cap) >= ctg_backoff_ms(k, base, cap));
	CHECK(ctg_backoff_ms(k, base, cap) <= cap);
	if (k > 1 && k < 10 && ((uint64_t)base << (k - 1)) <= cap)
		CHECK(ctg_backoff_ms(k, base, cap) == base << (k - 1));
}

/* Back-off binds nobody when it is over, and a growth that must only if the last one must. */
static void check_backed_off(void)
{
	CHECK(!ctg_backed_off(0, 0, 0) && !ctg_backed_off(1, 1, 0));
	CHECK(ctg_backed_off(0, 0, 1) && ctg_backed_off(0, 1, 1));
	CHECK(!ctg_backed_off(1, 0, 1) && ctg_backed_off(1, 1, 1));
}

/* Worked by hand. */
static void check_closed_forms(void)
{
	const uint64_t gib = 1 << 18;

	params = (struct ctg_params) CTG_KERNEL_PARAMS;
	state = (struct ctg_state) {
		.node_pages = 64 * gib, .unmov_pages = 4 * gib, .unmov_free_pages = gib,
		.mov_free_pages = 30 * gib, .min_pages = gib, .max_pages = 32 * gib,
		.block_pages = 1024, .pressure_unmov_bp = 200, .pressure_mov_bp = 0,
	};
	/* F = 200/100 * 0.1 + 100/1 * 0.001 = 0.3: 4 GB grow by 1.2 GB */
	CHECK(ctg_factor_milli(200, 100, 100, 0, 100, 1) == 300);
	CHECK(ctg_target_pages(&params, &state) ==
	      4 * gib + ctg_round_up(4 * gib * 3 / 10, 1024));
	/* F = 150/100 * 0.1 + 100/50 * 0.001 = 0.152: shrinks, rounded down */
	state.pressure_unmov_bp = 50;
	state.pressure_mov_bp = 150;
	CHECK(ctg_factor_milli(150, 100, 100, 50, 100, 1) == 152);
	CHECK(ctg_target_pages(&params, &state) ==
	      4 * gib - ctg_round_down(4 * gib * 152 / 1000, 1024));
	/* nothing free: stays, whatever the movable side asks for */
	state.unmov_free_pages = 0;
	CHECK(ctg_target_pages(&params, &state) == 4 * gib);
	/* the paper's 4 GB of 64 GB */
	CHECK(ctg_initial_pages(64 * gib, 0, 1024) == 4 * gib);
	CHECK(ctg_initial_pages(64 * gib, 8 * gib, 1024) == 9 * gib);
	/* 2 GB of 2 GB: a quarter, and with that in use 4 MB more for who waits */
	CHECK(ctg_max_pages(gib * 2, gib / 8, 1024) == gib / 2);
	state = (struct ctg_state) {
		.node_pages = 2 * gib, .unmov_pages = gib / 2, .max_pages = gib / 2,
		.min_pages = gib / 8, .block_pages = 1024,
	};
	CHECK(ctg_round_pages(&params, &state, 1, ctg_limit_pages(&state, 1)) == gib / 2 + 1024);
	CHECK(ctg_round_pages(&params, &state, 1, ctg_limit_pages(&state, 0)) == gib / 2);
	CHECK(ctg_round_up(~0ULL, 1024) == (~0ULL & ~1023ULL));
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;

	rng_state = seed * 0x9e3779b97f4a7c15ULL | 1;
	check_closed_forms();
	check_backed_off();
	for (int i = 0; i < 1000000; i++) {
		draw();
		check_target();
		check_review();
		check_step();
		check_round();
		check_factors();
		check_scale();
		check_backoff();
	}
	printf("policy_test: closed forms and 1,000,000 random states hold, seed %llu\n",
	       (unsigned long long)seed);
	return 0;
}
