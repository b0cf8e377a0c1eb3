/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which instructions change translation, and their operands (Intel's manual, volume 2, 2.1). */
#ifndef AMPLE_DECODE_H
#define AMPLE_DECODE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum special {
	SPECIAL_NONE, SPECIAL_CR0, SPECIAL_CR3, SPECIAL_CR4, SPECIAL_LIDT, SPECIAL_INVLPG,
	SPECIAL_INVPCID, SPECIAL_VIRTUAL, SPECIAL_IRET, SPECIAL_MARKER,
};
enum { NO_REGISTER = 31 };

/* An operand: base + index << scale + displacement, or the register `base` alone. */
struct operand {
	unsigned int special : 4, base : 5, index : 5, scale : 2;
	int32_t displacement;
};
_Static_assert(sizeof(struct operand) == sizeof(void *), "it travels as a pointer");

/* The memory operand behind a ModRM byte in `code` of `length` bytes, `next` the address of the
 * following instruction. */
static struct operand operand_of(int special, const uint8_t *code, size_t length, int rex,
		uint64_t next)
{
	struct operand o = { .special = (unsigned int)special, .index = NO_REGISTER };
	int mod = code[0] >> 6, rm = code[0] & 7;
	size_t at = 1;
	int32_t d32 = 0;

	o.base = (unsigned int)(rm | (rex & 1) << 3);
	if (mod != 3 && rm == 4) {
		uint8_t sib = code[at++];

		o.scale = sib >> 6;
		o.index = (sib >> 3 & 7) | (rex & 2) << 2;
		if (o.index == 4)
			o.index = NO_REGISTER;
		o.base = (unsigned int)((sib & 7) | (rex & 1) << 3);
		if ((sib & 7) == 5 && mod == 0) {
			o.base = NO_REGISTER;
			mod = 2;
		}
	} else if (mod == 0 && rm == 5) {
		uint64_t target;

		memcpy(&d32, code + at, 4);
		target = next + (uint64_t)(int64_t)d32;
		o.base = NO_REGISTER;
		o.displacement = (int32_t)target;
		/* Linux has all of its image, its modules too, in the top 2 GB. */
		if ((uint64_t)(int64_t)o.displacement != target)
			o.special = SPECIAL_NONE;
		return o;
	}
	if (mod == 1)
		o.displacement = (int8_t)code[at];
	if (mod == 2 && at + 4 <= length) {
		memcpy(&d32, code + at, 4);
		o.displacement = d32;
	}
	return o;
}

/* What an instruction is, if it matters. */
static struct operand special_of(const uint8_t *code, size_t length, uint64_t next)
{
	struct operand none = { .special = SPECIAL_NONE };
	size_t at = 0;
	int rex = 0, reg;

	while (at < length && (code[at] == 0x66 || code[at] == 0xf2 || code[at] == 0xf3 ||
			code[at] == 0x65 || code[at] == 0x64 || code[at] == 0x3e))
		at++;
	if (at < length && (code[at] & 0xf0) == 0x40)
		rex = code[at++];
	if (at < length && code[at] == 0xcf)
		return (struct operand){ .special = SPECIAL_IRET };
	if (at + 2 >= length || code[at] != 0x0f)
		return none;
	reg = code[at + 2] >> 3 & 7;
	if (code[at + 1] == 0x22 && !(rex & 4)) {
		int special = reg == 3 ? SPECIAL_CR3 : reg == 4 ? SPECIAL_CR4 :
			      reg == 0 ? SPECIAL_CR0 : SPECIAL_NONE;

		return operand_of(special, code + at + 2, length - at - 2, rex, next);
	}
	if (code[at + 1] == 0x01 && code[at + 2] < 0xc0 && (reg == 3 || reg == 7))
		return operand_of(reg == 3 ? SPECIAL_LIDT : SPECIAL_INVLPG, code + at + 2,
				length - at - 2, rex, next);
	/* VMLAUNCH, VMRESUME, VMRUN: page tables of another machine begin. */
	if (code[at + 1] == 0x01 &&
	    (code[at + 2] == 0xc2 || code[at + 2] == 0xc3 || code[at + 2] == 0xd8))
		return (struct operand){ .special = SPECIAL_VIRTUAL };
	if (at > 0 && code[at + 1] == 0x38 && code[at + 2] == 0x82)
		return (struct operand){ .special = SPECIAL_INVPCID };
	if (code[at + 1] == 0x1f && code[at + 2] == 0x80 && at == 0 && length == 7) {
		int32_t magic;

		memcpy(&magic, code + 3, 4);
		if ((magic & ~0xff) == 0x616d7000)
			return (struct operand){ .special = SPECIAL_MARKER, .displacement = magic };
	}
	return none;
}

#endif
