/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A machine small enough to know every walk of: no kernel, four levels of page tables, 64 pages in
 * the lower half, 64 global ones in the upper, one page of 2 MB. Booted by QEMU as a multiboot
 * image. What is assembled depends on one of these:
 *   COUNTS   the accesses that tests/emulator.rs counts, between the markers
 *   UNPAGED  a marker before paging is on
 *   VIRTUAL  VMRUN between the markers
 *   SILENT   no marker
 *   ENDLESS  a begin and no end
 *   PAIR     two CPUs that read the same pages in turns, ROUNDS times each
 */
#define MAGIC 0x1badb002
#define MARKER(code) .byte 0x0f, 0x1f, 0x80; .long 0x616d7000 + (code)

#define ROOT 0x200000
#define OTHER_ROOT 0x210000
#define LOW_TABLE 0x204000	/* 64 pages at LOW */
#define HIGH_TABLE 0x207000	/* 64 global pages at HIGH */
#define LOW 0x40000000
#define LARGE_PAGE 0x40200000
#define ALIAS 0x40400000	/* the first 2 MB, and the code in them, once more */
#define HIGH 0xffff800000000000
#define PAGES 64
#define ROUNDS 20
/* words by which the two CPUs wait for each other */
#define TABLES_ARE_THERE 0x230000
#define SECOND_IS_THERE 0x230040
#define BATON 0x230080

	.text
	.code32
	.align 4
	.long MAGIC, 0, -MAGIC
	.globl _start
_start:
	cli
#ifdef UNPAGED
	MARKER(0)
	jmp off32
#endif
	cld
#ifdef PAIR
	/* the second CPU starts at 0x8000: INIT, then two SIPIs by the local APIC */
	movl $second, %esi
	movl $0x8000, %edi
	movl $(second_end - second), %ecx
	rep movsb
	movl $0x1000000, 0xfee00310
	movl $0x4500, 0xfee00300
	movl $100000, %ecx
1:	loop 1b
	movl $0x4608, 0xfee00300
	movl $100000, %ecx
1:	loop 1b
	movl $0x4608, 0xfee00300
	xorl %ebp, %ebp
#endif
	xorl %eax, %eax
	movl $ROOT, %edi
	movl $0x5000, %ecx
	rep stosl
	/* the first gigabyte as it is, in pages of 2 MB */
	movl $0x201003, ROOT
	movl $0x202003, 0x201000
	movl $0x83, %eax
	movl $0x202000, %edi
	movl $512, %ecx
1:	movl %eax, (%edi)
	addl $0x200000, %eax
	addl $8, %edi
	loop 1b
	/* LOW: 4 KB pages from 16 MB, and one of 2 MB behind them */
	movl $0x203003, 0x201008
	movl $(LOW_TABLE + 3), 0x203000
	movl $0x1200083, 0x203008
	movl $0x83, 0x203010
	movl $0x1000003, %eax
	movl $LOW_TABLE, %edi
	call fill
	/* HIGH: global pages from 20 MB */
	movl $0x205003, ROOT + 8 * 256
	movl $0x206003, 0x205000
	movl $(HIGH_TABLE + 3), 0x206000
	movl $0x1400103, %eax
	movl $HIGH_TABLE, %edi
	call fill
	/* the same below another root */
	movl $0x201003, OTHER_ROOT
	movl $0x205003, OTHER_ROOT + 8 * 256
	movl $1, TABLES_ARE_THERE
long_mode:
	movl $ROOT, %eax
	movl %eax, %cr3
	movl %cr4, %eax
	orl $0xa0, %eax		/* PAE, PGE */
	movl %eax, %cr4
	movl $0xc0000080, %ecx	/* EFER.LME */
	rdmsr
	orl $0x100, %eax
	wrmsr
	movl %cr0, %eax
	orl $0x80010000, %eax	/* PG, WP */
	movl %eax, %cr0
	lgdt descriptor
	ljmp $8, $start64

fill:	movl $PAGES, %ecx
1:	movl %eax, (%edi)
	addl $4096, %eax
	addl $8, %edi
	loop 1b
	ret

