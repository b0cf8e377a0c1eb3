/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A region of interest with the kernel's own counts of it, for the programs of this folder.
 *
 * AMPLE_ROI=DIR	/proc/vmstat, stat and interrupts right before the begin and right after the
 *			end are written to DIR/begin.vmstat, DIR/end.vmstat and so on
 * AMPLE_TRACE=1	the tracepoints that somebody has enabled write between the two only
 *
 * The program that executes the markers reads the counts itself, so that nothing else, no shell and
 * no exec, comes between. Without these variables there is nothing but the marker.
 */
#ifndef AMPLE_ROI_H
#define AMPLE_ROI_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "marker.h"

#define TRACING_ON "/sys/kernel/tracing/tracing_on"

/* A failure is told and is no reason to stop: the region is what matters. */
static void roi_counts(const char *when)
{
	static const char * const names[] = { "vmstat", "stat", "interrupts" };
	static char text[3][1 << 18], path[4096];
	const char *dir = getenv("AMPLE_ROI");
	ssize_t len[3] = { 0 };

	if (!dir)
		return;
	for (int i = 0; i < 3; i++) {
		ssize_t n;
		int fd;

		snprintf(path, sizeof(path), "/proc/%s", names[i]);
		fd = open(path, O_RDONLY);
		do {
			n = read(fd, text[i] + len[i], sizeof(text[i]) - len[i]);
			len[i] += n > 0 ? n : 0;
		} while (n > 0);
		if (n < 0)
			perror(path);
		close(fd);
	}
	for (int i = 0; i < 3; i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%s.%s", dir, when, names[i]);
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
		if (write(fd, text[i], len[i]) != len[i])
			perror(path);
		close(fd);
	}
}

/* Opened ahead: what the region begins and ends with is one short write. */
static int roi_trace = -1;

static void roi_switch(const char *on)
{
	if (roi_trace >= 0 && write(roi_trace, on, 1) != 1)
		perror(TRACING_ON);
}

static void roi_prepare(void)
{
	const char *trace = getenv("AMPLE_TRACE");

	if (trace && *trace == '1') {
		roi_trace = open(TRACING_ON, O_WRONLY);
		if (roi_trace < 0)
			perror(TRACING_ON);
	}
	roi_counts("begin");
	roi_switch("1");
}

static void roi_finish(void)
{
	roi_switch("0");
	roi_counts("end");
}

#endif
