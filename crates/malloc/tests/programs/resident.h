/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What of a program is in memory, without a call of the allocator under test. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Resident memory, by the kernel, in KiB; ends the program if the kernel does not tell. */
static long resident_kib(void)
{
	char text[128] = "";
	int fd = open("/proc/self/statm", O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		exit(9);
	close(fd);
	return atol(strchr(text, ' ')) * (sysconf(_SC_PAGESIZE) / 1024);
}
