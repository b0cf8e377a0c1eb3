// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program without a C library: heap sort of 64 Ki numbers, twice, between the markers of marker.h.
 * Nothing of what it does depends on where it runs, on its environment or on the processor, so that
 * two ways of watching it must see the same loads and stores.
 *
 * exit: 1 if the numbers are not in order
 */
#include <stdint.h>

#include "marker.h"

#define KEYS (1UL << 16)

static uint64_t keys[KEYS];

/* The first and the last instruction between the markers are here. 231 is exit_group. */
__asm__(".globl _start\n"
	"_start:\n\t"
	AMPLE_MARKER_BYTES(0) "\n\t"
	"call run\n\t"
	AMPLE_MARKER_BYTES(1) "\n\t"
	"mov %eax, %edi\n\t"
	"mov $231, %eax\n\t"
	"syscall\n");

static void sift(uint64_t root, uint64_t end)
{
	uint64_t key = keys[root], child;

	while ((child = 2 * root + 1) < end) {
		if (child + 1 < end && keys[child] < keys[child + 1])
			child++;
		if (keys[child] <= key)
			break;
		keys[root] = keys[child];
		root = child;
	}
	keys[root] = key;
}

int run(void)
{
	for (uint64_t seed = 1; seed <= 2; seed++) {
		uint64_t state = seed;

		for (uint64_t i = 0; i < KEYS; i++) {
			/* Knuth's linear congruential generator for 64 bits */
			state = state * 6364136223846793005 + 1442695040888963407;
			keys[i] = state;
		}
		for (uint64_t i = KEYS / 2; i-- > 0;)
			sift(i, KEYS);
		for (uint64_t end = KEYS - 1; end > 0; end--) {
			uint64_t largest = keys[0];

			keys[0] = keys[end];
			keys[end] = largest;
			sift(0, end);
		}
		for (uint64_t i = 1; i < KEYS; i++)
			if (keys[i - 1] > keys[i])
				return 1;
	}
	return 0;
}
