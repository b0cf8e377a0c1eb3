/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Registers of a CPU as QEMU gives them to a debugger, and what they lead to. */
#ifndef AMPLE_REGISTERS_H
#define AMPLE_REGISTERS_H

#include "decode.h"
#include "tables.h"

static uint64_t handlers[256];
static struct qemu_plugin_register *registers[16], *cr0, *cr4, *efer;
static struct byte_array *bytes;

static void find_registers(void)
{
	static const char *const names[16] = {
		"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
		"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
	};
	struct array *all = qemu_plugin_get_registers();
	const struct descriptor *list = (const struct descriptor *)all->data;

	for (unsigned int i = 0; i < all->len; i++) {
		for (int n = 0; n < 16; n++)
			if (strcmp(list[i].name, names[n]) == 0)
				registers[n] = list[i].handle;
		if (strcmp(list[i].name, "cr0") == 0)
			cr0 = list[i].handle;
		if (strcmp(list[i].name, "cr4") == 0)
			cr4 = list[i].handle;
		if (strcmp(list[i].name, "efer") == 0)
			efer = list[i].handle;
	}
	bytes = g_byte_array_new();
}

static uint64_t read_register(struct qemu_plugin_register *handle)
{
	uint64_t value = 0;

	g_byte_array_set_size(bytes, 0);
	if (!handle || qemu_plugin_read_register(handle, bytes) < 0)
		return 0;
	memcpy(&value, bytes->data, bytes->len < 8 ? bytes->len : 8);
	return value;
}

static uint64_t address_of(const struct operand *o)
{
	uint64_t address = (uint64_t)(int64_t)o->displacement;

	if (o->base != NO_REGISTER)
		address += read_register(registers[o->base]);
	if (o->index != NO_REGISTER)
		address += read_register(registers[o->index]) << o->scale;
	return address;
}

/* Guest-virtual memory, as the walker would read it; 0 if it is not all there. */
static int read_virtual(uint64_t cr3, uint64_t va, void *to, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		struct walk w;
		uint8_t *at;

		if (!walked(cr3, va + i, &w))
			return 0;
		at = physical((w.entry & FRAME) | ((va + i) & 0xfff));
		if (!at)
			return 0;
		((uint8_t *)to)[i] = *at;
	}
	return 1;
}

/* The entry points of the 256 vectors (Intel's manual, volume 3, 7.14.1). */
static void read_gates(struct vcpu *v, uint64_t descriptor)
{
	struct { uint16_t limit; uint64_t base; } __attribute__((packed)) idt;
	struct { uint16_t low, selector, kind, middle; uint32_t high, zero; } gate;

	if (!read_virtual(v->cr3, descriptor, &idt, sizeof(idt)))
		return;
	for (unsigned int i = 0; i < 256 && i * 16 + 15u <= idt.limit; i++) {
		if (read_virtual(v->cr3, idt.base + i * 16, &gate, sizeof(gate)) &&
		    gate.kind & 0x8000)
			handlers[i] = gate.low | (uint64_t)gate.middle << 16 |
				      (uint64_t)gate.high << 32;
	}
}

#endif
