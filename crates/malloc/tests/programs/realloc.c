/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A large object that grows in steps and shrinks again keeps its contents, moves without a copy of
 * its memory (the peak of the process stays near its size) and shrinks where it lies.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAST ((size_t)256 << 20)

static long field_mib(const char *name)
{
	char line[256];
	long kib = -1;
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, name, strlen(name)))
			kib = atol(line + strlen(name));
	if (file)
		fclose(file);
	return kib / 1024;
}

static void check(const uint64_t *words, size_t bytes, int line)
{
	for (size_t at = 0; at < bytes / 8; at += 64)
		if (words[at] != at * 0x9e3779b97f4a7c15u) {
			printf("line %d: word %zu of %zu bytes\n", line, at, bytes);
			exit(1);
		}
}

int main(int count, char **arguments)
{
	size_t step = count > 1 ? (size_t)atol(arguments[1]) : 1 << 20, bytes = step, filled = 0;
	uint64_t *words = malloc(bytes);

	while (bytes < LAST) {
		/* Of another span behind it, so that it cannot grow where it lies. */
		char *other = malloc(3 << 20);

		for (; filled + 8 <= bytes; filled += 8)
			words[filled / 8] = filled / 8 * 0x9e3779b97f4a7c15u;
		bytes += step;
		words = realloc(words, bytes);
		free(other);
		if (!words)
			return 2;
	}
	check(words, filled, __LINE__);
	long peak = field_mib("VmHWM:");

	if (peak > (long)(LAST >> 20) * 5 / 4) {
		printf("a peak of %ld MiB\n", peak);
		return 3;
	}
	for (size_t to = LAST / 4; to >= (1 << 20); to /= 4) {
		uint64_t *same = realloc(words, to);

		if (same != words) {
			printf("moved to shrink to %zu\n", to);
			return 4;
		}
		check(words, to, __LINE__);
	}
	words = realloc(words, 1000);
	check(words, 1000, __LINE__);
	free(words);
	puts("ok");
	return 0;
}
