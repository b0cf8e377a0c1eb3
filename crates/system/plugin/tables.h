/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The guest's page tables, read where they lie, and what of them the ring has been told. */
#ifndef AMPLE_TABLES_H
#define AMPLE_TABLES_H

#include "ring.h"

/* x86-64 page-table entries. */
#define PRESENT 1ull
#define WRITE 2ull
#define LARGE 0x80ull
#define GLOBAL 0x100ull
#define FRAME 0x000ffffffffff000ull

/* Where a physical address lies in the guest's memory; NULL: it is a device's, or nothing. */
static void *physical(uint64_t pa)
{
	const uint64_t high = 1ull << 32;

	if (pa >= high)
		pa = pa - high + low_bytes;
	else if (pa >= low_bytes)
		return NULL;
	return pa < ram_bytes ? ram + pa : NULL;
}

struct walk {
	uint64_t path[8];	/* pairs of address and entry, from the root */
	int pairs;
	uint64_t entry;		/* as in struct known */
	int level;
	volatile uint64_t *line;
};

/* Walks as the hardware does; 0 if nothing is mapped. */
static int walked(uint64_t cr3, uint64_t va, struct walk *w)
{
	uint64_t table = cr3 & FRAME, write = WRITE;

	w->pairs = 0;
	for (int level = 4; level > 0; level--) {
		uint64_t pa = table | (va >> (3 + 9 * level) & 511) << 3, entry;
		volatile uint64_t *at = physical(pa);

		if (!at)
			return 0;
		entry = *at;
		if (!(entry & PRESENT))
			return 0;
		w->path[2 * w->pairs] = pa;
		w->path[2 * w->pairs++ + 1] = entry;
		write &= entry;
		table = entry & FRAME;
		if (level == 1 || (level < 4 && entry & LARGE)) {
			uint64_t inside = (1ull << (3 + 9 * level)) - 1;

			w->entry = (table & ~inside) | (va & inside & FRAME) | write |
				   (entry & GLOBAL);
			w->level = level;
			w->line = (volatile uint64_t *)((uintptr_t)at & ~63ull);
			return 1;
		}
	}
	return 0;
}

static int is_known(const struct vcpu *v, const struct known *k, uint64_t page)
{
	return k->page == page + 1 && k->epoch == v->epoch[(k->entry & GLOBAL) != 0];
}

static void told(struct vcpu *v, uint64_t va, const struct walk *w)
{
	word(v, control(OP_MAPPING, va) | (uint64_t)w->pairs << 56);
	for (int i = 0; i < 2 * w->pairs; i++)
		word(v, w->path[i]);
	for (int i = 0; i < 8; i++)
		word(v, w->line[i]);
	ended(v);
}

/* Makes the translation of an address known, and tells the ring unless it has been told. */
static __attribute__((noinline)) void learn(struct vcpu *v, uint64_t va)
{
	struct known *page = &v->pages[va >> 12 & (PAGES - 1)];
	struct known *large = &v->larges[va >> 21 & (LARGES - 1)];
	const uint64_t same = ~0x1ff000ull;
	struct walk w;
	uint64_t epoch;

	if (v->emulated != current_cpu) {
		fprintf(stderr, "ample_system: this emulator tells its CPUs apart wrongly\n");
		exit(1);
	}
	if (!walked(v->cr3, va, &w)) {
		v->unmapped++;
		return;
	}
	epoch = v->epoch[(w.entry & GLOBAL) != 0];
	*page = (struct known){ .page = (va >> 12) + 1, .epoch = epoch, .entry = w.entry };
	if (w.level > 1) {
		if (is_known(v, large, va >> 21) && !((large->entry ^ w.entry) & same))
			return;
		*large = *page;
		large->page = (va >> 21) + 1;
	}
	told(v, va, &w);
}

#endif
