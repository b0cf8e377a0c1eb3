/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A QEMU system-mode plugin for x86-64 guests (plugin API version 4, QEMU 9.2 and later): what
 * translation hardware sees of a whole machine between two markers, one ring of words a CPU.
 *
 * Build: gcc -O2 -fPIC -shared -fvisibility=hidden -o libample_system.so ample_system.c
 * Use:   qemu-system-x86_64 -plugin libample_system.so,dir=DIR,low=BYTES[,verify=1] with guest
 *        memory in the shared file DIR/ram and a file DIR/ring.N for each CPU.
 *
 * A ring's words are told in crates/system/src/wire.rs. Where an access needs a translation that
 * the ring has not told since the last flush, the guest's page tables are read where they lie and
 * the way down goes into the ring before the access: the reader never asks a table that the guest
 * may have changed meanwhile.
 */
#include "flags.h"
#include "registers.h"
#include "tables.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

/* As a symbol this is what QEMU checks before it calls qemu_plugin_install. */
__attribute__((visibility("default"))) int qemu_plugin_version = 4;

/* `count`: the instructions before the region, of which the last may be its marker. */
static void begin(struct vcpu *v, uint64_t value, uint64_t count)
{
	uint64_t more[3] = { value, v->cr3, count };

	v->recording = 1;
	v->last = count;
	v->line = UINT64_MAX;
	v->epoch[0] = v->epoch[1] = ++v->clock;
	advance(v);
	event(v, OP_BEGIN, v->index, 3, more);
}

/* `count`: the instructions up to the end of the region, without its marker. */
static void end(struct vcpu *v, uint64_t value, uint64_t count)
{
	uint64_t stats[4] = { count, v->mismatches, v->unmapped, v->compared };
	uint64_t more[2] = { value, count };

	event(v, OP_STATS, v->index, 4, stats);
	event(v, OP_END, v->index, 2, more);
	v->recording = 0;
	publish(v);
}

/* Instructions since the last access, as far as they fit; joined: the same one. */
static inline uint64_t gap_of(struct vcpu *v)
{
	uint64_t count = *v->count, gap = count - v->last;

	v->last = count;
	if (gap == 0)
		return 1ull << 62;
	if (--gap < 256)
		return gap << 48;
	event(v, OP_GAP, gap, 0, NULL);
	return 0;
}

static void compare(struct vcpu *v, meminfo info, uint64_t va, uint64_t entry)
{
	struct qemu_plugin_hwaddr *at = qemu_plugin_get_hwaddr(info, va);

	if (!at)
		return;
	v->compared++;
	if (qemu_plugin_hwaddr_phys_addr(at) != ((entry & FRAME) | (va & 0xfff)))
		v->mismatches++;
}

static void on_access(unsigned int cpu, meminfo info, uint64_t va, void *data)
{
	struct vcpu *v = vcpus[cpu];
	uint64_t gap, page = va >> 12;
	struct known *k;
	int store;

	if (!v->recording)
		return;
	take_turn(v);
	k = &v->pages[page & (PAGES - 1)];
	store = qemu_plugin_mem_is_store(info);
	if (!is_known(v, k, page) || (store && !(k->entry & WRITE)))
		learn(v, va);
	if (verify)
		compare(v, info, va, k->entry);
	gap = gap_of(v);
	word(v, (va & VA_MASK) | gap | (uint64_t)qemu_plugin_mem_size_shift(info) << 56 |
		(uint64_t)store << 59 | (uint64_t)(uintptr_t)data << 61);
	ended(v);
}

static void on_line(unsigned int cpu, void *data)
{
	struct vcpu *v = vcpus[cpu];
	uint64_t line = (uintptr_t)data, gap;
	struct known *k;

	if (!v->recording || line == v->line)
		return;
	take_turn(v);
	v->line = line;
	k = &v->pages[line >> 12 & (PAGES - 1)];
	if (!is_known(v, k, line >> 12))
		learn(v, line);
	/* The instruction that is fetched has been counted; it comes after the fetch. */
	gap = *v->count - 1 - v->last;
	if (gap > 255) {
		event(v, OP_GAP, gap, 0, NULL);
		gap = 0;
	}
	v->last = *v->count - 1;
	word(v, (line & VA_MASK) | gap << 48 | 6ull << 56 | (uint64_t)KIND_FETCH << 59 |
		line >> 63 << 61);
	ended(v);
}

static void on_idle(plugin_id id, unsigned int cpu)
{
	struct vcpu *v = vcpus[cpu];

	(void)id;
	end_with_reader();
	if (v && v->recording)
		publish(v);
}

