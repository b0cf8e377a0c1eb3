// SPDX-License-Identifier: GPL-2.0-only
/*
 * A kernel that behaves as badly as it may: test load for the guest only.
 *
 * debugfs ample_hostile/
 *   fragment  write N: allocate N MiB of order-0 kernel pages, keep two in
 *             each 2 MiB block they came from, free the rest
 *   hold      write N: allocate N MiB of order-0 kernel pages and keep them
 *   release   write anything: free all pages kept
 *   storm     write N: allocate N MiB with GFP_ATOMIC in softirq context,
 *             as fast as it goes, then free them; read: how that went
 *   drain     write N: empty the per-CPU free lists of all zones below pfn N
 *   pairs     write N: N times allocate and free one page, then the same in
 *             batches of 512, which go through the free lists; time both
 *   ask       write "KIND ORDER N": N times ask for pages that are freed at once, KIND being
 *             kernel, noretry, nofs or noio; how many came, the longest wait
 *   blocks    read: 2 MiB blocks, and those with a page that is neither free, on a CPU's list too,
 *             nor of a user or a file (what /proc/kpageflags does not tell from the kernel's)
 *   compaction  read: what each zone remembers of compactions that failed: the least order that
 *             did, requests that passed since, 2^n of which pass without another; where the
 *             scanners stopped; blocks that they pass over, four a digit, the first of four lowest
 *   stats     read: pages kept, failures, times
 */
#include <linux/debugfs.h>
#include <linux/hashtable.h>
#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

/* Releases before 6.17 take the migratetype of the range instead of flags. */
#ifndef ACR_FLAGS_NONE
#define ACR_FLAGS_NONE MIGRATE_MOVABLE
#endif

/* and have another name for the bit of a block that compaction passes over */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#define PB_compact_skip PB_migrate_skip
#endif

#define PAGES_PER_MIB	(SZ_1M >> PAGE_SHIFT)
#define BLOCK_ORDER	9
#define KEEP_PER_BLOCK	2

static LIST_HEAD(kept);
static unsigned long nr_kept, nr_failed;
static DEFINE_MUTEX(lock);
static struct dentry *dir;

static struct {
	unsigned long want, got, failed;
	u64 ns;
	struct list_head pages;
	struct completion done;
} storm;

static int read_mib(const char __user *ubuf, size_t len, unsigned long *pages)
{
	unsigned long mib;
	int ret = kstrtoul_from_user(ubuf, len, 0, &mib);

	if (ret)
		return ret;
	*pages = mib * PAGES_PER_MIB;
	return 0;
}

static unsigned long take(struct list_head *to, unsigned long pages)
{
	unsigned long got;

	for (got = 0; got < pages; got++) {
		struct page *page = alloc_page(GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);

		if (!page || fatal_signal_pending(current)) {
			nr_failed++;
			break;
		}
		list_add_tail(&page->lru, to);
		cond_resched();
	}
	return got;
}

static ssize_t fragment_write(struct file *f, const char __user *ubuf, size_t len, loff_t *pos)
{
	unsigned long pages, max_block = 0;
	struct page *page, *next;
	LIST_HEAD(got);
	u8 *per_block;
	int ret = read_mib(ubuf, len, &pages);

	if (ret)
		return ret;
	mutex_lock(&lock);
	take(&got, pages);
	list_for_each_entry(page, &got, lru)
		max_block = max(max_block, page_to_pfn(page) >> BLOCK_ORDER);
	per_block = vzalloc(max_block + 1);
	list_for_each_entry_safe(page, next, &got, lru) {
		unsigned long block = page_to_pfn(page) >> BLOCK_ORDER;

		list_del(&page->lru);
		if (per_block && per_block[block] < KEEP_PER_BLOCK) {
			per_block[block]++;
			list_add(&page->lru, &kept);
			nr_kept++;
		} else {
			__free_page(page);
		}
	}
	vfree(per_block);
	mutex_unlock(&lock);
	return len;
}

static ssize_t hold_write(struct file *f, const char __user *ubuf, size_t len, loff_t *pos)
{
	unsigned long pages;
	int ret = read_mib(ubuf, len, &pages);

	if (ret)
		return ret;
	mutex_lock(&lock);
	nr_kept += take(&kept, pages);
	mutex_unlock(&lock);
	return len;
}

static void release_all(void)
{
	struct page *page, *next;

	mutex_lock(&lock);
	list_for_each_entry_safe(page, next, &kept, lru) {
		list_del(&page->lru);
		__free_page(page);
		cond_resched();
	}
	nr_kept = 0;
	mutex_unlock(&lock);
}

static ssize_t release_write(struct file *f, const char __user *ubuf, size_t len, loff_t *pos)
{
	release_all();
	return len;
}

