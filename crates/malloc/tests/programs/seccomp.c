/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A process that confines itself to what glibc's malloc and threads need, then allocates, frees and
 * idles, with and without other threads. Any other system call kills it. Arguments: threads, how
 * the filter is set, and "late" to idle with other threads before.
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
/* A filter that the C library knows nothing of is seen in /proc only. */
static const int FILES[] = {SYS_openat, SYS_read, SYS_close};
/* What the next program needs to start. */
static const int START[] = {
#ifdef __x86_64__
	SYS_access, SYS_arch_prctl, SYS_readlink,
#else
	SYS_faccessat,
#endif
	SYS_execve, SYS_pread64, SYS_prlimit64, SYS_sched_getaffinity, SYS_rt_sigaction,
	SYS_readlinkat,
};

static char how = 'p';
static struct sock_filter code[80];
static int length;

static void statement(unsigned short kind, unsigned value, int past)
{
	code[length++] = (struct sock_filter)BPF_JUMP(kind, value, past, 0);
}

/* Jumps to the last statement, which allows. */
static void allow(const int *calls, int count, int total)
{
	for (int at = 0; at < count; at++)
		statement(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[at], total - length - 2);
}

static long instruction(long number, long a, long b, long c)
{
#ifdef __x86_64__
	register long fourth __asm__("r10") = 0;
	register long fifth __asm__("r8") = 0;

	__asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
			 : "rcx", "r11", "memory");
	return number;
#else
	register long call __asm__("x8") = number, first __asm__("x0") = a;
	register long second __asm__("x1") = b, third __asm__("x2") = c;
	register long fourth __asm__("x3") = 0, fifth __asm__("x4") = 0;

	__asm__ volatile("svc #0" : "+r"(first) : "r"(call), "r"(second), "r"(third), "r"(fourth),
			 "r"(fifth) : "memory");
	return first;
#endif
}

#define LENGTH(list) ((int)(sizeof(list) / sizeof *(list)))

static int confine(void)
{
	int files = how == 'i' || how == 'e' ? LENGTH(FILES) : 0;
	int start = how == 'e' ? LENGTH(START) : 0;
	int total = LENGTH(ALLOWED) + files + start + 3;
	struct sock_fprog program = {.len = total, .filter = code};

	statement(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0);
	allow(ALLOWED, LENGTH(ALLOWED), total);
	allow(FILES, files, total);
	allow(START, start, total);
	statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0);
	statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0);
	if (how == 's')
		return syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
	if (how == 'i')
		return instruction(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0) ||
		       instruction(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program);
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

	how = count > 2 ? *arguments[2] : how;
	if (threads && pthread_create(&thread, NULL, work, NULL))
		return 1;
	if (count > 3)
		churn();
	if (how != 'n' && confine()) {
		puts("ok: no filter can be set here");
		return 0;
	}
	if (how == 'e')
		execl("/proc/self/exe", "seccomp", arguments[1], "none", NULL);
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
