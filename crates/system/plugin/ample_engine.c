/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A QEMU system-mode plugin for x86-64 guests (QEMU 10 and later) through which the migration
 * engine of crates/system/src/engine makes two physical pages one memory. It watches nothing: the
 * guest runs as fast as without it.
 *
 * Build: gcc -O2 -fPIC -shared -pthread -fvisibility=hidden -o libample_engine.so ample_engine.c
 * Use:   qemu-system-x86_64 -plugin libample_engine.so,dir=DIR,low=BYTES with guest memory in the
 *        shared file DIR/ram and a listener at the socket DIR/alias.sock.
 *
 * A request is four words of 8 bytes, operation, source, destination (physical addresses of the
 * guest in bytes) and pages; the answer is one: 0, or an errno that is less than 0.
 */
#include "alias.h"
#include "qemu.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* As a symbol this is what QEMU checks before it calls qemu_plugin_install. */
__attribute__((visibility("default"))) int qemu_plugin_version = 4;

/* No part of the plugin interface: QEMU's own write of a device into memory. */
extern void cpu_physical_memory_rw(uint64_t, void *, uint64_t, _Bool) __attribute__((weak));
extern void rcu_register_thread(void) __attribute__((weak));

static struct aliases aliases;
static char *directory;
static uint64_t low_bytes;
static int requests = -1;

/* A name in the directory, resolved; NULL where there is none. */
static char *path_of(const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return realpath(path, NULL);
}

/* Looks where QEMU has mapped the guest's memory; 0 or -errno. */
static int find_memory(void)
{
	char *path = path_of("ram"), *base;
	int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	struct stat stat;

	if (file < 0 || fstat(file, &stat) != 0)
		return -errno;
	base = mapping_of(path, (uint64_t)stat.st_size);
	free(path);
	if (!base)
		return -ENXIO;
	aliases.advised = 1;
	return alias_begin(&aliases, file, base, (uint64_t)stat.st_size, low_bytes);
}

/*
 * QEMU keeps code that it has translated by the physical page it came from, until the page is
 * written. Pages that get other bytes without a write are written with their own ones, which are of
 * no value yet, or no more.
 */
static void forget_code(uint64_t pa, uint64_t pages)
{
	char bytes[1 << FRAME_SHIFT];

	for (; pages > 0; pages--, pa += sizeof(bytes)) {
		int64_t frame = frame_at(&aliases, pa);

		if (frame == NO_FRAME)
			return;
		memcpy(bytes, aliases.base + ((uint64_t)frame << FRAME_SHIFT), sizeof(bytes));
		cpu_physical_memory_rw(pa, bytes, sizeof(bytes), 1);
	}
}

static int64_t served(const uint64_t request[4])
{
	int64_t answer = aliases.base ? 0 : find_memory();

	if (answer)
		return answer;
	if (request[0] == ALIAS_BOTH)
		forget_code(request[2], request[3]);
	answer = alias_do(&aliases, request[0], request[1], request[2], request[3]);
	if (answer == 0 && request[0] == ALIAS_UNDO)
		forget_code(request[2], request[3]);
	return answer;
}

static void *serve(void *nothing)
{
	uint64_t request[4];
	int64_t answer;

	(void)nothing;
	rcu_register_thread();
	while (recv(requests, request, sizeof(request), MSG_WAITALL) == sizeof(request)) {
		answer = served(request);
		if (send(requests, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer))
			break;
	}
	return NULL;
}

/* Connects to who sends requests; 0 or -1. */
static int connect_to_engine(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int length = snprintf(address.sun_path, sizeof(address.sun_path), "%s/alias.sock",
			      directory);

	if (length >= (int)sizeof(address.sun_path))
		return -1;
	requests = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (requests < 0)
		return -1;
	return connect(requests, (struct sockaddr *)&address, sizeof(address));
}

/* Starts the thread that serves, without QEMU's signals; 0 or an errno. */
static int start_thread(void)
{
	sigset_t all, before;
	pthread_t thread;
	int failed;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, NULL, serve, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return failed ? failed : pthread_detach(thread);
}

__attribute__((visibility("default")))
int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv)
{
	(void)id;
	for (int i = 0; i < argc; i++) {
		if (strncmp(argv[i], "dir=", 4) == 0)
			directory = strdup(argv[i] + 4);
		else if (strncmp(argv[i], "low=", 4) == 0)
			low_bytes = strtoull(argv[i] + 4, NULL, 10);
	}
	if (!info->system_emulation || strcmp(info->target_name, "x86_64") != 0 || !directory ||
	    !low_bytes) {
		fprintf(stderr, "ample_engine: for qemu-system-x86_64, with dir= and low=\n");
		return -1;
	}
	if (!cpu_physical_memory_rw || !rcu_register_thread) {
		fprintf(stderr, "ample_engine: this emulator hides how devices write memory\n");
		return -1;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (connect_to_engine() != 0 || start_thread() != 0) {
		fprintf(stderr, "ample_engine: nobody takes %s/alias.sock\n", directory);
		return -1;
	}
	return 0;
}