static void storm_fn(struct tasklet_struct *t)
{
	u64 start = ktime_get_ns();
	unsigned int burst;

	for (burst = 0; burst < 512 && storm.got + storm.failed < storm.want; burst++) {
		struct page *page = alloc_page(GFP_ATOMIC | __GFP_NOWARN);

		if (page) {
			list_add(&page->lru, &storm.pages);
			storm.got++;
		} else {
			storm.failed++;
		}
	}
	storm.ns += ktime_get_ns() - start;
	if (storm.got + storm.failed < storm.want)
		tasklet_schedule(t);
	else
		complete(&storm.done);
}
static DECLARE_TASKLET(storm_tasklet, storm_fn);

static ssize_t storm_write(struct file *f, const char __user *ubuf, size_t len, loff_t *pos)
{
	struct page *page, *next;
	unsigned long pages;
	int ret = read_mib(ubuf, len, &pages);

	if (ret)
		return ret;
	mutex_lock(&lock);
	storm.want = pages;
	storm.got = 0;
	storm.failed = 0;
	storm.ns = 0;
	INIT_LIST_HEAD(&storm.pages);
	init_completion(&storm.done);
	tasklet_schedule(&storm_tasklet);
	wait_for_completion(&storm.done);
	list_for_each_entry_safe(page, next, &storm.pages, lru)
		__free_page(page);
	mutex_unlock(&lock);
	return len;
}

/*
 * Nothing exported drains the per-CPU lists, but alloc_contig_range() does it
 * for the zone it works in: let it take a free block and give it back.
 */
static ssize_t drain_write(struct file *f, const char __user *ubuf, size_t len, loff_t *pos)
{
	struct zone *drained = NULL;
	unsigned long pfn, block = 1UL << BLOCK_ORDER;
	int ret = kstrtoul_from_user(ubuf, len, 0, &pfn);

	if (ret)
		return ret;
	for (pfn = ALIGN_DOWN(pfn, block); pfn >= block; pfn -= block) {
		struct page *page = pfn_to_online_page(pfn - block);

		if (!page || page_zone(page) == drained || !PageBuddy(page))
			continue;
		if (alloc_contig_range(pfn - block, pfn, ACR_FLAGS_NONE, GFP_KERNEL))
			continue;
		free_contig_range(pfn - block, block);
		drained = page_zone(page);
	}
	return len;
}

static u64 pair_ns, batch_ns;
static unsigned long nr_pairs;

static ssize_t pairs_write(struct file *f, const char __user *ubuf, size_t len, loff_t *pos)
{
	static struct page *batch[512];
	unsigned long i, j;
	u64 start;
	int ret = kstrtoul_from_user(ubuf, len, 0, &nr_pairs);

	if (ret)
		return ret;
	start = ktime_get_ns();
	for (i = 0; i < nr_pairs; i++) {
		struct page *page = alloc_page(GFP_KERNEL);

		if (page)
			__free_page(page);
	}
	pair_ns = ktime_get_ns() - start;
	start = ktime_get_ns();
	for (i = 0; i < nr_pairs / 512; i++) {
		for (j = 0; j < 512; j++)
			batch[j] = alloc_page(GFP_KERNEL);
		for (j = 0; j < 512; j++)
			if (batch[j])
				__free_page(batch[j]);
	}
	batch_ns = ktime_get_ns() - start;
	return len;
}

static unsigned long asked_got;
static u64 asked_longest_ns;

static ssize_t ask_write(struct file *f, const char __user *ubuf, size_t len, loff_t *pos)
{
	static const struct { const char *name; gfp_t gfp; } kinds[] = {
		{ "kernel", GFP_KERNEL },
		{ "noretry", GFP_KERNEL | __GFP_NORETRY },
		{ "nofs", GFP_NOFS | __GFP_RETRY_MAYFAIL },
		{ "noio", GFP_NOIO | __GFP_RETRY_MAYFAIL },
	};
	unsigned int order, n, kind;
	char buf[64] = "", name[16];

	if (len >= sizeof(buf) || copy_from_user(buf, ubuf, len))
		return -EINVAL;
	if (sscanf(buf, "%15s %u %u", name, &order, &n) != 3 || order > MAX_PAGE_ORDER)
		return -EINVAL;
	for (kind = 0; kind < ARRAY_SIZE(kinds) && strcmp(name, kinds[kind].name); kind++)
		;
	if (kind == ARRAY_SIZE(kinds))
		return -EINVAL;
	mutex_lock(&lock);
	for (asked_got = asked_longest_ns = 0; n-- && !fatal_signal_pending(current);) {
		u64 start = ktime_get_ns();
		struct page *page = alloc_pages(kinds[kind].gfp | __GFP_NOWARN, order);

		asked_longest_ns = max(asked_longest_ns, ktime_get_ns() - start);
		asked_got += page != NULL;
		if (page)
			__free_pages(page, order);
	}
	mutex_unlock(&lock);
	return len;
}

static bool is_unmovable(struct page *page)
{
	struct folio *folio = page_folio(page);

	if (PageReserved(page))
		return true;
	if (page_has_type(&folio->page))
		return !PageHuge(&folio->page);
	return folio_ref_count(folio) && !folio_test_lru(folio) && !folio_test_anon(folio) &&
	       !folio->mapping;
}

