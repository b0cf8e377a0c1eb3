/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A QEMU user-mode plugin (plugin API version 1, QEMU 7.2 and later) that sends every memory
 * access, every change of instruction line and every change of the address space to a Unix
 * socket.
 *
 * Build: gcc -O2 -fPIC -shared -o libample_plugin.so ample_plugin.c -lpthread
 * Use:   qemu-x86_64 -plugin libample_plugin.so,socket=PATH PROGRAM ARGUMENTS
 *
 * QEMU's plugin header is in no package, so the few declarations needed are repeated here. Each
 * virtual CPU fills a buffer of its own: a buffer shared by threads would lose records.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef uint64_t plugin_id;
typedef uint32_t meminfo;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id,
		void (*)(plugin_id, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *,
		void (*)(unsigned int, void *), int, void *);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
		void (*)(unsigned int, meminfo, uint64_t, void *), int, int, void *);
extern void qemu_plugin_register_vcpu_syscall_cb(plugin_id,
		void (*)(plugin_id, unsigned int, int64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			uint64_t, uint64_t, uint64_t, uint64_t));
extern void qemu_plugin_register_vcpu_syscall_ret_cb(plugin_id,
		void (*)(plugin_id, unsigned int, int64_t, int64_t));
extern void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern unsigned int qemu_plugin_mem_size_shift(meminfo);
extern int qemu_plugin_mem_is_store(meminfo);

/* As a symbol this is what QEMU checks before it calls qemu_plugin_install. */
__attribute__((visibility("default"))) int qemu_plugin_version = 1;

/*
 * A change of the address space takes two records: KIND_START with the address, then what
 * happened to how many bytes, with the rights in place of the gap.
 */
enum { KIND_LOAD, KIND_STORE, KIND_FETCH, KIND_START, KIND_MAPPED, KIND_UNMAPPED, KIND_PROTECTED };
enum { NO_REGISTERS = 0, READ_AND_WRITE = 3 };
/* Accesses of one instruction leave in one piece, unless it repeats itself beyond SPARE. */
enum { VCPUS = 1024, RECORDS = 8192, SPARE = 1024 };
/* x86-64 system call numbers. */
enum { SYS_MMAP = 9, SYS_MPROTECT = 10, SYS_MUNMAP = 11, SYS_BRK = 12, SYS_MREMAP = 25 };
/* Rights as in PROT_*, and beside them what the mapping is. */
enum { RIGHTS = 7, IS_ANONYMOUS = 8, IS_STACK = 16 };
enum { FLAG_ANONYMOUS = 0x20, FLAG_STACK = 0x20000 };

struct record {
	uint64_t va;
	uint16_t gap;
	uint8_t kind;
	uint8_t size_shift;
	uint16_t vcpu;
	uint16_t joined;	/* 1: of the instruction of the access before */
};

struct block {
	uint64_t vaddr;
	uint32_t insns;
};

struct vcpu {
	uint64_t base;		/* instructions before the running block */
	uint32_t insns;		/* instructions of the running block */
	uint64_t last;		/* number of the last instruction with an access */
	uint64_t line;		/* line of the last fetch */
	uint64_t args[4];	/* of the system call under way */
	uint64_t brk;
	uint32_t used;
	struct record records[RECORDS];
};

static struct vcpu *vcpus[VCPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int out = -1;
static volatile int stopped;

static struct vcpu *get(unsigned int index)
{
	struct vcpu *v = vcpus[index % VCPUS];

	if (!v) {
		v = calloc(1, sizeof(*v));
		if (!v)
			abort();
		v->line = UINT64_MAX;
		vcpus[index % VCPUS] = v;
	}
	return v;
}

static void flush(struct vcpu *v)
{
	const char *at = (const char *)v->records;
	size_t left = v->used * sizeof(struct record);

	pthread_mutex_lock(&lock);
	while (left > 0 && !stopped) {
		ssize_t sent = send(out, at, left, MSG_NOSIGNAL);

		if (sent <= 0) {
			/* The reader has enough; the program runs on undisturbed. */
			stopped = 1;
			break;
		}
		at += sent;
		left -= (size_t)sent;
	}
	pthread_mutex_unlock(&lock);
	v->used = 0;
}

static struct record *put(struct vcpu *v, unsigned int index, uint64_t va, uint64_t gap, int kind,
		int shift)
{
	struct record *r;

	if (v->used == RECORDS)
		flush(v);
	r = &v->records[v->used++];
	r->va = va;
	r->gap = gap > UINT16_MAX ? UINT16_MAX : (uint16_t)gap;
	r->kind = (uint8_t)kind;
	r->size_shift = (uint8_t)shift;
	r->vcpu = (uint16_t)index;
	r->joined = 0;
	return r;
}

static void on_block(unsigned int index, void *data)
{
	const struct block *b = data;
	struct vcpu *v = get(index);
	uint64_t line = b->vaddr >> 6;

	v->base += v->insns;
	v->insns = b->insns;
	if (stopped || line == v->line)
		return;
	v->line = line;
	put(v, index, line << 6, 0, KIND_FETCH, 6);
}

static void on_access(unsigned int index, meminfo info, uint64_t va, void *data)
{
	struct vcpu *v = get(index);
	uint64_t number = v->base + (uintptr_t)data + 1;
	uint64_t gap = number > v->last ? number - v->last - 1 : 0;
	int joined = number == v->last;
	struct record *r;

	if (stopped)
		return;
	v->last = number;
	if (!joined && v->used > RECORDS - SPARE)
		flush(v);
	r = put(v, index, va, gap, qemu_plugin_mem_is_store(info) ? KIND_STORE : KIND_LOAD,
		(int)qemu_plugin_mem_size_shift(info));
	/* What begins a piece follows another virtual CPU's access. */
	r->joined = joined && v->used > 1;
}

static void on_translate(plugin_id id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	struct block *b = malloc(sizeof(*b));

	(void)id;
	if (!b)
		abort();
	b->vaddr = qemu_plugin_tb_vaddr(tb);
	b->insns = (uint32_t)count;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, NO_REGISTERS, b);
	for (size_t i = 0; i < count; i++)
		qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), on_access,
				NO_REGISTERS, READ_AND_WRITE, (void *)(uintptr_t)i);
}