static void refuse(struct vcpu *v, int reason)
{
	event(v, OP_REFUSED, (uint64_t)reason, 0, NULL);
	publish(v);
}

static void invalidate(struct vcpu *v, uint64_t va)
{
	struct known *page = &v->pages[va >> 12 & (PAGES - 1)];
	struct known *large = &v->larges[va >> 21 & (LARGES - 1)];

	if (page->page == (va >> 12) + 1)
		page->page = 0;
	/* Of a large page every 4 KB may be known: forget all. */
	if (is_known(v, large, va >> 21)) {
		large->page = 0;
		v->epoch[0] = v->epoch[1] = ++v->clock;
	}
	event(v, OP_INVLPG, va, 0, NULL);
}

static void register_callbacks(plugin_id id);

/*
 * Outside of regions only what must not be missed is watched: loads of CR3 and of the IDT, and
 * markers. All code is translated anew where a region begins or ends, once the block that marks it
 * is over.
 */
static void watch_all(int all)
{
	if (watching == all)
		return;
	watching = all;
	qemu_plugin_reset(own_id, register_callbacks);
}

static void mark(struct vcpu *v, int code)
{
	const uint64_t la57 = 1 << 12, long_mode = 1 << 10;
	uint64_t value = read_register(registers[7]);

	if (code == 2) {
		if (v->recording)
			event(v, OP_POINT, v->index, 1, &value);
		return;
	}
	watch_all(code == 0);
	/* CPUs take turns in this thread (-icount): the others stand between two blocks. */
	for (int i = 0; i < CPUS; i++) {
		struct vcpu *other = vcpus[i];

		if (other && code == 0 && !other->recording)
			begin(other, value, *other->count);
		else if (other && code == 1 && other->recording)
			end(other, value, *other->count - (other == v));
	}
	if (!v->recording)
		return;
	if (read_register(cr4) & la57)
		refuse(v, REFUSED_LA57);
	else if (!(read_register(efer) & long_mode) || !(read_register(cr0) >> 31))
		refuse(v, REFUSED_NO_LONG_MODE);
}

static void on_special(unsigned int cpu, void *data)
{
	struct vcpu *v = vcpus[cpu];
	struct operand o;
	uint64_t value;

	memcpy(&o, &data, sizeof(o));
	switch (o.special) {
	case SPECIAL_CR3:
		v->cr3 = value = read_register(registers[o.base]);
		v->epoch[0] = ++v->clock;
		if (v->recording)
			event(v, OP_CR3, 0, 1, &value);
		break;
	case SPECIAL_CR0:
	case SPECIAL_CR4:
		v->epoch[0] = v->epoch[1] = ++v->clock;
		if (v->recording)
			event(v, OP_FLUSH, o.special == SPECIAL_CR4 ? 4 : 0, 0, NULL);
		break;
	case SPECIAL_LIDT:
		read_gates(v, address_of(&o));
		break;
	case SPECIAL_INVLPG:
		if (v->recording)
			invalidate(v, address_of(&o));
		break;
	case SPECIAL_INVPCID:
	case SPECIAL_VIRTUAL:
		if (v->recording)
			refuse(v, o.special == SPECIAL_VIRTUAL ? REFUSED_VIRTUAL : REFUSED_INVPCID);
		break;
	case SPECIAL_MARKER:
		mark(v, o.displacement & 0xff);
		break;
	default:
		break;
	}
}

static void on_return(unsigned int cpu, void *data)
{
	struct vcpu *v = vcpus[cpu];

	(void)data;
	if (v->recording)
		event(v, OP_RETURN, 0, 0, NULL);
}

static void on_interrupt(unsigned int cpu, void *data)
{
	struct vcpu *v = vcpus[cpu];

	if (v->recording)
		event(v, OP_INTERRUPT, (uintptr_t)data, 0, NULL);
}

static struct operand decoded(struct qemu_plugin_insn *insn)
{
	uint8_t code[16] = { 0 };
	size_t length = qemu_plugin_insn_data(insn, code, sizeof(code) - 1);

	return special_of(code, length, qemu_plugin_insn_vaddr(insn) + length);
}

static void watch(struct qemu_plugin_insn *insn)
{
	struct operand o = decoded(insn);
	void *data;

	if (o.special == SPECIAL_NONE)
		return;
	memcpy(&data, &o, sizeof(data));
	if (o.special == SPECIAL_IRET)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_return, NO_REGISTERS, NULL);
	else
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_special, READ_REGISTERS, data);
}

