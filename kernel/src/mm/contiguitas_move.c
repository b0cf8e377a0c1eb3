// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contiguitas: user pages that hardware moves while somebody refers to them.
 *
 * Software cannot migrate a page that is pinned, or that I/O goes to. Hardware makes two frames one
 * memory. Programs are then sent to the new frame, without an invalid entry in between; whoever
 * holds the old frame goes on with it until he lets go of it or, as its registered owner, is told.
 * When nobody is left, the data moves and the old frame is free.
 *
 * A move has an entry of the hardware's table for as long as that takes. Begun and settled under
 * ctg_hw_lock; those that wait for holders are finished by a worker, under the same lock.
 */
#include <linux/delay.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/rmap.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <linux/workqueue.h>
#include <asm/tlbflush.h>
#include "internal.h"
#include "contiguitas.h"

#define WAIT_FOR_HOLDERS	HZ	/* before a worker does it */
#define LOOK_AGAIN		(HZ / 50)

struct ctg_move {
	struct list_head list;
	struct folio *src, *dst;
	struct contiguitas_owner *told;	/* uses @dst; the pin that it had of @src is ours */
};

static DEFINE_MUTEX(owners_lock);	/* held while an owner is told */
static LIST_HEAD(unfinished);		/* under ctg_hw_lock */

static void finish_some(struct work_struct *work);
static DECLARE_DELAYED_WORK(finisher, finish_some);

/*
 * The owner of a pinned anonymous page stands in its private word, which is free: such a page never
 * gets into the swap cache. An index beside would take unmovable memory for each page.
 */
static struct contiguitas_owner *owner_of(struct folio *folio)
{
	return folio_test_swapcache(folio) ? NULL : folio_get_private(folio);
}

/**
 * contiguitas_own - offer to take a long-term pin of a page to another page
 * @page: pinned once by the caller, for as long as it owns the page
 * @owner: who is told
 *
 * Return: 0, or -EBUSY if the page has an owner or is none that could move.
 */
int contiguitas_own(struct page *page, struct contiguitas_owner *owner)
{
	struct folio *folio = page_folio(page);
	int ret = -EBUSY;

	mutex_lock(&owners_lock);
	if (folio_test_anon(folio) && !folio_test_large(folio) && !folio_test_swapcache(folio) &&
	    !folio_get_private(folio)) {
		folio->private = owner;
		ret = 0;
	}
	mutex_unlock(&owners_lock);
	return ret;
}
EXPORT_SYMBOL_GPL(contiguitas_own);

/**
 * contiguitas_disown - end what contiguitas_own() began
 * @page: the page that the owner uses now
 * @owner: as there
 *
 * Not under a lock that the owner's moved() takes: waits for it. Unpin the page afterwards.
 */
void contiguitas_disown(struct page *page, struct contiguitas_owner *owner)
{
	struct folio *folio = page_folio(page);

	mutex_lock(&owners_lock);
	if (owner_of(folio) == owner)
		folio->private = NULL;
	mutex_unlock(&owners_lock);
}
EXPORT_SYMBOL_GPL(contiguitas_disown);

/*
 * Point one entry at the other frame, by one store: it is never invalid. A dirty bit that a CPU sets
 * in the old entry just before is lost; so a new one that may be written is dirty from the start.
 */
static bool retarget_one(struct folio *from, struct vm_area_struct *vma, unsigned long addr,
			 void *arg)
{
	DEFINE_FOLIO_VMA_WALK(pvmw, from, vma, addr, PVMW_SYNC);
	struct mmu_notifier_range range;
	struct folio *to = arg;

	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, vma->vm_mm, addr, addr + PAGE_SIZE);
	mmu_notifier_invalidate_range_start(&range);
	while (page_vma_mapped_walk(&pvmw)) {
		bool exclusive = PageAnonExclusive(&from->page);
		pte_t pte = pfn_pte(folio_pfn(to), pte_pgprot(ptep_get(pvmw.pte)));

		if (pte_write(pte))
			pte = pte_mkdirty(pte);
		set_pte_at(vma->vm_mm, pvmw.address, pvmw.pte, pte);
		folio_get(to);
		folio_add_anon_rmap_pte(to, &to->page, vma, pvmw.address,
					exclusive ? RMAP_EXCLUSIVE : RMAP_NONE);
		folio_remove_rmap_pte(from, &from->page, vma);
		if (!folio_mapped(from))
			ClearPageAnonExclusive(&from->page);
		folio_put(from);
	}
	mmu_notifier_invalidate_range_end(&range);
	return true;
}

