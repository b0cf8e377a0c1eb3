// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/ample_mover, for tests (ample_mover.h): it moves pages of the caller, and pins some for a
 * device that works on them by their physical addresses, as one for RDMA does.
 */
#include <linux/contiguitas.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include "ample_mover_engine.h"

/* A device with pages of a program. */
struct holder {
	struct contiguitas_owner owner;
	struct rw_semaphore busy;	/* read while it works on a page; write to change pages */
	struct mutex lock;		/* of the file's calls */
	struct task_struct *worker;
	struct page **pages, *few[16];	/* the latter for as many: no memory of the kernel beside */
	u64 *added;			/* 256 words a page */
	u64 bursts, told;
	u32 nr;
	bool stay;
};

/* Bursts under one name of a page, as a device has several operations on their way. */
static int work(void *data)
{
	struct holder *h = data;

	while (!kthread_should_stop()) {
		u32 i = get_random_u32_below(h->nr);
		atomic64_t *words;

		down_read(&h->busy);
		words = (atomic64_t *)page_address(h->pages[i]) + 256;
		for (int n = 0; n < 64; n++) {
			u32 w = get_random_u32_below(256);

			atomic64_inc(&words[w]);
			h->added[256ull * i + w]++;
		}
		h->bursts++;
		up_read(&h->busy);
		cond_resched();
	}
	return 0;
}

static int moved(struct contiguitas_owner *owner, struct page *src, struct page *dst)
{
	struct holder *h = container_of(owner, struct holder, owner);
	int ret = -ENOENT;

	down_write(&h->busy);
	for (u32 i = 0; i < h->nr && !h->stay; i++) {
		if (h->pages[i] == src) {
			h->pages[i] = dst;
			h->told++;
			ret = 0;
		}
	}
	up_write(&h->busy);
	return ret;
}

static long pin(struct holder *h, void __user *arg)
{
	struct mover_pin p;
	int got;

	if (copy_from_user(&p, arg, sizeof(p)))
		return -EFAULT;
	if (h->pages || !p.pages || p.pages > 1 << 20)
		return -EINVAL;
	h->pages = p.pages <= ARRAY_SIZE(h->few) ? h->few : vzalloc(p.pages * sizeof(*h->pages));
	h->added = p.flags & MOVER_QUIET ? NULL : vzalloc(p.pages * 2048ull);
	if (!h->pages || (!h->added && !(p.flags & MOVER_QUIET)))
		return -ENOMEM;
	h->stay = p.flags & MOVER_STAY;
	for (h->nr = 0; h->nr < p.pages; h->nr++) {
		got = pin_user_pages_fast(p.address + 4096ull * h->nr, 1,
					  FOLL_WRITE | FOLL_LONGTERM, &h->pages[h->nr]);
		if (got != 1)
			return got ?: -EFAULT;
		if (contiguitas_own(h->pages[h->nr], &h->owner)) {
			unpin_user_page(h->pages[h->nr]);
			return -EBUSY;
		}
	}
	if (!(p.flags & MOVER_QUIET))
		h->worker = kthread_run(work, h, "mover-device");
	return PTR_ERR_OR_ZERO(h->worker);
}

static void stop(struct holder *h)
{
	if (!IS_ERR_OR_NULL(h->worker))
		kthread_stop(h->worker);
	h->worker = NULL;
}

static long sums(struct holder *h, void __user *arg)
{
	struct mover_sums s;

	if (copy_from_user(&s, arg, sizeof(s)))
		return -EFAULT;
	if (!h->added)
		return -EINVAL;
	stop(h);
	s.bursts = h->bursts;
	s.told = h->told;
	if (copy_to_user((void __user *)s.words, h->added, 2048ull * h->nr) ||
	    copy_to_user(arg, &s, sizeof(s)))
		return -EFAULT;
	return 0;
}

static struct mm_struct *memory_of(u32 pid)
{
	struct task_struct *task;
	struct mm_struct *mm;