/* A block with a marker is watched whole: the region begins inside it. */
static int marks(const struct qemu_plugin_tb *tb, size_t many)
{
	for (size_t i = 0; i < many; i++)
		if (decoded(qemu_plugin_tb_get_insn(tb, i)).special == SPECIAL_MARKER)
			return 1;
	return 0;
}

static void on_translate(plugin_id id, struct qemu_plugin_tb *tb)
{
	size_t many = qemu_plugin_tb_n_insns(tb);
	int all = watching || marks(tb, many);
	plugin_u64 count = { counts, 0 };
	uint64_t line = UINT64_MAX;

	(void)id;
	for (size_t i = 0; i < many; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t va = qemu_plugin_insn_vaddr(insn);
		uintptr_t kernel = va >> 63;

		if (!all) {
			watch(insn);
			continue;
		}
		qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, INLINE_ADD, count, 1);
		for (unsigned int vector = 0; kernel && i == 0 && vector < 256; vector++)
			if (handlers[vector] == va)
				qemu_plugin_register_vcpu_insn_exec_cb(insn, on_interrupt,
						NO_REGISTERS, (void *)(uintptr_t)vector);
		if (va >> 6 != line) {
			line = va >> 6;
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_line, NO_REGISTERS,
					(void *)(uintptr_t)(line << 6));
		}
		watch(insn);
		qemu_plugin_register_vcpu_mem_cb(insn, on_access, NO_REGISTERS, READ_AND_WRITE,
				(void *)kernel);
	}
}

static void *map_file(const char *name, uint64_t *length)
{
	char path[4096];
	struct stat stat;
	void *at;
	int file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0 || fstat(file, &stat) < 0) {
		perror(path);
		exit(1);
	}
	at = mmap(NULL, (size_t)stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (at == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	*length = (uint64_t)stat.st_size;
	return at;
}

static void on_vcpu(plugin_id id, unsigned int cpu)
{
	struct vcpu *v = calloc(1, sizeof(*v));
	char name[32];
	uint64_t length;

	(void)id;
	if (!v || cpu >= CPUS) {
		fprintf(stderr, "ample_system: CPU %u: at most %d\n", cpu, CPUS);
		exit(1);
	}
	snprintf(name, sizeof(name), "ring.%u", cpu);
	v->ring = map_file(name, &length);
	if (v->ring->magic != RING_MAGIC || v->ring->version != RING_VERSION ||
	    length < 4096 + 8 * v->ring->words) {
		fprintf(stderr, "ample_system: %s/%s is no ring of version %d\n", directory, name,
			RING_VERSION);
		exit(1);
	}
	v->index = cpu;
	v->data = (uint64_t *)((char *)v->ring + 4096);
	v->mask = v->ring->words - 1;
	v->clock = v->epoch[0] = v->epoch[1] = 1;
	v->count = qemu_plugin_scoreboard_find(counts, cpu);
	if (!bytes)
		find_registers();
	v->emulated = current_cpu;
	if (!set_flags(current_cpu)) {
		fprintf(stderr, "ample_system: this emulator's blocks cannot be told apart\n");
		exit(1);
	}
	vcpus[cpu] = v;
}

static void on_exit_of_qemu(plugin_id id, void *data)
{
	(void)id, (void)data;
	for (int i = 0; i < CPUS; i++)
		if (vcpus[i] && vcpus[i]->recording)
			end(vcpus[i], 0, *vcpus[i]->count);
}

static void register_callbacks(plugin_id id)
{
	qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
	qemu_plugin_register_vcpu_idle_cb(id, on_idle);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
}

__attribute__((visibility("default")))
int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (strncmp(argv[i], "dir=", 4) == 0)
			directory = strdup(argv[i] + 4);
		else if (strncmp(argv[i], "low=", 4) == 0)
			low_bytes = strtoull(argv[i] + 4, NULL, 10);
		else if (strcmp(argv[i], "verify=1") == 0)
			verify = 1;
	}
	if (!info->system_emulation || strcmp(info->target_name, "x86_64") != 0 || !directory ||
	    !low_bytes) {
		fprintf(stderr, "ample_system: for qemu-system-x86_64, with dir= and low=\n");
		return -1;
	}
	if (!flags_are_reachable()) {
		fprintf(stderr, "ample_system: this emulator hides how its CPUs translate\n");
		return -1;
	}
	/* Outside of regions nobody asks whether the reader still lives. */
	parent = getppid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ram = map_file("ram", &ram_bytes);
	own_id = id;
	counts = qemu_plugin_scoreboard_new(sizeof(uint64_t));
	register_callbacks(id);
	return 0;
}
