/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Closes stderr, as coreutils do at exit; with an argument a file of its own takes the number. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	free(malloc(100));
	close(2);
	if (argc > 1) {
		int file = open(argv[1], O_CREAT | O_WRONLY, 0600);

		if (file != 2 || write(file, "precious", 8) != 8)
			return 1;
	}
	puts("ok");
	return 0;
}
