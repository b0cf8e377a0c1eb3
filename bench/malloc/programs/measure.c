/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Runs a command and prints wall and CPU seconds and the peak of its RSS. A small program of its
 * own, because the peak that the kernel reports for a child begins with the size of its parent.
 * Usage: measure COUNT LIBRARY|- COMMAND... (the command's output goes nowhere)
 */
#include "common.h"

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	int count = atoi(argv[1]), failed = 0;
	double start = now_s();

	for (int i = 0; i < count; i++) {
		pid_t pid = fork();
		int status = 0;

		if (pid == 0) {
			int null = open("/dev/null", O_WRONLY);

			dup2(null, 1);
			dup2(null, 2);
			if (strcmp(argv[2], "-"))
				setenv("LD_PRELOAD", argv[2], 1);
			execvp(argv[3], argv + 3);
			_exit(127);
		}
		waitpid(pid, &status, 0);
		failed |= status != 0;
	}
	struct rusage usage;
	double wall = now_s() - start;

	getrusage(RUSAGE_CHILDREN, &usage);
	double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		     (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;

	printf("{\"wall_s\": %.5f, \"cpu_s\": %.5f, \"peak_mib\": %.2f}\n", wall / count,
	       cpu / count, (double)usage.ru_maxrss / 1024);
	return failed;
}