/* A fork may map the old frame again behind the walk: three times in a row is unlikely. */
static bool retarget(struct folio *from, struct folio *to)
{
	struct rmap_walk_control rwc = { .rmap_one = retarget_one, .arg = to };
	unsigned int i;

	for (i = 0; i < 3 && folio_mapped(from); i++)
		rmap_walk(from, &rwc);
	return !folio_mapped(from);
}

static void flush_here(struct work_struct *work)
{
	preempt_disable();
	__flush_tlb_all();
	preempt_enable();
}

/*
 * Nobody has to stop for this: until a CPU comes by, its old translations are good. Linux has no
 * list of what to do at the next entry into the kernel; a worker on each CPU stands in for it.
 */
static void forget_translations(void)
{
	while (schedule_on_each_cpu(flush_here))
		msleep(1);
}

/* Anonymous memory of programs. File pages are known by their place in a file, too. */
static bool is_ours(struct folio *folio)
{
	return folio_test_anon(folio) && !folio_test_large(folio) && !folio_test_ksm(folio) &&
	       !folio_test_swapcache(folio) && !folio_test_writeback(folio) &&
	       !folio_test_unevictable(folio) && !folio_test_mlocked(folio) &&
	       !folio_test_hwpoison(folio) && folio_mapped(folio);
}

static void take_after(struct folio *dst, struct folio *src)
{
	dst->index = src->index;
	dst->mapping = src->mapping;
	__folio_set_swapbacked(dst);
	__folio_mark_uptodate(dst);
	folio_set_dirty(dst);	/* devices write under the old name without telling */
	if (folio_test_active(src))
		folio_set_active(dst);
	if (folio_test_workingset(src))
		folio_set_workingset(dst);
	mem_cgroup_replace_folio(src, dst);
	/* A fork has to copy it, and nobody may migrate it: the holders' pins are at the old one. */
	folio_ref_add(dst, GUP_PIN_COUNTING_BIAS);
}

static void let_go(struct folio *dst)
{
	dst->mapping = NULL;
	folio_clear_active(dst);
	folio_put_refs(dst, GUP_PIN_COUNTING_BIAS);
}

/* Back to the old frame, all of it. */
static void take_back(struct folio *src, struct folio *dst)
{
	while (!retarget(dst, src))
		cond_resched();
	forget_translations();
	/* What a device does not let go of must never be another's. */
	if (WARN_ON_ONCE(ctg_hw->clear(&src->page)))
		folio_get(dst);
}

static int send_programs(struct folio *src, struct folio *dst)
{
	int ret = ctg_hw->migrate(&src->page, &dst->page, CONTIGUITAS_HW_INSTALL);

	if (ret || retarget(src, dst))
		return ret;
	take_back(src, dst);
	return -EBUSY;
}

/* Takes over the references of both pages if it returns 0; otherwise nothing has changed. */
static int begin(struct page *src_page, struct page *dst_page, struct list_head *moves)
{
	struct folio *src = page_folio(src_page), *dst = page_folio(dst_page);
	struct ctg_move *move = kmalloc(sizeof(*move), GFP_KERNEL);
	struct anon_vma *anon_vma = NULL;
	int ret = -EBUSY;

	if (!move)
		return -ENOMEM;
	if (folio_test_large(src) || !folio_isolate_lru(src)) {
		kfree(move);
		return ret;
	}
	if (!folio_trylock(src))
		goto put_back;
	if (is_ours(src))
		anon_vma = folio_get_anon_vma(src);
	if (!anon_vma)
		goto unlock;
	__folio_set_locked(dst);
	take_after(dst, src);
	ret = send_programs(src, dst);
	if (ret) {
		let_go(dst);
	} else {
		src->mapping = NULL;
		folio_clear_active(src);
		*move = (struct ctg_move){ .src = src, .dst = dst };
		list_add_tail(&move->list, moves);
		folio_add_lru(dst);
	}
	folio_unlock(dst);
unlock:
	folio_unlock(src);
	if (anon_vma)
		put_anon_vma(anon_vma);
put_back:
	if (ret) {
		folio_putback_lru(src);
		kfree(move);
	} else {
		folio_put(src);	/* as isolated */
	}
	return ret;
}

static void drop_old_pin(struct ctg_move *move)
{
	folio_put_refs(move->src, GUP_PIN_COUNTING_BIAS);
	move->told = NULL;
}

/* Asks whoever owns the pin of the old frame to use the new one, of which he gets a pin first. */
static void tell_owner(struct ctg_move *move)
{
	struct page *src = &move->src->page, *dst = &move->dst->page;
	struct contiguitas_owner *owner = owner_of(move->src);
	int ret;

	if (!owner)
		return;
	folio_ref_add(move->dst, GUP_PIN_COUNTING_BIAS);
	ret = owner->moved(owner, src, dst);
	if (ret && ret != -EINPROGRESS) {
		folio_put_refs(move->dst, GUP_PIN_COUNTING_BIAS);
		return;
	}
	move->dst->private = owner;
	move->src->private = NULL;
	move->told = owner;
	if (!ret)
		drop_old_pin(move);
}

