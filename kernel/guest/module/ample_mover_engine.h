/* SPDX-License-Identifier: GPL-2.0-only */
/* What the two halves of the driver need of each other. */
#ifndef AMPLE_MOVER_ENGINE_H
#define AMPLE_MOVER_ENGINE_H

#include "ample_mover.h"

#define PAIRS	256	/* moves that can be under way, whatever the engine's table holds */

enum { SOURCE, DESTINATION, PAGES, DOORBELL };

int mover_submit(const u64 (*list)[2], unsigned int many);
void mover_write(u32 reg, u64 value);
const struct mover_counts *mover_counts(void);
int mover_file_add(void);
void mover_file_remove(void);

#endif
