/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Markers for whoever watches a guest from outside: an emulator with a plugin, or a simulator.
 *
 * A marker is the seven-byte long NOP
 *
 *	nopl DISP32(%rax)	0f 1f 80, then DISP32 in little endian
 *
 * with DISP32 = 0x616d7000 + code. A long NOP computes no address and touches no memory, so that on
 * hardware, or where nobody watches, it does nothing. No compiler makes one with such a
 * displacement. %rdi holds an argument of 64 bits, whose meaning is the program's.
 *
 *	code 0	begin	the region of interest begins after this instruction
 *	code 1	end	it ended before this instruction
 *	code 2	point	a place within it: a phase, a request
 *
 * To mark a program of your own, copy this file (it needs nothing else), call
 * ample_marker_begin() once what you measure is set up, and ample_marker_end() when it is done,
 * both in the same thread or not: the region is one of the whole machine, with every thread and
 * the kernel in it. The compiler moves no access to memory across a marker. A script of the shell
 * takes the program "mark" instead. In assembly, or another language with inline assembly:
 *
 *	movq	$ARGUMENT, %rdi
 *	.byte	0x0f, 0x1f, 0x80
 *	.long	0x616d7000
 *
 * x86-64 only.
 */
#ifndef AMPLE_MARKER_H
#define AMPLE_MARKER_H

#ifndef __x86_64__
#error "marker.h: the markers are x86-64 instructions"
#endif

/* As bytes: an assembler could pick another encoding of the same instruction. */
#define AMPLE_MARKER_BYTES(code) ".byte 0x0f, 0x1f, 0x80\n\t.long 0x616d7000 + " #code

#define AMPLE_MARKER(code, value)						\
	__asm__ volatile(AMPLE_MARKER_BYTES(code)				\
			 : : "D"((unsigned long)(value)) : "memory")

static inline void ample_marker_begin(unsigned long value)
{
	AMPLE_MARKER(0, value);
}

static inline void ample_marker_end(unsigned long value)
{
	AMPLE_MARKER(1, value);
}

static inline void ample_marker_point(unsigned long value)
{
	AMPLE_MARKER(2, value);
}

#endif