/*
 * The owner's pin goes with the data. That of the old frame is dropped when nothing that the owner
 * has begun can use it any more, or the owner is gone.
 */
static void ask_owner(struct ctg_move *move)
{
	mutex_lock(&owners_lock);
	if (!move->told)
		tell_owner(move);
	else if (owner_of(move->dst) != move->told ||
		 !move->told->moved(move->told, &move->src->page, &move->dst->page))
		drop_old_pin(move);
	mutex_unlock(&owners_lock);
}

/* Moves the data if nobody but us refers to the old frame. */
static bool finish(struct ctg_move *move)
{
	struct page *src = &move->src->page, *dst = &move->dst->page;

	if (folio_ref_count(move->src) != 1)
		ask_owner(move);
	if (folio_ref_count(move->src) != 1)
		return false;
	if (ctg_hw->migrate(src, dst, 0) || ctg_hw->clear(src))
		return false;
	folio_put(move->src);
	folio_put_refs(move->dst, GUP_PIN_COUNTING_BIAS + 1);
	list_del(&move->list);
	kfree(move);
	return true;
}

static void finish_all(struct list_head *moves)
{
	struct ctg_move *move, *next;

	list_for_each_entry_safe(move, next, moves, list)
		finish(move);
}

/**
 * ctg_move_settle - move the data of moves that have begun
 * @moves: these; empty afterwards
 *
 * Waits for holders, but not for ever: what is left goes on by itself.
 */
void ctg_move_settle(struct list_head *moves)
{
	unsigned long until = jiffies + WAIT_FOR_HOLDERS;

	if (list_empty(moves))
		return;
	forget_translations();
	for (finish_all(moves); !list_empty(moves) && time_before(jiffies, until);
	     finish_all(moves)) {
		lru_add_drain_all();
		usleep_range(50, 500);
	}
	if (!list_empty(moves)) {
		list_splice_tail_init(moves, &unfinished);
		schedule_delayed_work(&finisher, LOOK_AGAIN);
	}
}

static void finish_some(struct work_struct *work)
{
	mutex_lock(&ctg_hw_lock);
	finish_all(&unfinished);
	if (!list_empty(&unfinished))
		schedule_delayed_work(&finisher, LOOK_AGAIN);
	mutex_unlock(&ctg_hw_lock);
}

/* Are there moves that wait for holders? Under ctg_hw_lock. */
bool ctg_moves_wait(void)
{
	return !list_empty(&unfinished);
}

/**
 * ctg_move_user - begin to move a user page
 * @src: the page, with a reference that is taken over
 * @dst: a new page, which is taken over
 * @moves: list to which the move is added
 *
 * Under ctg_hw_lock, as ctg_move_settle(), which ends the moves of the list. A full table is first
 * emptied of these.
 *
 * Return: 0, or why @src stays where it is: -ENOSPC if the table is full of others' moves.
 */
int ctg_move_user(struct page *src, struct page *dst, struct list_head *moves)
{
	int ret = begin(src, dst, moves);

	if (ret == -ENOSPC && !list_empty(moves)) {
		ctg_move_settle(moves);
		ret = begin(src, dst, moves);
	}
	if (ret) {
		put_page(src);
		put_page(dst);
	}
	return ret;
}

/**
 * contiguitas_hw_move - move user pages to other frames while they are in use
 * @pages: order-0 pages, each with a reference that is taken over
 * @nr: how many
 *
 * Sleeps. A page whose old frame somebody holds for longer goes on moving afterwards.
 *
 * Return: how many have begun to move.
 */
unsigned int contiguitas_hw_move(struct page **pages, unsigned int nr)
{
	unsigned int i, begun = 0;
	struct page *dst;
	LIST_HEAD(moves);

	mutex_lock(&ctg_hw_lock);
	for (i = 0; i < nr; i++) {
		dst = !ctg_hw ? NULL : alloc_pages_node(page_to_nid(pages[i]), GFP_KERNEL |
							__GFP_NOWARN | __GFP_NORETRY, 0);
		if (dst)
			begun += !ctg_move_user(pages[i], dst, &moves);
		else
			put_page(pages[i]);
	}
	ctg_move_settle(&moves);
	mutex_unlock(&ctg_hw_lock);
	return begun;
}
EXPORT_SYMBOL_GPL(contiguitas_hw_move);
