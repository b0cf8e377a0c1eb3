/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One place allocates 64 MB in 64-byte objects that it frees at once, another 20 MB that it keeps,
 * a third 10 MB that it frees in the end. Usage: profile KIND writes that profile on stdout.
 */
#include "../../include/ample_malloc.h"

#include <stdlib.h>

enum { SHORT = 1000000, KEPT = 100000 };
static void *kept[KEPT], *freed[KEPT];

__attribute__((noinline)) static void make_short(void)
{
	for (int i = 0; i < SHORT; i++)
		free(malloc(64));
}

__attribute__((noinline)) static void make_kept(void)
{
	for (int i = 0; i < KEPT; i++)
		kept[i] = malloc(200);
}

__attribute__((noinline)) static void make_freed(void)
{
	for (int i = 0; i < KEPT; i++)
		freed[i] = malloc(100);
}

extern __typeof__(ample_malloc_profile_of) ample_malloc_profile_of __attribute__((weak));

int main(int count, char **arguments)
{
	make_short();
	make_kept();
	make_freed();
	for (int i = 0; i < KEPT; i++)
		free(freed[i]);
	ample_malloc_profile_of(1, count > 1 ? atoi(arguments[1]) : 0);
	return 0;
}
