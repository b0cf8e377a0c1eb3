/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The part of QEMU's plugin interface (version 4) that is used here: its header is in no package,
 * so the few declarations are repeated.
 */
#ifndef AMPLE_QEMU_H
#define AMPLE_QEMU_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t plugin_id;
typedef uint32_t meminfo;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
struct qemu_plugin_hwaddr;
struct qemu_plugin_register;
typedef struct { struct qemu_plugin_scoreboard *score; size_t offset; } plugin_u64;
struct descriptor { struct qemu_plugin_register *handle; const char *name, *feature; };
/* GLib's arrays, as far as they are public. */
struct byte_array { uint8_t *data; unsigned int len; };
struct array { char *data; unsigned int len; };
struct qemu_info {
	const char *target_name;
	struct { int min, cur; } version;
	_Bool system_emulation;
	union { struct { int smp_vcpus, max_vcpus; } system; };
};

extern void qemu_plugin_register_vcpu_init_cb(plugin_id, void (*)(plugin_id, unsigned int));
extern void qemu_plugin_register_vcpu_idle_cb(plugin_id, void (*)(plugin_id, unsigned int));
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id,
		void (*)(plugin_id, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *,
		void (*)(unsigned int, void *), int, void *);
extern void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *, int,
		plugin_u64, uint64_t);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
		void (*)(unsigned int, meminfo, uint64_t, void *), int, int, void *);
extern void qemu_plugin_reset(plugin_id, void (*)(plugin_id));
extern void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
extern unsigned int qemu_plugin_mem_size_shift(meminfo);
extern _Bool qemu_plugin_mem_is_store(meminfo);
extern struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(meminfo, uint64_t);
extern uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);
extern struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t);
extern void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *, unsigned int);
extern struct array *qemu_plugin_get_registers(void);
extern int qemu_plugin_read_register(struct qemu_plugin_register *, struct byte_array *);
/* No part of the interface; flags.h says what for. */
extern void tcg_cflags_set(void *, uint32_t) __attribute__((weak));
extern _Bool tcg_cflags_has(void *, uint32_t) __attribute__((weak));
extern __thread void *current_cpu __attribute__((weak, tls_model("initial-exec")));
extern struct byte_array *g_byte_array_new(void);
extern struct byte_array *g_byte_array_set_size(struct byte_array *, unsigned int);

enum { NO_REGISTERS = 0, READ_REGISTERS = 1, READ_AND_WRITE = 3, INLINE_ADD = 0 };
/* The scoreboard of instruction counts moves only when a seventeenth CPU comes. */
enum { CPUS = 16 };

#endif
