/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Forks from a process with four threads inside malloc; each child allocates up to 4 MiB and exits.
 *
 * A child that is still there after ten seconds is late, and gets a post-mortem: its state, CPU
 * time and where it sleeps, twice, two seconds apart, and a stack if gdb is installed. It counts as
 * hung if it has not finished after two minutes, or if it sleeps without having run between the two
 * looks; a late child that runs and finishes was kept waiting for a processor.
 * Prints one JSON object with the longest wall and CPU time of a child. Usage: forks [forks]
 */
#include "common.h"

#include <errno.h>
#include <signal.h>

#define LATE_S 10.0
#define HUNG_S 120.0

static atomic_int stop;

static void *churn(void *argument)
{
	uint64_t seed = (uint64_t)(uintptr_t)argument;
	void *objects[64] = {0};

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		int i = (int)(next_random(&seed) % 64);

		free(objects[i]);
		objects[i] = malloc(log_uniform(&seed, 4, 20));
	}
	for (int i = 0; i < 64; i++)
		free(objects[i]);
	return NULL;
}

static void child(uint64_t seed)
{
	for (int i = 0; i < 400; i++) {
		size_t bytes = log_uniform(&seed, 4, 22);
		char *object = malloc(bytes);

		object[0] = object[bytes - 1] = 1;
		if (i % 3)
			free(object);
	}
	_exit(0);
}

/* A short file of /proc/PID, without its last newline. */
static void read_proc(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	int fd = open(path, O_RDONLY);
	ssize_t len = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[len > 0 ? len : 0] = 0;
	text[strcspn(text, "\n")] = 0;
}

/* The state letter and the CPU time, in clock ticks, from /proc/PID/stat. */
static char look(pid_t pid, unsigned long *ticks)
{
	char text[1024], wchan[128];
	unsigned long user = 0, kernel = 0;
	char state = '?', *after;

	read_proc(pid, "stat", text, sizeof(text));
	after = strrchr(text, ')');
	if (after)
		sscanf(after, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state,
		       &user, &kernel);
	*ticks = user + kernel;
	read_proc(pid, "wchan", wchan, sizeof(wchan));
	fprintf(stderr, "child %d is late: state %c, %lu ticks of CPU, sleeps in %s\n", (int)pid,
		state, *ticks, wchan);
	return state;
}

static void stack(pid_t pid)
{
	char number[16];
	pid_t debugger = vfork();

	snprintf(number, sizeof(number), "%d", (int)pid);
	if (debugger == 0) {
		execlp("env", "env", "-u", "LD_PRELOAD", "gdb", "-batch", "-p", number, "-ex",
		       "thread apply all bt", NULL);
		_exit(127);
	}
	waitpid(debugger, NULL, 0);
}

/* Whether a late child sleeps without running. */
static int is_stuck(pid_t pid)
{
	unsigned long before, after;
	char state = look(pid, &before);

	sleep(2);
	char again = look(pid, &after);

	if (after == before)
		stack(pid);
	return state == 'S' && again == 'S' && after == before;
}

/* Waits for a child; 1 if it hung (it is killed then), 0 with its status and usage otherwise. */
static int reap(pid_t pid, int *status, struct rusage *usage, int *late)
{
	double start = now_s();
	const struct timespec pause = {0, 1000000};

	for (;;) {
		pid_t done = wait4(pid, status, WNOHANG, usage);

		if (done == pid || (done < 0 && errno != EINTR))
			return 0;
		double waited = now_s() - start;
		int stuck = 0;

		if (waited > LATE_S && !*late) {
			*late = 1;
			stuck = is_stuck(pid);
		}
		if (stuck || waited > HUNG_S) {
			kill(pid, SIGKILL);
			wait4(pid, status, 0, usage);
			return 1;
		}
		nanosleep(&pause, NULL);
	}
}

int main(int argc, char **argv)
{
	int forks = argc > 1 ? atoi(argv[1]) : 300, hung = 0, failed = 0, late = 0;
	double longest_s = 0, longest_cpu_s = 0;
	pthread_t threads[4];

	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
	for (int i = 0; i < forks; i++) {
		struct rusage usage = {0};
		int status = 0, this_late = 0;
		double start = now_s();
		pid_t pid = fork();

		if (pid == 0)
			child((uint64_t)i);
		if (reap(pid, &status, &usage, &this_late))
			hung++;
		else if (status)
			failed++;
		late += this_late;
		double took = now_s() - start;
		double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			     (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;

		longest_s = took > longest_s ? took : longest_s;
		longest_cpu_s = cpu > longest_cpu_s ? cpu : longest_cpu_s;
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("{\"forks\": %d, \"hung\": %d, \"failed\": %d, \"late\": %d, \"longest_s\": %.3f, "
	       "\"longest_cpu_s\": %.3f}\n", forks, hung, failed, late, longest_s, longest_cpu_s);
	return hung || failed;
}
