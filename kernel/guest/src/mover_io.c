// SPDX-License-Identifier: GPL-2.0-only
/*
 * Input and output from and into pages that move: everything written has to be there afterwards.
 *
 * usage: mover_io disk FILE MIB MOVES
 *          O_DIRECT writes and reads of a file
 *        mover_io uring FILE MIB MOVES [anew]
 *          the same through buffers registered with io_uring; anew: and registered again each time
 *        mover_io send MIB MOVES
 *          zero-copy sends over loopback
 * Prints one JSON object. exit: 0 all is as written, 1 something is not, 2 could not test
 */
#include "mover.h"
#include <linux/errqueue.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { PIECE = 32 };	/* pages of a transfer, and of a registered buffer */

/* Reads or writes a piece of the file, all of it, from or into its pages of the buffer. */
typedef void transfer(int file, unsigned long piece, int writes);

static struct iovec *pieces;

static void directly(int file, unsigned long piece, int writes)
{
	const struct iovec *p = &pieces[piece];
	off_t at = piece * p->iov_len;
	ssize_t done = writes ? pwritev(file, p, 1, at) : preadv(file, p, 1, at);

	if (done != (ssize_t)p->iov_len)
		die("mover: direct I/O");
}

/*
 * A device reads and writes pages while they move: what it has fetched must be what was written.
 * `after` is done to a piece between two.
 */
static int files(char **argv, void (*begin)(void), transfer *transfer, void (*after)(unsigned long))
{
	int file = open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
	uint64_t wrong = 0, done = 0, state = 7, *is;
	double from = seconds();
	pthread_t thread;

	if (file < 0)
		die(argv[2]);
	allocate(argv[3]);
	wanted = strtoul(argv[4], NULL, 0);
	is = calloc(pages, sizeof(*is));
	pieces = calloc(pages / PIECE, sizeof(*pieces));
	for (unsigned long i = 0; i < pages / PIECE; i++)
		pieces[i] = (struct iovec){ buffer + i * PIECE * PAGE, PIECE * PAGE };
	begin();
	pthread_create(&thread, NULL, mover, NULL);
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		unsigned long piece = drawn(&state) % (pages / PIECE), p = piece * PIECE, i;

		for (i = p; i < p + PIECE; i++)
			fill((uint64_t *)(buffer + i * PAGE), ++is[i]);
		transfer(file, piece, 1);
		memset(pieces[piece].iov_base, 0xee, pieces[piece].iov_len);
		transfer(file, piece, 0);
		for (i = p; i < p + PIECE; i++)
			wrong += differs((uint64_t *)(buffer + i * PAGE), is[i]);
		done += 2 * PIECE;
		after(piece);
	}
	pthread_join(thread, NULL);
	for (unsigned long p = 0; p < pages; p++)
		if (is[p])
			wrong += differs((uint64_t *)(buffer + p * PAGE), is[p]);
	close(file);
	return report(seconds() - from, done, wrong, 0);
}

static void nothing(void) { }
static void nothing_of(unsigned long piece) { (void)piece; }

/* A ring with room for one entry at a time. */
static struct {
	int fd;
	uint32_t *submit_tail, *done_head, *done_tail, mask;
	struct io_uring_sqe *entries;
	struct io_uring_cqe *done;
} ring;

static void register_pieces(void)
{
	struct io_uring_params p = { 0 };
	char *submitted, *done;

	ring.fd = syscall(__NR_io_uring_setup, 1, &p);
	submitted = mmap(NULL, p.sq_off.array + 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
			 IORING_OFF_SQ_RING);
	done = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(*ring.done), PROT_READ | PROT_WRITE,
		    MAP_SHARED, ring.fd, IORING_OFF_CQ_RING);
	ring.entries = mmap(NULL, sizeof(*ring.entries), PROT_READ | PROT_WRITE, MAP_SHARED,
			    ring.fd, IORING_OFF_SQES);
	if (submitted == MAP_FAILED || done == MAP_FAILED || ring.entries == MAP_FAILED)
		die("mover: io_uring");
	ring.submit_tail = (uint32_t *)(submitted + p.sq_off.tail);
	ring.done_head = (uint32_t *)(done + p.cq_off.head);
	ring.done_tail = (uint32_t *)(done + p.cq_off.tail);
	ring.mask = *(uint32_t *)(done + p.cq_off.ring_mask);
	ring.done = (struct io_uring_cqe *)(done + p.cq_off.cqes);
	if (syscall(__NR_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, pieces,
		    pages / PIECE))
		die("mover: registering buffers");
}

