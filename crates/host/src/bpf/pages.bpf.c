// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
/*
 * Copies struct page in bulk to user space, and says where its fields lie.
 *
 * All programs are of the type "syscall": they run once, when user space asks, in its context.
 * Nothing is attached and nothing is written outside the global variables below, which user
 * space maps. Kernel types are declared with the fields in use only; CO-RE finds the offsets in
 * the BTF of the running kernel.
 */
typedef unsigned int __u32;
typedef unsigned long long __u64;

#define SEC(name) __attribute__((section(name), used))
#define CORE __attribute__((preserve_access_index))

static long (*const probe_read)(void *to, __u32 bytes, const void *from) = (void *)113;
static __u64 (*const current_task)(void) = (void *)35;
static long (*const loop)(__u32 times, void *body, void *context, __u64 flags) = (void *)181;

/* Kinds of __builtin_preserve_field_info, _type_info and _enum_value (LLVM). */
#define OFFSET(type, field) __builtin_preserve_field_info(((type *)0)->field, 0)
#define EXISTS(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)
#define SIZE(type) __builtin_preserve_type_info(*(type *)0, 1)
#define VALUE(type, name) __builtin_preserve_enum_value(*(type *)name, 1)
#define HAS_VALUE(type, name) __builtin_preserve_enum_value(*(type *)name, 0)

/* Written to fields that this kernel does not have. */
#define ABSENT 0xffffffffu

typedef struct {
	int counter;
} atomic_t;

struct list_head {
	struct list_head *next, *prev;
};

struct address_space;
struct page_pool;

struct page {
	struct list_head lru;
	struct address_space *mapping;
	unsigned long private;
	unsigned int page_type;
	atomic_t _mapcount;
	atomic_t _refcount;
	unsigned long compound_head;
	struct page_pool *pp;
	unsigned long memcg_data;
} CORE;

struct folio {
	atomic_t _pincount;
} CORE;

struct kmem_cache {
	unsigned int flags;
} CORE;

struct slab {
	struct kmem_cache *slab_cache;
} CORE;

struct xarray {
	void *xa_head;
} CORE;

struct address_space {
	struct xarray i_pages;
} CORE;

struct file {
	struct address_space *f_mapping;
} CORE;

struct fdtable {
	struct file **fd;
} CORE;

struct files_struct {
	struct fdtable *fdt;
} CORE;

struct task_struct {
	struct files_struct *files;
} CORE;

/* Values are those of the running kernel, whatever stands here. */
enum pageflags {
	PG_lru = 1,
	PG_head,
	PG_reserved,
	PG_swapbacked,
	PG_unevictable,
	PG_mlocked,
	PG_hwpoison,
};

/* Since 6.12 the highest byte of page_type; before, a set of inverted bits. */
enum pagetype {
	PGTY_buddy = 1,
	PGTY_offline,
	PGTY_table,
	PGTY_hugetlb,
	PGTY_slab,
	PGTY_zsmalloc,
	PGTY_unaccepted,
	PGTY_large_kmalloc,
};

enum _slab_flag_bits {
	_SLAB_RECLAIM_ACCOUNT = 1,
};

struct mem_section_usage {
	unsigned long pageblock_flags[0];
} CORE;

struct mem_section {
	struct mem_section_usage *usage;
} CORE;

enum migratetype {
	MIGRATE_HIGHATOMIC = 1,
	MIGRATE_CMA,
	MIGRATE_ISOLATE,
};

enum cgroup_subsys_id {
	memory_cgrp_id = 1,
};

/* The second name is that of kernels that round the first up to a power of two (6.17). */
enum pageblock_bits {
	NR_PAGEBLOCK_BITS = 1,
	__NR_PAGEBLOCK_BITS,
};

