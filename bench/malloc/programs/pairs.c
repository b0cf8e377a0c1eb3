/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The fast path: nanoseconds for a malloc and a free of SIZE bytes, one pair at a time and as a
 * stack of 32. Usage: pairs [size] [millions]
 */
#include "common.h"

static void *volatile sink;

int main(int argc, char **argv)
{
	size_t bytes = argc > 1 ? (size_t)atol(argv[1]) : 64;
	long pairs = (argc > 2 ? atol(argv[2]) : 50) * 1000000;
	void *stack[32];

	for (int warm = 0; warm < 1000; warm++) {
		sink = malloc(bytes);
		free(sink);
	}
	double start = cpu_s();

	for (long i = 0; i < pairs; i++) {
		void *object = malloc(bytes);

		sink = object;
		free(object);
	}
	double single = cpu_s() - start;

	start = cpu_s();
	for (long i = 0; i < pairs; i += 32) {
		for (int j = 0; j < 32; j++)
			stack[j] = malloc(bytes);
		sink = stack[7];
		for (int j = 0; j < 32; j++)
			free(stack[j]);
	}
	double batch = cpu_s() - start;

	printf("{\"pair_ns\": %.3f, \"stack_pair_ns\": %.3f}\n", single * 1e9 / (double)pairs,
	       batch * 1e9 / (double)pairs);
	return 0;
}