static int blocks_show(struct seq_file *m, void *v)
{
	unsigned long pfn, present, unmovable, blocks = 0, spoiled = 0;
	int nid;

	for_each_online_node(nid) {
		present = unmovable = 0;
		for (pfn = node_start_pfn(nid); pfn < node_end_pfn(nid); pfn++) {
			struct page *page = pfn_to_online_page(pfn);

			if (pfn % (1UL << BLOCK_ORDER) == 0) {
				blocks += present != 0;
				spoiled += unmovable != 0;
				present = unmovable = 0;
				cond_resched();
			}
			if (!page)
				continue;
			present++;
			/* it may be taken meanwhile, and its order be gone */
			if (PageBuddy(page))
				pfn += (1UL << min_t(unsigned long, page_private(page), BLOCK_ORDER)) - 1;
			else
				unmovable += is_unmovable(page);
		}
		blocks += present != 0;
		spoiled += unmovable != 0;
	}
	seq_printf(m, "{\"blocks\": %lu, \"unmovable_blocks\": %lu}\n", blocks, spoiled);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(blocks);

/* get_pageblock_skip(), which modules cannot call. */
static bool is_skipped(unsigned long pfn)
{
	unsigned long block = (pfn & (PAGES_PER_SECTION - 1)) >> pageblock_order;

	return pfn_valid(pfn) && test_bit(block * NR_PAGEBLOCK_BITS + PB_compact_skip,
					  section_to_usemap(__pfn_to_section(pfn)));
}

static void show_compaction(struct seq_file *m, struct zone *zone)
{
	unsigned long pfn = ALIGN_DOWN(zone->zone_start_pfn, 4 * pageblock_nr_pages);
	unsigned int four, i;

	seq_printf(m, "{\"zone\": \"%s\", \"order_failed\": %d, \"considered\": %u, \"defer_shift\": %u, \"migrate_pfn\": %lu, \"free_pfn\": %lu, \"skip_pfn\": %lu, \"skipped\": \"",
		   zone->name, zone->compact_order_failed, zone->compact_considered,
		   zone->compact_defer_shift, zone->compact_cached_migrate_pfn[1],
		   zone->compact_cached_free_pfn, pfn);
	while (pfn < zone_end_pfn(zone)) {
		for (four = i = 0; i < 4; i++, pfn += pageblock_nr_pages)
			four |= is_skipped(pfn) << i;
		seq_printf(m, "%x", four);
	}
	seq_puts(m, "\"}\n");
}

static int compaction_show(struct seq_file *m, void *v)
{
	struct zone *zone;
	int nid;

	for_each_online_node(nid)
		for (zone = NODE_DATA(nid)->node_zones;
		     zone < NODE_DATA(nid)->node_zones + MAX_NR_ZONES; zone++)
			if (populated_zone(zone))
				show_compaction(m, zone);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(compaction);

static int stats_show(struct seq_file *m, void *v)
{
	seq_printf(m, "{\"pairs\": %lu, \"pair_ns\": %llu, \"batch_ns\": %llu, \"kept_pages\": %lu, \"failed\": %lu, \"storm_want_pages\": %lu, \"storm_got_pages\": %lu, \"storm_failed\": %lu, \"storm_ns\": %llu, \"asked_got\": %lu, \"asked_longest_ns\": %llu}\n",
		   nr_pairs, pair_ns, batch_ns, nr_kept, nr_failed, storm.want, storm.got, storm.failed, storm.ns,
		   asked_got, asked_longest_ns);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

#define WRITE_ONLY(name)							\
	static const struct file_operations name##_fops = {			\
		.owner = THIS_MODULE, .open = simple_open, .write = name##_write, \
	}
WRITE_ONLY(fragment);
WRITE_ONLY(hold);
WRITE_ONLY(release);
WRITE_ONLY(storm);
WRITE_ONLY(drain);
WRITE_ONLY(pairs);
WRITE_ONLY(ask);

static int __init hostile_init(void)
{
	dir = debugfs_create_dir("ample_hostile", NULL);
	debugfs_create_file("fragment", 0200, dir, NULL, &fragment_fops);
	debugfs_create_file("hold", 0200, dir, NULL, &hold_fops);
	debugfs_create_file("release", 0200, dir, NULL, &release_fops);
	debugfs_create_file("storm", 0200, dir, NULL, &storm_fops);
	debugfs_create_file("drain", 0200, dir, NULL, &drain_fops);
	debugfs_create_file("pairs", 0200, dir, NULL, &pairs_fops);
	debugfs_create_file("ask", 0200, dir, NULL, &ask_fops);
	debugfs_create_file("blocks", 0400, dir, NULL, &blocks_fops);
	debugfs_create_file("compaction", 0400, dir, NULL, &compaction_fops);
	debugfs_create_file("stats", 0400, dir, NULL, &stats_fops);
	return 0;
}

static void __exit hostile_exit(void)
{
	debugfs_remove_recursive(dir);
	release_all();
}

module_init(hostile_init);
module_exit(hostile_exit);
MODULE_DESCRIPTION("Leaves kernel pages where they hurt most");
MODULE_LICENSE("GPL");