off32:	movw $0x604, %dx
	movw $0x2000, %ax
	outw %ax, %dx
	jmp off32

	.code64
	/* one load from each page at BASE */
	.macro TOUCH base
	movabs $\base, %rsi
	movl $PAGES, %ecx
1:	movb (%rsi), %al
	addq $4096, %rsi
	decl %ecx
	jnz 1b
	.endm

start64:
#ifdef PAIR
	testl %ebp, %ebp
	jnz pong
1:	pause			/* lets the emulator go on with the other CPU */
	cmpl $0, SECOND_IS_THERE
	je 1b
#endif
#ifndef SILENT
	movl $7, %edi
	MARKER(0)
#endif
#ifdef VIRTUAL
	.byte 0x0f, 0x01, 0xd8
#endif
#ifdef COUNTS
	TOUCH LOW		/* 64 walks */
	TOUCH HIGH		/* 64 */
	TOUCH LOW		/* 0 */
	movl $OTHER_ROOT, %eax
	movq %rax, %cr3
	TOUCH LOW		/* 64: forgotten with the root */
	TOUCH HIGH		/* 0: global */
	movabs $(HIGH + 3 * 4096), %r9
	invlpg (%r9)
	TOUCH HIGH		/* 1 */
	/* another frame for a global page; the flush of everything makes it known */
	movl $HIGH_TABLE, %r14d
	movl $0x1500103, 8 * 7(%r14)	/* 1, of 2 MB */
	.balign 64
	movq %cr4, %rbx
	movq %rbx, %rax
	andq $~0x80, %rax
	movq %rax, %cr4
	movq %rbx, %cr4
	TOUCH HIGH		/* 64 */
	TOUCH LOW		/* 64 */
	movl $LARGE_PAGE, %r12d
	movb (%r12), %al	/* 1 */
	movb %al, 0x1000(%r12)	/* 1: the entry was not dirty */
	movb %al, 0x2000(%r12)
	/* a SIB byte and a displacement */
	movl $0x200, %r13d
	movabs $HIGH, %r9
	invlpg 8(%r9, %r13, 8)
	movb 0x1008(%r9), %al	/* 1 */
	/* a page read while it may not be written, then allowed without an INVLPG, then written */
	movl $LOW_TABLE, %r14d
	movl $LOW + 5 * 4096, %r15d
	andb $~2, 8 * 5(%r14)	/* 1, of 2 MB, dirty by now */
	invlpg (%r15)
	movb (%r15), %al	/* 1 */
	orb $2, 8 * 5(%r14)
	movb %al, (%r15)	/* 1: other rights than before */
	/* one piece of code at two addresses */
	movl $probe, %eax
	movl $2f, %ebx
	jmp *%rax
2:	addl $ALIAS, %eax
	movl $3f, %ebx
	jmp *%rax		/* a walk for code */
3:
#endif
#ifdef PAIR
	movl $ROUNDS, %ebx
ping:	TOUCH LOW		/* what is read here is read by the other CPU next */
	movl $1, BATON
1:	pause
	cmpl $0, BATON
	jne 1b
	decl %ebx
	jnz ping
#endif
#if !defined(SILENT) && !defined(ENDLESS)
	movl $9, %edi
	MARKER(2)
	movl $7, %edi
	MARKER(1)
#endif
off:	movw $0x604, %dx
	movw $0x2000, %ax
	outw %ax, %dx
	jmp off

#ifdef PAIR
pong:	movl $1, SECOND_IS_THERE
2:	pause
	cmpl $0, BATON
	je 2b
	TOUCH LOW
	movl $0, BATON
	jmp 2b

	.code32
second32:
	movw $16, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	movl $1, %ebp
1:	pause
	cmpl $0, TABLES_ARE_THERE
	je 1b
	jmp long_mode

	.code16
second:	cli
	lgdtl %cs:(descriptor32 - second)
	movl %cr0, %eax
	orl $1, %eax
	movl %eax, %cr0
	ljmpl $8, $second32
descriptor32:
	.word 23
	.long gdt32
second_end:
	.code64
#endif

	.balign 64
probe:	jmp *%rbx
	.balign 64
gdt:	.quad 0, 0x00209a0000000000
gdt32:	.quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
descriptor:
	.word 15
	.long gdt
