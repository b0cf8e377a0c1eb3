/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A process that confines itself to what glibc's malloc and threads need, then allocates, frees and
 * idles, with and without other threads. Any other system call kills it.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int ALLOWED[] = {
	SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_mprotect, SYS_futex,
	SYS_clock_nanosleep, SYS_clock_gettime, SYS_write, SYS_exit, SYS_exit_group, SYS_clone,
	SYS_clone3, SYS_wait4, SYS_set_robust_list, SYS_rseq, SYS_rt_sigprocmask, SYS_gettid,
	SYS_getpid, SYS_newfstatat, SYS_fstat, SYS_set_tid_address, SYS_rt_sigreturn,
	SYS_getrandom,
};

static int confine(void)
{
	enum { COUNT = sizeof ALLOWED / sizeof *ALLOWED };
	struct sock_filter code[COUNT + 3];
	struct sock_fprog program = {.len = COUNT + 3, .filter = code};

	code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					       offsetof(struct seccomp_data, nr));
	for (int at = 0; at < COUNT; at++)
		code[1 + at] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							    (unsigned)ALLOWED[at], COUNT - at, 0);
	code[1 + COUNT] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[2 + COUNT] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

static void churn(void)
{
	static __thread void *kept[4000];
	struct timespec pause = {.tv_nsec = 300000000};

	for (int round = 0; round < 6; round++) {
		for (int at = 0; at < 4000; at++)
			memset(kept[at] = malloc(16 + at * 16), 1, 16 + at * 16);
		for (int at = 0; at < 4000; at++)
			free(kept[at]);
		nanosleep(&pause, NULL);
	}
	malloc_trim(0);
}

static void *work(void *argument)
{
	churn();
	return argument;
}

int main(int count, char **arguments)
{
	int threads = count > 1 ? atoi(arguments[1]) : 0;
	pthread_t thread;

	if (threads && pthread_create(&thread, NULL, work, NULL))
		return 1;
	if (confine()) {
		puts("ok: no filter can be set here");
		return 0;
	}
	churn();
	if (threads > 1) {
		pid_t child = fork();
		int status = 0;

		if (child == 0) {
			churn();
			_exit(0);
		}
		if (waitpid(child, &status, 0) != child || status != 0)
			return 2;
	}
	if (threads)
		pthread_join(thread, NULL);
	if (write(1, "ok\n", 3) != 3)
		return 3;
	_exit(0);
}