/* Offsets in bytes, numbers of flag bits, values of page types. */
struct layout {
	__u32 page_bytes;
	__u32 compound_head;
	__u32 mapping;
	__u32 private;
	__u32 page_type;
	__u32 mapcount;
	__u32 refcount;
	__u32 memcg_data;
	__u32 pincount;
	__u32 slab_cache;
	__u32 cache_flags;
	__u32 slab_reclaim_bit;
	__u32 lru_bit;
	__u32 head_bit;
	__u32 reserved_bit;
	__u32 swapbacked_bit;
	__u32 unevictable_bit;
	__u32 mlocked_bit;
	__u32 hwpoison_bit;
	__u32 type_buddy;
	__u32 type_offline;
	__u32 type_table;
	__u32 type_hugetlb;
	__u32 type_slab;
	__u32 type_zsmalloc;
	__u32 type_unaccepted;
	__u32 type_large_kmalloc;
	__u32 section_bytes;
	__u32 section_usage;
	__u32 usage_flags;
	__u32 pageblock_bits;
	__u32 migrate_highatomic;
	__u32 migrate_cma;
	__u32 migrate_isolate;
	__u32 page_pool;
	__u32 memory_controller;
};

#define BUFFER_BYTES (1 << 20)

struct layout layout;
/* Request of copy: kernel address and length. Request of find_page: the descriptor. */
__u64 address;
__u32 bytes;
__u32 descriptor;
/*
 * Answer of find_page: address of the struct page of the file's first page, or 0; of find_task:
 * address of the current task.
 */
__u64 found;
/* Answer of peek. */
__u32 peeked;
/* Request of gather: addresses, how many, and the length of what lies at each. */
#define MAX_ADDRESSES 16384
#define MAX_STRIDE 4096
__u64 addresses[MAX_ADDRESSES];
__u32 address_count;
__u32 stride;
/* Answer of copy and gather. */
__u64 buffer[BUFFER_BYTES / sizeof(__u64)];

#define PAGE_TYPE(name) (HAS_VALUE(enum pagetype, name) ? VALUE(enum pagetype, name) : ABSENT)
#define PAGE_FLAG(name) (HAS_VALUE(enum pageflags, name) ? VALUE(enum pageflags, name) : ABSENT)
#define MIGRATE(name) (HAS_VALUE(enum migratetype, name) ? VALUE(enum migratetype, name) : ABSENT)
#define FIELD(type, field) (EXISTS(type, field) ? OFFSET(type, field) : ABSENT)

SEC("syscall")
int describe(void *context)
{
	layout.page_bytes = SIZE(struct page);
	layout.compound_head = FIELD(struct page, compound_head);
	layout.mapping = FIELD(struct page, mapping);
	layout.private = FIELD(struct page, private);
	layout.page_type = FIELD(struct page, page_type);
	layout.mapcount = FIELD(struct page, _mapcount);
	layout.refcount = FIELD(struct page, _refcount);
	layout.memcg_data = FIELD(struct page, memcg_data);
	layout.pincount = FIELD(struct folio, _pincount);
	layout.slab_cache = FIELD(struct slab, slab_cache);
	layout.cache_flags = FIELD(struct kmem_cache, flags);
	layout.slab_reclaim_bit = HAS_VALUE(enum _slab_flag_bits, _SLAB_RECLAIM_ACCOUNT) ?
		VALUE(enum _slab_flag_bits, _SLAB_RECLAIM_ACCOUNT) : ABSENT;
	layout.lru_bit = PAGE_FLAG(PG_lru);
	layout.head_bit = PAGE_FLAG(PG_head);
	layout.reserved_bit = PAGE_FLAG(PG_reserved);
	layout.swapbacked_bit = PAGE_FLAG(PG_swapbacked);
	layout.unevictable_bit = PAGE_FLAG(PG_unevictable);
	layout.mlocked_bit = PAGE_FLAG(PG_mlocked);
	layout.hwpoison_bit = PAGE_FLAG(PG_hwpoison);
	layout.type_buddy = PAGE_TYPE(PGTY_buddy);
	layout.type_offline = PAGE_TYPE(PGTY_offline);
	layout.type_table = PAGE_TYPE(PGTY_table);
	layout.type_hugetlb = PAGE_TYPE(PGTY_hugetlb);
	layout.type_slab = PAGE_TYPE(PGTY_slab);
	layout.type_zsmalloc = PAGE_TYPE(PGTY_zsmalloc);
	layout.type_unaccepted = PAGE_TYPE(PGTY_unaccepted);
	layout.type_large_kmalloc = PAGE_TYPE(PGTY_large_kmalloc);
	layout.section_bytes = SIZE(struct mem_section);
	layout.section_usage = FIELD(struct mem_section, usage);
	layout.usage_flags = FIELD(struct mem_section_usage, pageblock_flags);
	layout.pageblock_bits = HAS_VALUE(enum pageblock_bits, NR_PAGEBLOCK_BITS) ?
		VALUE(enum pageblock_bits, NR_PAGEBLOCK_BITS) :
		HAS_VALUE(enum pageblock_bits, __NR_PAGEBLOCK_BITS) ?
		VALUE(enum pageblock_bits, __NR_PAGEBLOCK_BITS) : ABSENT;
	layout.migrate_highatomic = MIGRATE(MIGRATE_HIGHATOMIC);
	layout.migrate_cma = MIGRATE(MIGRATE_CMA);
	layout.migrate_isolate = MIGRATE(MIGRATE_ISOLATE);
	layout.page_pool = FIELD(struct page, pp);
	layout.memory_controller = HAS_VALUE(enum cgroup_subsys_id, memory_cgrp_id) ?
		VALUE(enum cgroup_subsys_id, memory_cgrp_id) : ABSENT;
	return 0;
}

