// SPDX-License-Identifier: GPL-2.0-only
/*
 * The markers of marker.h for scripts.
 *
 * mark begin|end|point [VALUE]	one marker with that argument, 0 if there is none
 * mark around VALUE COMMAND...	begin, the command, end: both in one process, which reads the
 *				kernel's counts too (roi.h). The exit status is that of the command.
 *
 * exit: 2 bad usage, or the command cannot be run
 */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "roi.h"

extern char **environ;

static unsigned long number(const char *text)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 0);
	if (errno || end == text || *end || *text == '-') {
		fprintf(stderr, "mark: VALUE '%s' is no number from 0 to 2^64-1\n", text);
		exit(2);
	}
	return value;
}

/* Without a copy of this process: fork() would have it fault in its own pages anew. */
static int around(unsigned long value, char **command)
{
	pid_t pid;
	int error, status = 0;

	roi_prepare();
	ample_marker_begin(value);
	error = posix_spawnp(&pid, command[0], NULL, NULL, command, environ);
	if (!error && waitpid(pid, &status, 0) != pid)
		error = errno;
	ample_marker_end(value);
	roi_finish();
	if (error) {
		fprintf(stderr, "mark: cannot run %s: %s\n", command[0], strerror(error));
		return 2;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	unsigned long value;

	if (!strcmp(what, "around") && argc > 3)
		return around(number(argv[2]), argv + 3);
	value = argc == 3 ? number(argv[2]) : 0;
	if (argc > 3)
		what = "";
	if (!strcmp(what, "begin")) {
		roi_prepare();
		ample_marker_begin(value);
	} else if (!strcmp(what, "end")) {
		ample_marker_end(value);
		roi_finish();
	} else if (!strcmp(what, "point")) {
		ample_marker_point(value);
	} else {
		fprintf(stderr, "usage: mark begin|end|point [VALUE]\n"
			"       mark around VALUE COMMAND [ARGUMENT...]\n");
		return 2;
	}
	return 0;
}
