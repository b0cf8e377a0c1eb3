// SPDX-License-Identifier: GPL-2.0-only
/*
 * Driver of the engine that "ample system engine" gives an emulated machine: it moves pages while
 * they are in use. ample_mover_file.c has what tests ask of it.
 *
 * The engine's registers are a ring of writes in memory of the device; docs/system.md has the
 * layout. A command waits for its record, whose tag says which it is.
 */
#include <linux/contiguitas.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/wait.h>
#include "ample_mover_engine.h"

#define MAGIC		0x3145564f4d504d41ULL	/* "AMPMOVE1" */
#define RING		1024
#define WRITES_AT	4096
#define RECORDS_AT	20480
#define DOORBELL_AT	12
#define ANSWER_WITHIN	(30 * HZ)

enum { INSTALL = 1, MIGRATE, CLEAR };
enum { INSTALLED = 1, COPIED, CLEARED, OVERLAP = 24, TABLE_FULL = 25, DROPPED = 26 };

struct pair {
	struct page *src, *dst;
	bool copied;
};

static struct {
	void __iomem *registers;
	u8 __iomem *shared;
	struct mutex submit;		/* the ring of writes */
	spinlock_t records;		/* that of records, and what they answered */
	wait_queue_head_t answered;
	bool interrupts;
	u32 tag;
	u64 written, read;
	int status[RING];		/* by tag; 0: none yet */
	struct mutex table;		/* what is installed */
	struct pair pairs[PAIRS];
	struct mover_counts counts;
} engine;

static bool idle;
module_param(idle, bool, 0400);
MODULE_PARM_DESC(idle, "drive nothing: pins alone, to see what there is without an engine");

static u64 word_at(unsigned int at) { return readq(engine.shared + at); }

/* Takes records in. */
static void drain(void)
{
	unsigned long flags;

	spin_lock_irqsave(&engine.records, flags);
	for (u64 done = word_at(128); engine.read < done; engine.read++) {
		u8 __iomem *record = engine.shared + RECORDS_AT + 32 * (engine.read % RING);

		engine.status[readl(record + 28) % RING] = readl(record + 24) + 1;
	}
	writeq(engine.read, engine.shared + 136);
	spin_unlock_irqrestore(&engine.records, flags);
}

static irqreturn_t on_interrupt(int irq, void *data)
{
	drain();
	wake_up_all(&engine.answered);
	return IRQ_HANDLED;
}

static void put_write(u32 reg, u32 tag, u64 value)
{
	u8 __iomem *place = engine.shared + WRITES_AT + 16 * (engine.written % RING);

	while (engine.written - word_at(72) >= RING)
		usleep_range(20, 100);
	writel(reg, place);
	writel(tag, place + 4);
	writeq(value, place + 8);
	writeq(++engine.written, engine.shared + 64);
}

static int answer(u32 tag)
{
	unsigned long until = jiffies + ANSWER_WITHIN;
	int status;

	while (!(status = READ_ONCE(engine.status[tag % RING]))) {
		if (time_after(jiffies, until))
			return -ETIMEDOUT;
		if (engine.interrupts)
			wait_event_timeout(engine.answered,
					   READ_ONCE(engine.status[tag % RING]), HZ / 10);
		else
			usleep_range(10, 40);
		drain();
	}
	return status - 1;
}

/* Rings for @many writes, of which the last is a doorbell; the status of its record. */
int mover_submit(const u64 (*list)[2], unsigned int many)
{
	u32 tag;

	mutex_lock(&engine.submit);
	tag = ++engine.tag;
	WRITE_ONCE(engine.status[tag % RING], 0);
	for (unsigned int i = 0; i < many; i++)
		put_write(list[i][0], tag, list[i][1]);
	writel(0, engine.registers + DOORBELL_AT);
	mutex_unlock(&engine.submit);
	return answer(tag);
}

/* A write of a register that is no doorbell. */
void mover_write(u32 reg, u64 value)
{
	mutex_lock(&engine.submit);
	put_write(reg, 0, value);
	mutex_unlock(&engine.submit);
}

const struct mover_counts *mover_counts(void)
{
	return &engine.counts;
}

static int command(struct page *src, struct page *dst, u64 what)
{
	const u64 list[][2] = {
		{ SOURCE, page_to_phys(src) }, { DESTINATION, page_to_phys(dst) }, { PAGES, 1 },
		{ DOORBELL, what },
	};
	int status;

	do {	/* what a reset dropped is asked for again */
		status = mover_submit(list, ARRAY_SIZE(list));
	} while (status == DROPPED);
	return status;
}