static void by_ring(int file, unsigned long piece, int writes)
{
	const struct iovec *b = &pieces[piece];
	uint32_t head = *ring.done_head;

	*ring.entries = (struct io_uring_sqe){
		.opcode = writes ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED, .fd = file,
		.off = piece * b->iov_len, .addr = (uintptr_t)b->iov_base, .len = b->iov_len,
		.buf_index = piece,
	};
	__atomic_store_n(ring.submit_tail, *ring.submit_tail + 1, __ATOMIC_RELEASE);
	while (syscall(__NR_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		if (errno != EINTR)
			die("mover: io_uring_enter");
	while (__atomic_load_n(ring.done_tail, __ATOMIC_ACQUIRE) == head)
		usleep(10);
	if (ring.done[head & ring.mask].res != (int)b->iov_len) {
		errno = -ring.done[head & ring.mask].res;
		die("mover: registered buffer");
	}
	__atomic_store_n(ring.done_head, head + 1, __ATOMIC_RELEASE);
}

/* Where the kernel is no owner, old frames go with what was registered before. */
static void register_again(unsigned long piece)
{
	struct io_uring_rsrc_update2 again = {
		.offset = piece, .nr = 1, .data = (uintptr_t)&pieces[piece],
	};

	if (syscall(__NR_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS_UPDATE, &again,
		    sizeof(again)) != 1)
		die("mover: registering again");
}

static int pair[2];
static uint64_t received, garbled;

static void *receive(void *arg)
{
	static uint64_t page[PAGE / 8];

	(void)arg;
	for (;;) {
		size_t have = 0;

		while (have < PAGE) {
			ssize_t got = read(pair[1], (char *)page + have, PAGE - have);

			if (got <= 0)
				return NULL;
			have += got;
		}
		/* The first word says which page it is, the others follow from it. */
		for (unsigned long i = 1; i < PAGE / 8; i++)
			garbled += page[i] != (page[0] ^ i * 0x9e3779b97f4a7c15ULL);
		received++;
	}
}

static void connected(void)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t length = sizeof(at);
	int one = 1, listening = socket(AF_INET, SOCK_STREAM, 0);

	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listening, (void *)&at, length) || listen(listening, 1) ||
	    getsockname(listening, (void *)&at, &length) || connect(pair[0], (void *)&at, length))
		die("mover: loopback");
	pair[1] = accept(listening, NULL, NULL);
	if (pair[1] < 0 || setsockopt(pair[0], SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)))
		die("mover: socket");
}

/* Waits until the kernel has let go of the pages of `sends` sends in all. */
static void completed(uint32_t sends, uint32_t *done)
{
	while (*done != sends) {
		char control[128];
		struct msghdr message = {
			.msg_control = control, .msg_controllen = sizeof(control),
		};
		struct pollfd wait = { .fd = pair[0] };
		struct cmsghdr *head;

		poll(&wait, 1, 100);
		if (recvmsg(pair[0], &message, MSG_ERRQUEUE) < 0)
			continue;
		head = CMSG_FIRSTHDR(&message);
		if (head)
			*done = ((struct sock_extended_err *)CMSG_DATA(head))->ee_data + 1;
	}
}

static int send_all(char **argv)
{
	uint64_t value = 0, sent = 0, wrong = 0, state = 99;
	uint32_t sends = 0, done = 0;
	double from = seconds();
	pthread_t thread, reader;

	allocate(argv[2]);
	wanted = strtoul(argv[3], NULL, 0);
	connected();
	pthread_create(&reader, NULL, receive, NULL);
	pthread_create(&thread, NULL, mover, NULL);
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		unsigned long at = drawn(&state) % pages & ~7UL;
		size_t left = 8 * PAGE;

		for (unsigned long p = at; p < at + 8; p++) {
			uint64_t *page = (uint64_t *)(buffer + p * PAGE);

			page[0] = ++value;
			for (unsigned long i = 1; i < PAGE / 8; i++)
				page[i] = value ^ i * 0x9e3779b97f4a7c15ULL;
		}
		while (left) {
			ssize_t put = send(pair[0], buffer + (at + 8) * PAGE - left, left,
					   MSG_ZEROCOPY);

			if (put < 0 && errno == ENOBUFS) {
				completed(sends, &done);
				continue;
			}
			if (put <= 0)
				die("mover: send");
			left -= put;
			sends++;
		}
		sent += 8;
		completed(sends, &done);
	}
	pthread_join(thread, NULL);
	shutdown(pair[0], SHUT_WR);
	pthread_join(reader, NULL);
	wrong = garbled + (received != sent);
	return report(seconds() - from, sent, wrong, 0);
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "disk"))
		return files(argv, nothing, directly, nothing_of);
	if ((argc == 5 || argc == 6) && !strcmp(argv[1], "uring"))
		return files(argv, register_pieces, by_ring,
			     argc == 6 ? register_again : nothing_of);
	if (argc == 4 && !strcmp(argv[1], "send"))
		return send_all(argv);
	fprintf(stderr, "usage: mover_io disk FILE MIB MOVES | uring FILE MIB MOVES [anew] | "
		"send MIB MOVES\n");
	return 2;
}
