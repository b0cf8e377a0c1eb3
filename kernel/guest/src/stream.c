// SPDX-License-Identifier: GPL-2.0-only
/*
 * Streams of bytes between two machines, whose readers are slow: what is sent and not yet read lies
 * in the memory of the sender's kernel, or of the reader's.
 *
 * stream serve PORT
 *	sends to who asks for bytes and reads from who has some, all at once, until SIGTERM. Prints
 *	what went through and how much of it was wrong.
 * stream load HOST PORT CONNECTIONS KIB SEED
 *	that many connections at once, of KIB each: a third reads what the server copies into its
 *	socket, a third what it sends from where it lies (MSG_ZEROCOPY), a third sends. Each byte
 *	read is compared.
 *
 * exit: 1 a byte was wrong, 2 bad usage or no connection
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PATTERN (64UL << 10)	/* the bytes of a stream repeat after so many */
#define SENT (64UL << 20)	/* memory that is sent from */
#define PIECE (128UL << 10)	/* read at a time, before a pause */
#define PAUSE_MS 600		/* at most */
#define STREAMS 1024
#define BACKLOG 256
#define QUEUE (512 << 10)	/* what a socket that sends may hold */

#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif
#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif

enum mode { COPIED, IN_PLACE, FROM_CLIENT };

/* What a client sends first. */
struct request {
	uint32_t mode, kib;
};

struct stream {
	int fd, sends, in_place;
	uint64_t done, bytes, start;	/* start: where in the memory that is sent from */
	long resume_ms;			/* paused until then, 0 if it is not */
	struct request asked;
	size_t known;			/* bytes of the request so far */
};

static struct stream streams[STREAMS];
static int used, poller;
static char *memory;
static uint64_t sent, got, wrong, state = 1;
static volatile sig_atomic_t ended;

static void die(const char *what)
{
	fprintf(stderr, "stream: %s: %s\n", what, strerror(errno));
	exit(2);
}

static uint64_t rng(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void prepare(void)
{
	memory = mmap(NULL, SENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die("mmap");
	for (size_t i = 0; i < SENT; i++)
		memory[i] = (char)(i % PATTERN * 131 + (i % PATTERN >> 8));
	poller = epoll_create1(0);
	if (poller < 0)
		die("epoll");
}

static void watch(struct stream *s, int operation, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u32 = (uint32_t)(s - streams)};

	if (epoll_ctl(poller, operation, s->fd, &event))
		die("epoll");
}

static struct stream *begin(int fd, uint32_t events)
{
	struct stream *s = streams;

	while (s < streams + STREAMS && s->fd)
		s++;
	if (s == streams + STREAMS) {
		close(fd);
		return NULL;
	}
	*s = (struct stream){.fd = fd};
	used++;
	watch(s, EPOLL_CTL_ADD, events);
	return s;
}

static void end(struct stream *s)
{
	close(s->fd);
	s->fd = 0;
	used--;
}

/* Begins to send or to read, as was asked. */
static void set_out(struct stream *s, int sends)
{
	int one = 1, queue = QUEUE;

	s->sends = sends;
	s->bytes = (uint64_t)s->asked.kib << 10;
	s->start = rng() % (SENT / PATTERN / 2) * PATTERN;
	s->in_place = s->asked.mode == IN_PLACE &&
		      !setsockopt(s->fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one));
	if (sends)
		setsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &queue, sizeof(queue));
	watch(s, EPOLL_CTL_MOD, sends ? EPOLLOUT : EPOLLIN);
}