	rcu_read_lock();
	task = pid ? pid_task(find_vpid(pid), PIDTYPE_PID) : current;
	mm = task ? get_task_mm(task) : NULL;
	rcu_read_unlock();
	return mm;
}

static long move(void __user *arg)
{
	struct mm_struct *mm;
	struct page **pages;
	struct mover_range r;

	if (copy_from_user(&r, arg, sizeof(r)))
		return -EFAULT;
	mm = memory_of(r.pid);
	pages = kmalloc_array(PAIRS, sizeof(*pages), GFP_KERNEL);
	for (r.moved = 0; mm && pages && r.pages && !fatal_signal_pending(current);) {
		long got;

		mmap_read_lock(mm);
		got = get_user_pages_remote(mm, r.address, min_t(u32, r.pages, PAIRS), FOLL_WRITE,
					    pages, NULL);
		mmap_read_unlock(mm);
		if (got > 0)
			r.moved += contiguitas_hw_move(pages, got);
		got = max(got, 1L);
		r.address += 4096ull * got;
		r.pages -= got;
		cond_resched();
	}
	kfree(pages);
	if (!mm)
		return -ESRCH;
	mmput(mm);
	return !pages ? -ENOMEM : copy_to_user(arg, &r, sizeof(r)) ? -EFAULT : 0;
}

/* A write as it comes. Other doorbells between its parts may mix with it: for tests alone. */
static long raw(void __user *arg)
{
	struct mover_write w;
	int status = 0;

	if (copy_from_user(&w, arg, sizeof(w)))
		return -EFAULT;
	if (w.reg >= DOORBELL) {
		const u64 list[][2] = { { w.reg, w.value } };

		status = mover_submit(list, 1);
	} else {
		mover_write(w.reg, w.value);
	}
	if (status < 0)
		return status;
	w.status = status;
	return copy_to_user(arg, &w, sizeof(w)) ? -EFAULT : 0;
}

static long mover_ioctl(struct file *file, unsigned int what, unsigned long value)
{
	struct holder *h = file->private_data;
	void __user *arg = (void __user *)value;
	long ret = -ENOTTY;

	if (what == MOVER_MOVE)
		return move(arg);
	if (what == MOVER_WRITE)
		return raw(arg);
	mutex_lock(&h->lock);
	if (what == MOVER_PIN)
		ret = pin(h, arg);
	else if (what == MOVER_SUMS)
		ret = sums(h, arg);
	else if (what == MOVER_COUNTS)
		ret = copy_to_user(arg, mover_counts(), sizeof(*mover_counts())) ? -EFAULT : 0;
	mutex_unlock(&h->lock);
	return ret;
}

static int mover_open(struct inode *inode, struct file *file)
{
	struct holder *h = kzalloc(sizeof(*h), GFP_KERNEL);

	if (!h)
		return -ENOMEM;
	h->owner.moved = moved;
	init_rwsem(&h->busy);
	mutex_init(&h->lock);
	file->private_data = h;
	return 0;
}

static int mover_release(struct inode *inode, struct file *file)
{
	struct holder *h = file->private_data;

	stop(h);
	for (u32 i = 0; i < h->nr; i++) {
		struct page *page;

		/* It may go to another page until it is no owner any more. */
		do {
			page = READ_ONCE(h->pages[i]);
			contiguitas_disown(page, &h->owner);
		} while (page != READ_ONCE(h->pages[i]));
		unpin_user_page(page);
	}
	if (h->pages != h->few)
		vfree(h->pages);
	vfree(h->added);
	kfree(h);
	return 0;
}

static const struct file_operations mover_fops = {
	.owner = THIS_MODULE,
	.open = mover_open,
	.release = mover_release,
	.unlocked_ioctl = mover_ioctl,
};

static struct miscdevice mover_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "ample_mover",
	.fops = &mover_fops,
};

int mover_file_add(void)
{
	return misc_register(&mover_device);
}

void mover_file_remove(void)
{
	misc_deregister(&mover_device);
}
