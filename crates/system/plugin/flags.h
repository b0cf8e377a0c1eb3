/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two flags with which QEMU's CPUs translate, and that are wrong for a plugin. They are no part of
 * the plugin interface: an emulator in which they cannot be changed is refused.
 */
#ifndef AMPLE_FLAGS_H
#define AMPLE_FLAGS_H

#include "qemu.h"
#include <string.h>

enum {
	/*
	 * CF_PARALLEL. Where CPUs share a thread, QEMU 9.1 to 10.2 put the number of the
	 * CPU that translates a block into it as a constant, and the next CPU runs the
	 * block under that number. With the flag blocks ask for it.
	 */
	FLAG_PARALLEL = 0x8000,
	/*
	 * CF_PCREL. One block serves a piece of code at all its virtual addresses (a
	 * library that two programs have at two places), but a plugin is told the first.
	 * Without the flag each address has its own.
	 */
	FLAG_RELATIVE = 0x20000,
	/* No flag of QEMU: it shows where the flags are. */
	FLAG_PROBE = 0x100000,
	/* A CPU's object is larger. */
	LOOKED_AT = 8192,
};

static int flags_are_reachable(void)
{
	return tcg_cflags_set && tcg_cflags_has && &current_cpu;
}

/* Makes a CPU that has not translated anything yet translate as described; 0 if it does not. */
static int set_flags(void *cpu)
{
	static uint32_t before[LOOKED_AT / 4];
	uint32_t *words = cpu, *flags = NULL;

	tcg_cflags_set(cpu, FLAG_PARALLEL);
	memcpy(before, words, sizeof(before));
	tcg_cflags_set(cpu, FLAG_PROBE);
	for (int i = 0; i < LOOKED_AT / 4; i++) {
		if ((words[i] ^ before[i]) != FLAG_PROBE)
			continue;
		if (flags)
			return 0;
		flags = &words[i];
	}
	if (!flags)
		return 0;
	*flags &= ~(uint32_t)(FLAG_PROBE | FLAG_RELATIVE);
	return tcg_cflags_has(cpu, FLAG_PARALLEL) && !tcg_cflags_has(cpu, FLAG_PROBE) &&
	       !tcg_cflags_has(cpu, FLAG_RELATIVE);
}

#endif
