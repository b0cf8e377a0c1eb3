/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The first process of a guest that tries the allocator: runs each line of /tests and turns the
 * machine off. A line is the options of the allocator, a bar, and a command; the command runs under
 * the library with those options. For each it prints its number, its status, its seconds and
 * the end of its output.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 16, BYTES = 1 << 16, SHOWN = 16000 };

/* The end of what a command printed, as one line. */
static const char *shown(char *text, size_t bytes)
{
	text[bytes] = 0;
	for (size_t at = 0; at < bytes; at++)
		if (text[at] == '\n' || text[at] == '\r')
			text[at] = ' ';
	return bytes > SHOWN ? text + bytes - SHOWN : text;
}

static void run(int number, const char *options, char *command)
{
	static char output[BYTES + 1];
	char *words[WORDS + 1] = {NULL}, *rest = command;
	int pipes[2], status = 0, count = 0;
	size_t bytes = 0;
	ssize_t more;
	time_t start = time(NULL);

	printf("RUN %d %s %s\n", number, options, command);
	fflush(stdout);
	while (count < WORDS && (words[count] = strsep(&rest, " ")))
		count++;
	if (pipe(pipes))
		return;
	pid_t child = fork();

	if (child == 0) {
		dup2(pipes[1], 1);
		dup2(pipes[1], 2);
		close(pipes[0]);
		close(pipes[1]);
		setenv("AMPLE_MALLOC", options, 1);
		setenv("LD_PRELOAD", "/lib/libample_malloc.so", 1);
		execv(words[0], words);
		_exit(127);
	}
	close(pipes[1]);
	/* What is beyond the room overwrites the last half. */
	while ((more = read(pipes[0], output + bytes, BYTES - bytes)) > 0) {
		bytes += (size_t)more;
		if (bytes == BYTES) {
			memmove(output, output + BYTES / 2, BYTES / 2);
			bytes = BYTES / 2;
		}
	}
	close(pipes[0]);
	waitpid(child, &status, 0);
	printf("TEST %d %d %ld %s\n", number, status, (long)(time(NULL) - start),
	       shown(output, bytes));
	fflush(stdout);
}

int main(void)
{
	static char line[4096];
	int number = 0;

	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/tmp", 0777);
	mkdir("/dev", 0755);
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("tmpfs", "/tmp", "tmpfs", 0, NULL);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	FILE *tests = fopen("/tests", "r");

	while (tests && fgets(line, sizeof(line), tests)) {
		line[strcspn(line, "\n")] = 0;
		char *bar = strchr(line, '|');

		if (!bar)
			continue;
		*bar = 0;
		run(number++, line, bar + 1);
	}
	printf("TEST end\n");
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	return 0;
}
