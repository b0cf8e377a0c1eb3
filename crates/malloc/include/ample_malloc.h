/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What libample_malloc offers beyond the C library's own interface. Link with -lample_malloc, or
 * look the functions up with dlsym in a program that may run without the library.
 */
#ifndef AMPLE_MALLOC_H
#define AMPLE_MALLOC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the statistics to a file descriptor: a page of text (0), one JSON object with the schema
 * "ample.malloc-stats/1" (1), or OpenMetrics 1.0 (2). */
void ample_malloc_stats(int fd, int form);

/* Writes the sampled heap profile in the text format that pprof reads. It is empty unless the
 * process was started with AMPLE_MALLOC=profile=SIZE. */
void ample_malloc_profile(int fd);

/* The same of a kind: 0 what is live and what was allocated, 1 what was live at the peak, 2 what
 * was freed, with the nanoseconds that it had lived in place of bytes. */
void ample_malloc_profile_of(int fd, int kind);

/* Gives up to `bytes` of free memory back to the system, breaking hugepages if need be. Returns the
 * bytes that were given back. malloc_trim(keep) empties the caches first. */
size_t ample_malloc_release(size_t bytes);

/* Limits the memory behind the heap, in bytes; 0 is no limit. Beyond the soft one free memory goes
 * back at once. Beyond the hard one a request fails with ENOMEM after all free memory has gone
 * back. Memory counts once it is handed out, touched or not; metadata does not count. */
void ample_malloc_set_limits(size_t soft, size_t hard);

/* malloc for what the program does not expect to use often: objects of up to 256 KiB lie on pages
 * apart from all others, so that the pages of the others stay dense. Freed as any other; realloc
 * may move it among the others. In C++, operator new takes a __hot_cold_t as tcmalloc's and
 * LLVM's does: below 128 is cold. */
void *ample_malloc_cold(size_t bytes);

/* Whether the address belongs to a live object of this allocator, as far as can be seen. */
int ample_malloc_owns(const void *object);

#ifdef __cplusplus
}
#endif
#endif
