/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A machine with a migration engine and nothing else: 32-bit code without paging, booted by QEMU
 * as a multiboot image, that finds the engine on the PCI bus, moves pages and says on the console
 * what is not as it should be. tests/engine_guest.rs builds and boots it.
 */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

__asm__(".text\n.align 4\n.long 0x1badb002, 0, -0x1badb002\n"
	".globl _start\n_start: cli\nmovl $0x180000, %esp\ncall work\n");

enum { INSTALL = 1, MIGRATE, CLEAR, RESET };
enum { RING = 1024, PAGE = 4096, MOVES = 20000, PLACES = 257 };

struct shared {
	u64 magic, version, design, entries, bytes, writes, records, gap[1];
	volatile u64 written, taken, gap2[6];
	volatile u64 completed, read, gap3[494];
	struct { u32 reg, tag; u64 value; } write[RING];
	struct record { u64 source, destination; u32 pages, doorbell, status, tag; } record[RING];
};

static volatile u32 *registers;
static struct shared *shared;
static struct record last;
static u32 failures, tag;

static inline void outb(u32 port, u8 value)
{
	__asm__ volatile("outb %0, %w1" : : "a"(value), "d"(port));
}

static inline u32 pci(u32 device, u32 at)
{
	u32 value;

	__asm__ volatile("outl %0, %w1" : : "a"(0x80000000u | device << 11 | at), "d"(0xcf8));
	__asm__ volatile("inl %w1, %0" : "=a"(value) : "d"(0xcfc));
	return value;
}

static void print(const char *text)
{
	for (; *text; text++)
		outb(0x3f8, (u8)*text);
}

static void number(u32 value)
{
	char text[11], *at = text + 10;

	*at = 0;
	do
		*--at = (char)('0' + value % 10);
	while (value /= 10);
	print(at);
}

static void check(int holds, const char *what)
{
	if (holds)
		return;
	failures++;
	print("@@ FAIL ");
	print(what);
	print(", status ");
	number(last.status);
	print("\n");
}

static void off(void)
{
	__asm__ volatile("outw %w0, %w1" : : "a"(0x2000), "d"(0x604));
	for (;;)
		__asm__ volatile("hlt");
}

static void write(u32 reg, u64 value)
{
	u32 place = (u32)shared->written & (RING - 1);

	shared->write[place].reg = reg;
	shared->write[place].tag = ++tag;
	shared->write[place].value = value;
	__asm__ volatile("" : : : "memory");
	shared->written++;
}

/* Submits a descriptor and waits for its record; returns the status. */
static u32 submit(u32 source, u32 destination, u32 what)
{
	u64 before = shared->completed;

	write(0, source);
	write(1, destination);
	write(2, 1);
	write(3, what);
	registers[3] = 0;
	while (shared->completed == before)
		__asm__ volatile("pause");
	last = shared->record[(u32)before & (RING - 1)];
	shared->read++;
	check(last.tag == tag && last.doorbell == what, "a record of another doorbell");
	return last.status;
}

static void fill(u32 page, u32 value)
{
	for (u32 at = 0; at < PAGE; at += 4)
		*(volatile u32 *)(page + at) = value + at;
}

static int holds(u32 page, u32 value)
{
	for (u32 at = 0; at < PAGE; at += 4)
		if (*(volatile u32 *)(page + at) != value + at)
			return 0;
	return 1;
}

/* Puts code there that returns `value`. */
static void code(u32 page, u32 value)
{
	volatile u8 *at = (volatile u8 *)page;

	at[0] = 0xb8;
	*(volatile u32 *)(page + 1) = value;
	at[5] = 0xc3;
}

static u32 call(u32 page)
{
	return ((u32 (*)(void))page)();
}

static void find(void)
{
	for (u32 device = 0; device < 32; device++) {
		if (pci(device, 0) != 0x11101af4)
			continue;
		registers = (volatile u32 *)(pci(device, 0x10) & ~15u);
		shared = (struct shared *)(pci(device, 0x18) & ~15u);
	}
}

static void move_and_abort(u32 a, u32 b)
{
	fill(a, 1);
	fill(b, 2);
	check(submit(a, b, INSTALL) == 1, "install");
	check(holds(b, 1), "the destination shows the source");
	fill(b, 3);
	check(holds(a, 3), "the source shows what the destination's name wrote");
	check(submit(a, b, INSTALL) == 23, "install twice");
	check(submit(b, a, INSTALL) == 24, "overlap");
	check(submit(a, b, CLEAR) == 3, "abort");
	check(holds(a, 3) && holds(b, 2), "both are as before");
	check(submit(a, b, CLEAR) == 22, "clear what is not there");
	check(submit(a, b, INSTALL) == 1 && submit(a, b, MIGRATE) == 2, "start");
	fill(a, 4);
	check(holds(b, 4), "both names, copied");
	check(submit(a, b, CLEAR) == 3, "clear");
	fill(a, 5);
	check(holds(a, 5) && holds(b, 4), "the page has moved");
}

/* What has run at the destination before is not run again. */
static void move_code(u32 a, u32 b)
{
	code(b, 7);
	check(call(b) == 7, "code");
	code(a, 8);
	check(submit(a, b, INSTALL) == 1, "install code");
	check(call(b) == 8, "code by the destination's name");
	check(submit(a, b, CLEAR) == 3 && call(b) == 7, "code after an abort");
	check(submit(a, b, MIGRATE) == 2 && submit(a, b, CLEAR) == 3, "move code");
	check(call(b) == 8, "code that has moved");
}

/* Each page into the place that the one before has left, round and round. */
static void move_in_a_ring(u32 first)
{
	u32 hole = PLACES - 1, seen = 0;

	for (u32 i = 0; i < PLACES - 1; i++)
		fill(first + PAGE * i, i);
	for (u32 i = 0; i < MOVES; i++) {
		u32 from = (hole + PLACES - 1) % PLACES;
		u32 a = first + PAGE * from, b = first + PAGE * hole, value = *(volatile u32 *)a;

		if (submit(a, b, MIGRATE) != 2 || submit(a, b, CLEAR) != 3 || !holds(b, value)) {
			check(0, "a page of the ring");
			return;
		}
		hole = from;
	}
	for (u32 i = 0; i < PLACES; i++)
		if (i != hole)
			seen += *(volatile u32 *)(first + PAGE * i) + 1;
	check(seen == PLACES * (PLACES - 1) / 2, "each page of the ring is there once");
}

void work(void)
{
	u32 a = 0x1000000, b = 0x1100000;

	find();
	if (!shared || shared->magic != 0x3145564f4d504d41ull) {
		print("@@ FAIL there is no engine\n");
		off();
	}
	move_and_abort(a, b);
	move_code(a, b);
	check(submit(0x3000000, 0x4000000, MIGRATE) == 20, "beyond the end of memory");
	check(submit(a + 64, b, MIGRATE) == 18, "unaligned");
	move_in_a_ring(0x2000000);
	write(3, RESET);
	registers[3] = 0;
	print("@@ {\"failures\": ");
	number(failures);
	print("}\n");
	off();
}