/* Takes the notes of what was sent in place, which count as pins of the sender's until then. */
static void take_notes(const struct stream *s)
{
	char control[256];
	struct msghdr message = {.msg_control = control};

	do
		message.msg_controllen = sizeof(control);
	while (recvmsg(s->fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0);
}

/* Sends what fits; 0 when the stream is over. */
static int send_some(struct stream *s)
{
	while (s->done < s->bytes) {
		uint64_t left = s->bytes - s->done, at = s->start + s->done % (SENT / 2);
		size_t most = left < PIECE ? left : PIECE;
		int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (s->in_place ? MSG_ZEROCOPY : 0);
		ssize_t n;

		if (at + most > SENT)
			most = SENT - at;
		n = send(s->fd, memory + at, most, flags);
		if (n < 0 && errno == ENOBUFS && s->in_place) {
			/* no more may be pinned: what was sent in place has to go first */
			take_notes(s);
			s->in_place = 0;
			continue;
		}
		if (n < 0)
			return errno == EAGAIN;
		s->done += (uint64_t)n;
		sent += (uint64_t)n;
	}
	/* The reader closes when it has all. */
	watch(s, EPOLL_CTL_MOD, EPOLLRDHUP);
	return 1;
}

/* Reads a piece and pauses; 0 when the stream is over. */
static int read_some(struct stream *s)
{
	static char piece[PIECE];
	uint64_t left = s->bytes - s->done;
	ssize_t n = recv(s->fd, piece, left < PIECE ? left : PIECE, MSG_DONTWAIT);

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	for (ssize_t from = 0; from < n;) {
		uint64_t at = (s->done + (uint64_t)from) % PATTERN;
		uint64_t most = (uint64_t)(n - from);

		if (most > PATTERN - at)
			most = PATTERN - at;
		wrong += !!memcmp(piece + from, memory + at, most);
		from += (ssize_t)most;
	}
	s->done += (uint64_t)n;
	got += (uint64_t)n;
	if (s->done == s->bytes)
		return 0;
	s->resume_ms = now_ms() + 1 + (long)(rng() % PAUSE_MS);
	watch(s, EPOLL_CTL_MOD, 0);
	return 1;
}

/* The server: learns what a client wants; 0 if it has gone. */
static int take_request(struct stream *s)
{
	char *to = (char *)&s->asked + s->known;
	ssize_t n = recv(s->fd, to, sizeof(s->asked) - s->known, MSG_DONTWAIT);

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	s->known += (size_t)n;
	if (s->known == sizeof(s->asked))
		set_out(s, s->asked.mode != FROM_CLIENT);
	return 1;
}

static void go_on(struct stream *s, uint32_t events)
{
	int lives = 1;

	if (events & EPOLLERR && s->in_place)
		take_notes(s);
	if (s->known < sizeof(s->asked))
		lives = take_request(s);
	else if (s->sends && s->done < s->bytes)
		lives = send_some(s);
	else if (s->sends)
		lives = !(events & (EPOLLRDHUP | EPOLLHUP));
	else if (!s->resume_ms)
		lives = read_some(s);
	if (!lives)
		end(s);
}

/* One round of events; paused readers go on when their time has come. */
static void turn(int listener)
{
	struct epoll_event events[64];
	int n = epoll_wait(poller, events, 64, 20);
	long now = now_ms();

	for (int i = 0; i < n; i++) {
		uint32_t at = events[i].data.u32;

		if (at < STREAMS && streams[at].fd) {
			go_on(&streams[at], events[i].events);
		} else if (at == STREAMS) {
			int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);

			if (fd >= 0)
				begin(fd, EPOLLIN);
		}
	}
	for (struct stream *s = streams; s < streams + STREAMS; s++) {
		if (s->fd && s->resume_ms && s->resume_ms <= now) {
			s->resume_ms = 0;
			watch(s, EPOLL_CTL_MOD, EPOLLIN);
		}
	}
}

static void on_term(int signal)
{
	(void)signal;
	ended = 1;
}

static int report(void)
{
	printf("{\"sent_bytes\": %lu, \"read_bytes\": %lu, \"wrong_pieces\": %lu}\n", sent, got,
	       wrong);
	return wrong ? 1 : 0;
}

static int serve(const char *port)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = STREAMS};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&any, sizeof(any)) || listen(listener, BACKLOG))
		die("listen");
	if (epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event))
		die("epoll");
	signal(SIGTERM, on_term);
	while (!ended)
		turn(listener);
	return report();
}

static int load(char **words)
{
	struct sockaddr_in server = {.sin_family = AF_INET};
	int connections = atoi(words[2]);

	server.sin_addr.s_addr = inet_addr(words[0]);
	server.sin_port = htons((uint16_t)atoi(words[1]));
	state = strtoul(words[4], NULL, 10) * 2654435761UL + 1;
	for (int i = 0; i < connections; i++) {
		struct request asked = {.mode = (uint32_t)i % 3, .kib = (uint32_t)atoi(words[3])};
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		struct stream *s;

		if (connect(fd, (struct sockaddr *)&server, sizeof(server)) ||
		    write(fd, &asked, sizeof(asked)) != sizeof(asked))
			die(words[0]);
		s = begin(fd, 0);
		if (!s)
			die("too many connections");
		s->asked = asked;
		s->known = sizeof(asked);
		set_out(s, asked.mode == FROM_CLIENT);
		s->in_place = 0;
	}
	while (used)
		turn(-1);
	return report();
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (argc == 3 && !strcmp(argv[1], "serve")) {
		prepare();
		return serve(argv[2]);
	}
	if (argc == 7 && !strcmp(argv[1], "load")) {
		prepare();
		return load(argv + 2);
	}
	fprintf(stderr, "usage: stream serve PORT | stream load HOST PORT CONNECTIONS KIB SEED\n");
	return 2;
}
