// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
/*
 * Sees which allocations spoil a pageblock that nothing unmovable was in.
 *
 * Two tracepoints (include/trace/events/kmem.h, 6.12 to 6.18). User space fills the table of
 * blocks from a scan; the first unmovable page in a block that was clean is an event with its
 * stack, later ones cost a look at the table. Movable requests leave at once.
 */
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static __u64 (*const clock_ns)(void) = (void *)5;
static __u64 (*const current_pid_tgid)(void) = (void *)14;
static long (*const current_comm)(void *to, __u32 bytes) = (void *)16;
static long (*const get_stack)(void *context, void *to, __u32 bytes, __u64 flags) = (void *)67;
static __u64 (*const current_cgroup)(void) = (void *)80;
static void *(*const ring_reserve)(void *ring, __u64 bytes, __u64 flags) = (void *)131;
static void (*const ring_submit)(void *data, __u64 flags) = (void *)132;

/* enum migratetype (include/linux/mmzone.h). */
#define MIGRATE_MOVABLE 1
#define PAGEBLOCK_ORDER 9
#define STACK_FRAMES 48

enum kind {
	/* The first unmovable page in a block that had none. */
	KIND_SPOILED,
	/* An unmovable request was served from the free lists of movable memory. */
	KIND_FALLBACK,
};

struct event {
	__u64 time_ns;
	__u64 pfn;
	__u64 cgroup;
	__u64 stack[STACK_FRAMES];
	__u32 frames;
	__u32 pid;
	__u32 gfp;
	__u8 kind;
	__u8 order;
	__u8 asked;
	__u8 unused;
	char comm[16];
};

/* A word a pageblock, by address: 1 when something unmovable is in it, or was since the scan. */
struct {
	__uint(type, 2); /* BPF_MAP_TYPE_ARRAY */
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1); /* set before loading */
} blocks SEC(".maps");

struct {
	__uint(type, 27); /* BPF_MAP_TYPE_RINGBUF */
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

/* Address of the struct page of frame 0, and its size. */
const volatile __u64 memory_map;
const volatile __u64 page_bytes = 64;
/* Events for which the ring had no room. */
__u64 lost;
/* Nothing is recorded before user space has filled the table. */
__u32 armed;

static void record(void *context, __u64 pfn, __u8 kind, __u32 order, __u32 gfp, __u32 asked)
{
	struct event *event = ring_reserve(&ring, sizeof(*event), 0);
	__u64 task = current_pid_tgid();
	long bytes;

	if (!event) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	event->time_ns = clock_ns();
	event->pfn = pfn;
	event->cgroup = current_cgroup();
	event->pid = task >> 32;
	event->gfp = gfp;
	event->kind = kind;
	event->order = order;
	event->asked = asked;
	event->unused = 0;
	current_comm(event->comm, sizeof(event->comm));
	bytes = get_stack(context, event->stack, sizeof(event->stack), 0);
	event->frames = bytes > 0 ? bytes / sizeof(__u64) : 0;
	ring_submit(event, 0);
}

static __u64 frame_number(__u64 page)
{
	return (page - memory_map) / page_bytes;
}

/* Arguments: page, order, gfp flags, migratetype asked for. */
SEC("raw_tp/mm_page_alloc")
int on_alloc(__u64 *arguments)
{
	__u64 page = arguments[0], *state, pfn;
	__u32 order = arguments[1], asked = arguments[3], block;

	if (asked == MIGRATE_MOVABLE || !page || !armed)
		return 0;
	pfn = frame_number(page);
	block = pfn >> PAGEBLOCK_ORDER;
	state = map_lookup(&blocks, &block);
	if (!state || *state)
		return 0;
	*state = 1;
	if (order > PAGEBLOCK_ORDER) {
		block++;
		state = map_lookup(&blocks, &block);
		if (state)
			*state = 1;
	}
	record(arguments, pfn, KIND_SPOILED, order, arguments[2], asked);
	return 0;
}

/* Arguments: page, order asked for, order taken, migratetype asked for, migratetype taken. */
SEC("raw_tp/mm_page_alloc_extfrag")
int on_fallback(__u64 *arguments)
{
	__u32 asked = arguments[3], taken = arguments[4];

	if (asked != MIGRATE_MOVABLE && taken == MIGRATE_MOVABLE && armed)
		record(arguments, frame_number(arguments[0]), KIND_FALLBACK, arguments[1], 0,
		       asked);
	return 0;
}

char licence_text[] SEC("license") = "Dual MIT/GPL";
