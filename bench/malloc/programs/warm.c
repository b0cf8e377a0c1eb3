/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Touches memory in hugepages and gives it back. The host of a virtual machine with free page
 * reporting takes hugepages that lie free for two seconds; whoever touches them next pays for the
 * host's page faults, twenty times the cost of clearing them, whatever its allocator. Run before
 * each measured run, it leaves the same warm hugepages to all. Usage: warm [MiB]
 */
#include "common.h"

int main(int argc, char **argv)
{
	size_t bytes = (size_t)(argc > 1 ? atol(argv[1]) : 128) << 20, huge = 2 << 20;
	char *memory = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return 2;
	memory += -(uintptr_t)memory & (huge - 1);
	madvise(memory, bytes, MADV_HUGEPAGE);
	for (size_t at = 0; at < bytes; at += huge)
		memory[at] = 1;
	return 0;
}