/* Reads the pointer in `field` of the kernel object at `object`, or leaves the program. */
#define FOLLOW(type, object, field)                                                    \
	({                                                                             \
		void *next = 0;                                                        \
		if (probe_read(&next, sizeof(next), &((type *)(object))->field) || !next) \
			return 1;                                                      \
		next;                                                                  \
	})

/*
 * A file of one page keeps that page directly at the head of its page cache: a struct page whose
 * frame number user space knows from its pagemap. That gives the base of the memory map without
 * any kernel symbol and whatever the address randomisation.
 */
SEC("syscall")
int find_page(void *context)
{
	void *task = (void *)current_task();
	void *files, *table, *slots, *file, *mapping, *head;

	found = 0;
	files = FOLLOW(struct task_struct, task, files);
	table = FOLLOW(struct files_struct, files, fdt);
	slots = FOLLOW(struct fdtable, table, fd);
	file = 0;
	if (probe_read(&file, sizeof(file), (void **)slots + descriptor) || !file)
		return 1;
	mapping = FOLLOW(struct file, file, f_mapping);
	head = FOLLOW(struct address_space, mapping, i_pages.xa_head);
	/* Tagged pointers are tree nodes or values: more, or other, than one page. */
	if ((__u64)head & 3)
		return 1;
	found = (__u64)head;
	return 0;
}

/* A task lies in the direct map of physical memory, which bounds where that map can begin. */
SEC("syscall")
int find_task(void *context)
{
	found = current_task();
	return 0;
}

SEC("syscall")
int copy(void *context)
{
	__u32 length = bytes;

	if (length > BUFFER_BYTES)
		return 1;
	return probe_read(buffer, length, (void *)address) != 0;
}

/* What lies at each address, one after the other; zeros where it cannot be read. */
static long gather_one(__u32 index, void *context)
{
	__u32 length = *(__u32 *)context;
	__u64 at = (__u64)index * length;

	if (index >= MAX_ADDRESSES || length > MAX_STRIDE || at > BUFFER_BYTES - MAX_STRIDE)
		return 1;
	probe_read((char *)buffer + at, length, (void *)addresses[index]);
	return 0;
}

SEC("syscall")
int gather(void *context)
{
	__u32 length = stride;

	return loop(address_count, gather_one, &length, 0) < 0;
}

/* One 32-bit value; apart from copy, so that the buffer keeps what it holds. */
SEC("syscall")
int peek(void *context)
{
	return probe_read(&peeked, sizeof(peeked), (void *)address) != 0;
}

char licence_text[] SEC("license") = "Dual MIT/GPL";
