/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the child of a fork can see of an object that another thread was about to free: fork copies
 * memory page by page while other threads go on, so that the object still lies in the table where
 * the child finds it, but is marked as freed. With check=1 an object begins 16 bytes into its slot,
 * whose second word is the mark: a secret combined with the address of the slot.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	char *object = malloc(100), *freed = malloc(100);
	uintptr_t *mark = (uintptr_t *)(object - 8), *freed_mark = (uintptr_t *)(freed - 8);

	free(freed);
	*mark = *freed_mark ^ (uintptr_t)(freed - 16) ^ (uintptr_t)(object - 16);
	free(object);
	for (int i = 0; i < 10000; i++)
		free(malloc(100 + i % 64));
	puts("ok");
	return 0;
}
