// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pin pages in one of three ways and check where they lie meanwhile; or pin the memory of a device
 * and say how long that took.
 * usage: pins longterm|register|vmsplice BORDER_PFN
 *        pins device FILE
 *        pins bulk MIB SECONDS	pin that much at once, say how long it took and hold it
 * exit: 0 all below the border, 1 some above, 2 could not test
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define PAGES 256UL

/* mm/gup_test.h of Linux 6.12 */
struct pin_longterm_test {
	uint64_t addr, size;
	uint32_t flags;
};
#define PIN_LONGTERM_TEST_START _IOW('g', 7, struct pin_longterm_test)
#define PIN_LONGTERM_TEST_FLAG_USE_WRITE 1
#define PIN_LONGTERM_TEST_FLAG_USE_FAST 2

static uint64_t pfn_of(const char *p)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry = 0;

	if (fd < 0 || pread(fd, &entry, 8, (uintptr_t)p / PAGE * 8) != 8)
		perror("pins: pagemap");
	close(fd);
	return entry & ((1ULL << 55) - 1);
}

static unsigned long above(const char *buf, unsigned long pages, uint64_t border)
{
	unsigned long n = 0;

	for (unsigned long i = 0; i < pages; i++)
		n += pfn_of(buf + i * PAGE) >= border;
	return n;
}

static int pin_longterm(char *buf, unsigned long pages)
{
	struct pin_longterm_test args = {
		.addr = (uintptr_t)buf, .size = pages * PAGE,
		.flags = PIN_LONGTERM_TEST_FLAG_USE_WRITE | PIN_LONGTERM_TEST_FLAG_USE_FAST,
	};
	int fd = open("/sys/kernel/debug/gup_test", O_RDWR);

	return fd < 0 ? -1 : ioctl(fd, PIN_LONGTERM_TEST_START, &args);
}

static int pin_register(char *buf)
{
	struct io_uring_params params = { 0 };
	struct iovec iov = { buf, PAGES * PAGE };
	int fd = syscall(__NR_io_uring_setup, 4, &params);

	return fd < 0 ? -1 :
	       syscall(__NR_io_uring_register, fd, IORING_REGISTER_BUFFERS, &iov, 1);
}

static int pin_vmsplice(char *buf)
{
	struct iovec iov = { buf, 16 * PAGE };
	int fds[2];

	return pipe(fds) ? -1 : vmsplice(fds[1], &iov, 1, 0) != 16 * (long)PAGE;
}

/* Pins and says how long it took. */
static int timed_pin(char *buf, unsigned long pages)
{
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	if (pin_longterm(buf, pages)) {
		perror("pins: cannot pin");
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("{\"pages\": %lu, \"ms\": %ld}\n", pages, (to.tv_sec - from.tv_sec) * 1000 +
	       (to.tv_nsec - from.tv_nsec) / 1000000);
	fflush(stdout);
	return 0;
}

/* Pages of a device stay where they are: the pin has to return, within the life of a test. */
static int pin_device(const char *file)
{
	int fd = open(file, O_RDWR);
	char *buf = mmap(NULL, 2UL << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (buf == MAP_FAILED) {
		perror(file);
		return 2;
	}
	buf[0] = 1;
	return timed_pin(buf, PAGES);
}

static int pin_bulk(unsigned long mib, unsigned int seconds)
{
	char *buf = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int ret;

	if (buf == MAP_FAILED) {
		perror("pins: mmap");
		return 2;
	}
	ret = timed_pin(buf, (mib << 20) / PAGE);
	sleep(ret ? 0 : seconds);
	return ret;
}

int main(int argc, char **argv)
{
	uint64_t border = argc == 3 ? strtoull(argv[2], NULL, 0) : 0;
	char *buf = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long pages = PAGES, was, is;
	int ret;

	if (argc == 3 && !strcmp(argv[1], "device"))
		return pin_device(argv[2]);
	if (argc == 4 && !strcmp(argv[1], "bulk"))
		return pin_bulk(strtoul(argv[2], NULL, 0), strtoul(argv[3], NULL, 0));
	if (!border || buf == MAP_FAILED) {
		fprintf(stderr, "usage: pins longterm|register|vmsplice BORDER_PFN, "
			"pins device FILE, or pins bulk MIB SECONDS\n");
		return 2;
	}
	memset(buf, 1, PAGES * PAGE);
	was = above(buf, PAGES, border);
	if (!strcmp(argv[1], "longterm")) {
		ret = pin_longterm(buf, PAGES);
	} else if (!strcmp(argv[1], "register")) {
		ret = pin_register(buf);
	} else {
		pages = 16;
		ret = pin_vmsplice(buf);
	}
	is = above(buf, pages, border);
	if (ret) {
		perror("pins: cannot pin");
		return 2;
	}
	printf("@@ note pins %s: %lu pages, %lu above the border before, %lu after\n",
	       argv[1], pages, was, is);
	return is ? 1 : 0;
}