static void on_syscall(plugin_id id, unsigned int index, int64_t number, uint64_t a1, uint64_t a2,
		uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
	struct vcpu *v = get(index);

	(void)id, (void)number, (void)a5, (void)a6, (void)a7, (void)a8;
	v->args[0] = a1;
	v->args[1] = a2;
	v->args[2] = a3;
	v->args[3] = a4;
}

/* Both records of a change leave in one piece: other virtual CPUs' may not come between. */
static void put_change(struct vcpu *v, unsigned int index, int kind, uint64_t start,
		uint64_t length, uint64_t rights)
{
	if (length == 0)
		return;
	if (v->used + 2 > RECORDS)
		flush(v);
	put(v, index, start, 0, KIND_START, 0);
	put(v, index, length, rights, kind, 0);
}

static void on_brk(struct vcpu *v, unsigned int index, uint64_t now)
{
	uint64_t old = v->brk;

	v->brk = now;
	if (old == 0)
		return;
	if (now >= old)
		put_change(v, index, KIND_MAPPED, old, now - old, 3 | IS_ANONYMOUS);
	else
		put_change(v, index, KIND_UNMAPPED, now, old - now, 0);
}

static uint64_t rights_of(uint64_t prot, uint64_t flags)
{
	return (prot & RIGHTS) | (flags & FLAG_ANONYMOUS ? IS_ANONYMOUS : 0) |
	       (flags & FLAG_STACK ? IS_STACK : 0);
}

static void on_syscall_ret(plugin_id id, unsigned int index, int64_t number, int64_t result)
{
	struct vcpu *v = get(index);
	uint64_t start = (uint64_t)result;
	const uint64_t *a = v->args;

	(void)id;
	if (stopped || (result < 0 && result > -4096))
		return;
	switch (number) {
	case SYS_BRK:
		on_brk(v, index, start);
		break;
	case SYS_MMAP:
		put_change(v, index, KIND_MAPPED, start, a[1], rights_of(a[2], a[3]));
		break;
	case SYS_MREMAP:
		put_change(v, index, KIND_UNMAPPED, a[0], a[1], 0);
		put_change(v, index, KIND_MAPPED, start, a[2], 3 | IS_ANONYMOUS);
		break;
	case SYS_MUNMAP:
		put_change(v, index, KIND_UNMAPPED, a[0], a[1], 0);
		break;
	case SYS_MPROTECT:
		put_change(v, index, KIND_PROTECTED, a[0], a[1], rights_of(a[2], 0));
		break;
	default:
		break;
	}
}

static void on_end(plugin_id id, void *data)
{
	(void)id, (void)data;
	for (int i = 0; i < VCPUS; i++)
		if (vcpus[i] && vcpus[i]->used)
			flush(vcpus[i]);
	close(out);
}

__attribute__((visibility("default")))
int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = NULL;

	(void)info;
	for (int i = 0; i < argc; i++)
		if (strncmp(argv[i], "socket=", 7) == 0)
			path = argv[i] + 7;
	if (!path || strlen(path) >= sizeof(address.sun_path)) {
		fprintf(stderr, "ample_plugin: give socket=PATH, at most %zu bytes\n",
			sizeof(address.sun_path) - 1);
		return -1;
	}
	strcpy(address.sun_path, path);
	out = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (out < 0 || connect(out, (struct sockaddr *)&address, sizeof(address)) < 0) {
		perror("ample_plugin: connecting to the recorder");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
	qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_ret);
	qemu_plugin_register_atexit_cb(id, on_end, NULL);
	return 0;
}
