/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Records every allocation of a program with its place in the code: a library to preload, over
 * glibc's malloc. LIFETIMES names the file, which is sparse and ends with the first record of
 * zeros: a program may die in any way. Children of a fork and programs that are started are not
 * recorded.
 *
 * A record has 32 bytes, little-endian: CPU time of the process in nanoseconds (8), which depends
 * little on the load of the machine; address (8); bytes (8), 0 in a call that frees; and a hash of
 * the innermost 2 (4) and 8 (4) return addresses outside this library, each as name of the module
 * and offset, so that it is the same in every run.
 */
#include "common.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <unwind.h>

#define SHALLOW 2
#define DEEP 8
#define MOST (1ul << 27) /* records: 4 GiB of a sparse file */

struct record {
	uint64_t time_ns, address, bytes;
	uint32_t shallow, deep;
};

struct walk {
	int depth;
	uint64_t hash;
	uint32_t shallow;
};

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static struct record *records;
static atomic_ulong next;
static struct link_map *own;
static __thread int busy __attribute__((tls_model("initial-exec")));

static uint64_t mixed(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ (hash >> 29);
}

static uint64_t module_hash(const struct link_map *module)
{
	static __thread struct { const struct link_map *module; uint64_t hash; } last[16]
		__attribute__((tls_model("initial-exec")));
	unsigned slot = (uintptr_t)module / 64 % 16;
	const char *name = strrchr(module->l_name, '/');

	if (last[slot].module == module)
		return last[slot].hash;
	last[slot].hash = 1;
	for (name = name ? name : module->l_name; *name; name++)
		last[slot].hash = mixed(last[slot].hash, *name);
	last[slot].module = module;
	return last[slot].hash;
}

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *argument)
{
	struct walk *walk = argument;
	uintptr_t address = _Unwind_GetIP(context);
	struct dl_find_object found;

	if (!address || _dl_find_object((void *)address, &found) != 0)
		return _URC_END_OF_STACK; /* compiled at run time */
	if (found.dlfo_link_map == own)
		return _URC_NO_REASON;
	walk->hash = mixed(walk->hash, module_hash(found.dlfo_link_map));
	walk->hash = mixed(walk->hash, address - found.dlfo_link_map->l_addr);
	if (++walk->depth <= SHALLOW)
		walk->shallow = walk->hash >> 32;
	return walk->depth < DEEP ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void note(void *object, size_t bytes)
{
	struct walk walk = {0};
	struct timespec now;
	unsigned long at;
	int error = errno;

	if (!records || busy || !object)
		return;
	busy = 1;
	if (bytes)
		_Unwind_Backtrace(visit, &walk);
	at = atomic_fetch_add(&next, 1);
	if (at < MOST) {
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
		records[at] = (struct record){
			now.tv_sec * 1000000000ul + now.tv_nsec, (uintptr_t)object, bytes,
			walk.shallow, walk.hash >> 32,
		};
	}
	busy = 0;
	errno = error;
}

static void *noted(void *object, size_t bytes)
{
	note(object, bytes ? bytes : 1);
	return object;
}

void *malloc(size_t bytes)
{
	return noted(__libc_malloc(bytes), bytes);
}

void *calloc(size_t count, size_t bytes)
{
	return noted(__libc_calloc(count, bytes), count * bytes);
}

/* The memory may be another thread's before a second record could follow: the free comes first. */
void *realloc(void *old, size_t bytes)
{
	note(old, 0);
	return noted(__libc_realloc(old, bytes), bytes);
}

void *reallocarray(void *old, size_t count, size_t bytes)
{
	size_t all;

	if (__builtin_mul_overflow(count, bytes, &all)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, all);
}

void *memalign(size_t align, size_t bytes)
{
	return noted(__libc_memalign(align, bytes), bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
	return memalign(align, bytes);
}

int posix_memalign(void **object, size_t align, size_t bytes)
{
	void *made = memalign(align, bytes);

	if (made)
		*object = made;
	return made ? 0 : ENOMEM;
}

void free(void *object)
{
	note(object, 0);
	__libc_free(object);
}

/* A program that is linked with another allocator would ask that one. */
size_t malloc_usable_size(void *object)
{
	static size_t (*glibc)(void *);

	if (!glibc)
		glibc = (size_t (*)(void *))dlsym(dlopen("libc.so.6", RTLD_LAZY),
						  "malloc_usable_size");
	return glibc(object);
}

static void forget(void)
{
	records = NULL;
}

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("LIFETIMES");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
	struct dl_find_object found;
	struct walk first = {0};
	void *map;

	if (fd < 0 || ftruncate(fd, MOST * sizeof(struct record)) ||
	    _dl_find_object((void *)start, &found))
		return;
	own = found.dlfo_link_map;
	map = mmap(NULL, MOST * sizeof(struct record), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_NORESERVE, fd, 0);
	close(fd);
	unsetenv("LD_PRELOAD");
	pthread_atfork(NULL, NULL, forget);
	_Unwind_Backtrace(visit, &first); /* allocates, the first time */
	if (map != MAP_FAILED)
		records = map;
}
