// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
/*
 * Counts what pages are allocated for, how many, and how long they live.
 *
 * Of each aligned group of 2^sample_shift frames one is followed, at a place that a hash of the
 * group picks: every block has the same chance by its first frame, whatever its order. The state
 * of a followed frame is one word: who holds it, and since when. Requests of one kind (flags,
 * order, migratetype) share a line of counters.
 */
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value,
				__u64 flags) = (void *)2;
static __u64 (*const clock_ns)(void) = (void *)5;

#define BPF_NOEXIST 1
#define STREAMS 1024
/* Lifetimes by powers of two of a millisecond: up to 1 ms, 2 ms, ... */
#define LIFETIMES 32
#define NS_PER_MS 1000000
/* A word of a followed frame: number of its stream plus one, and milliseconds since boot. */
#define STREAM_BITS 12
/* 2^64 divided by the golden ratio: spreads the numbers of groups. */
#define SPREAD 0x9e3779b97f4a7c15ull

struct kind {
	__u32 gfp;
	__u16 order;
	__u16 migratetype;
};

struct counts {
	__u64 allocated_pages;
	__u64 freed_pages;
	__u64 lifetimes[LIFETIMES];
};

struct {
	__uint(type, 1); /* BPF_MAP_TYPE_HASH */
	__type(key, struct kind);
	__type(value, __u32);
	__uint(max_entries, STREAMS);
} kinds SEC(".maps");

struct {
	__uint(type, 2); /* BPF_MAP_TYPE_ARRAY */
	__type(key, __u32);
	__type(value, struct counts);
	__uint(max_entries, STREAMS);
} counters SEC(".maps");

struct {
	__uint(type, 2); /* BPF_MAP_TYPE_ARRAY */
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1); /* set before loading */
} frames SEC(".maps");

const volatile __u64 memory_map;
const volatile __u64 page_bytes = 64;
const volatile __u32 sample_shift = 4;
/* The next stream; those before belong to pages that were there at the beginning. */
__u32 next_stream;
/* Requests of a kind for which there was no stream left. */
__u64 lost;
__u32 armed;

/* The word of the block that begins with a page, if it is followed. */
static __u64 *followed(__u64 page)
{
	__u64 pfn = (page - memory_map) / page_bytes;
	__u32 shift = sample_shift & 31, group;

	if (!page || !armed)
		return 0;
	group = pfn >> shift;
	if (shift && (pfn & ((1ull << shift) - 1)) != (group * SPREAD) >> (64 - shift))
		return 0;
	return map_lookup(&frames, &group);
}

/* The number of the stream of a kind of request, new if need be; STREAMS when none is left. */
static __u32 stream_of(struct kind *kind)
{
	__u32 *known = map_lookup(&kinds, kind), stream;

	if (known)
		return *known;
	if (next_stream >= STREAMS)
		return STREAMS;
	stream = __sync_fetch_and_add(&next_stream, 1);
	if (stream >= STREAMS || map_update(&kinds, kind, &stream, BPF_NOEXIST)) {
		/* Full, or another CPU was first. */
		known = map_lookup(&kinds, kind);
		return known ? *known : STREAMS;
	}
	return stream;
}

/* Arguments: page, order, gfp flags, migratetype asked for. */
SEC("raw_tp/mm_page_alloc")
int on_alloc(__u64 *arguments)
{
	__u64 *word = followed(arguments[0]);
	struct kind kind = {
		.gfp = arguments[2],
		.order = arguments[1],
		.migratetype = arguments[3],
	};
	struct counts *counts;
	__u32 stream;

	if (!word)
		return 0;
	stream = stream_of(&kind);
	counts = map_lookup(&counters, &stream);
	if (!counts) {
		__sync_fetch_and_add(&lost, 1);
		*word = 0;
		return 0;
	}
	__sync_fetch_and_add(&counts->allocated_pages, 1ull << (kind.order & 15));
	*word = (clock_ns() / NS_PER_MS) << STREAM_BITS | (stream + 1);
	return 0;
}

static __u32 log2_of(__u64 value)
{
	__u32 log = 0;

	for (__u32 step = 16; step; step /= 2)
		if (value >> step) {
			value >>= step;
			log += step;
		}
	return log;
}

/* Arguments: page, order. */
SEC("raw_tp/mm_page_free")
int on_free(__u64 *arguments)
{
	__u64 *word = followed(arguments[0]), was, lived, pages = 1ull << (arguments[1] & 15);
	struct counts *counts;
	__u32 stream, bucket = 0;

	if (!word || !*word)
		return 0;
	was = *word;
	*word = 0;
	stream = (was & ((1 << STREAM_BITS) - 1)) - 1;
	counts = map_lookup(&counters, &stream);
	if (!counts)
		return 0;
	__sync_fetch_and_add(&counts->freed_pages, pages);
	lived = clock_ns() / NS_PER_MS - (was >> STREAM_BITS);
	if (lived)
		bucket = log2_of(lived & 0xffffffff) + 1;
	if (bucket < LIFETIMES)
		__sync_fetch_and_add(&counts->lifetimes[bucket], pages);
	return 0;
}

char licence_text[] SEC("license") = "Dual MIT/GPL";
