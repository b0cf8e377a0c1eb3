/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One wrong call, chosen by the argument; the allocator is expected to end the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *volatile object;

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	char local[64];

	object = malloc(100);
	if (!strcmp(kind, "double")) {
		free(object);
		free(object);
	} else if (!strcmp(kind, "double-later")) {
		void *all[5000];

		for (int i = 0; i < 5000; i++)
			all[i] = malloc(100);
		free(object);
		for (int i = 0; i < 5000; i++)
			free(all[i]);
		free(object);
		for (int i = 0; i < 5000; i++)
			free(malloc(100 + i * 7));
	} else if (!strcmp(kind, "double-large")) {
		object = malloc(1000000);
		free(object);
		free(object);
	} else if (!strcmp(kind, "interior")) {
		free((char *)object + 16);
		for (int i = 0; i < 5000; i++)
			free(malloc(100));
	} else if (!strcmp(kind, "interior-large")) {
		object = malloc(1000000);
		free((char *)object + 64);
	} else if (!strcmp(kind, "stack")) {
		object = local;
		free(object);
	} else if (!strcmp(kind, "wild")) {
		object = (void *)0x123456789000;
		free(object);
	}
	puts("not noticed");
	return 0;
}