static struct pair *pair_of(struct page *src)
{
	for (int i = 0; i < PAIRS; i++)
		if (engine.pairs[i].src == src)
			return &engine.pairs[i];
	return NULL;
}

static int install(struct page *src, struct page *dst)
{
	struct pair *pair = pair_of(NULL);
	int status;

	if (!pair)
		return -ENOSPC;
	status = command(src, dst, INSTALL);
	if (status == INSTALLED) {
		*pair = (struct pair){ src, dst };
		engine.counts.installed++;
		return 0;
	}
	engine.counts.full += status == TABLE_FULL;
	engine.counts.refused += status != TABLE_FULL;
	return status == TABLE_FULL ? -ENOSPC : status == OVERLAP ? -EBUSY : -EIO;
}

/* Of pages that are not installed nobody is known who uses them. */
static int mover_migrate(struct page *src, struct page *dst, unsigned int flags)
{
	struct pair *pair;
	int ret = -EBUSY;

	mutex_lock(&engine.table);
	pair = pair_of(src);
	if (flags & CONTIGUITAS_HW_INSTALL) {
		if (!pair)
			ret = install(src, dst);
	} else if (pair && pair->copied) {
		ret = 0;
	} else if (pair) {
		pair->copied = command(src, dst, MIGRATE) == COPIED;
		engine.counts.copied += pair->copied;
		ret = pair->copied ? 0 : -EIO;
	}
	mutex_unlock(&engine.table);
	return ret;
}

static int mover_clear(struct page *src)
{
	struct pair *pair;
	int ret = -ENOENT;

	mutex_lock(&engine.table);
	pair = pair_of(src);
	if (pair) {
		ret = command(src, pair->dst, CLEAR) == CLEARED ? 0 : -EIO;
		if (!ret) {
			engine.counts.cleared++;
			pair->src = NULL;
		}
	}
	mutex_unlock(&engine.table);
	return ret;
}

static const struct contiguitas_hw_ops mover_ops = {
	.migrate = mover_migrate,
	.clear = mover_clear,
};

static int mover_probe(struct pci_dev *dev, const struct pci_device_id *id)
{
	int ret = pcim_enable_device(dev);

	if (ret)
		return ret;
	engine.registers = pcim_iomap(dev, 0, 0);
	engine.shared = pcim_iomap(dev, 2, 0);
	if (!engine.registers || !engine.shared)
		return -ENOMEM;
	if (word_at(0) != MAGIC || word_at(8) != 1 || word_at(40) != RING ||
	    word_at(48) != RING)
		return -ENODEV;	/* some other use of the same device */
	engine.counts.cacheable = word_at(16);
	engine.counts.table_entries = word_at(24);
	engine.written = word_at(64);
	engine.read = word_at(136);
	pci_set_master(dev);
	/* Kernels without MSI look again and again. */
	if (pci_alloc_irq_vectors(dev, 1, 1, PCI_IRQ_MSIX) == 1)
		engine.interrupts = !devm_request_irq(&dev->dev, pci_irq_vector(dev, 0),
						      on_interrupt, 0, "ample_mover", NULL);
	ret = mover_file_add();
	if (ret)
		return ret;
	ret = idle ? 0 : contiguitas_register_hw(&mover_ops);
	if (ret)
		mover_file_remove();
	return ret;
}

static void mover_remove(struct pci_dev *dev)
{
	if (!idle)
		contiguitas_unregister_hw(&mover_ops);
	mover_file_remove();
}

static const struct pci_device_id mover_ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_REDHAT_QUMRANET, 0x1110) },
	{}
};
MODULE_DEVICE_TABLE(pci, mover_ids);

static struct pci_driver mover_driver = {
	.name = "ample_mover",
	.id_table = mover_ids,
	.probe = mover_probe,
	.remove = mover_remove,
};

static int __init mover_init(void)
{
	mutex_init(&engine.submit);
	mutex_init(&engine.table);
	spin_lock_init(&engine.records);
	init_waitqueue_head(&engine.answered);
	return pci_register_driver(&mover_driver);
}

static void __exit mover_exit(void)
{
	pci_unregister_driver(&mover_driver);
}

module_init(mover_init);
module_exit(mover_exit);
MODULE_DESCRIPTION("Moves pages in use, with the engine of an emulated machine");
MODULE_LICENSE("GPL");
