/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM contiguitas

#if !defined(_TRACE_CONTIGUITAS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_CONTIGUITAS_H

#include <linux/tracepoint.h>

/* One step of the border; result is 0, or the error that stopped it. */
TRACE_EVENT(contiguitas_resize,
	TP_PROTO(int nid, unsigned long from_pfn, unsigned long to_pfn, int result),
	TP_ARGS(nid, from_pfn, to_pfn, result),
	TP_STRUCT__entry(
		__field(int, nid)
		__field(unsigned long, from_pfn)
		__field(unsigned long, to_pfn)
		__field(int, result)
	),
	TP_fast_assign(
		__entry->nid = nid;
		__entry->from_pfn = from_pfn;
		__entry->to_pfn = to_pfn;
		__entry->result = result;
	),
	TP_printk("nid=%d from_pfn=%lu to_pfn=%lu result=%d",
		  __entry->nid, __entry->from_pfn, __entry->to_pfn, __entry->result)
);

/* What Algorithm 1 decided, with the pressures it saw (basis points). */
TRACE_EVENT(contiguitas_decide,
	TP_PROTO(int nid, unsigned long now_pages, unsigned long target_pages,
		 unsigned int unmov_bp, unsigned int mov_bp),
	TP_ARGS(nid, now_pages, target_pages, unmov_bp, mov_bp),
	TP_STRUCT__entry(
		__field(int, nid)
		__field(unsigned long, now_pages)
		__field(unsigned long, target_pages)
		__field(unsigned int, unmov_bp)
		__field(unsigned int, mov_bp)
	),
	TP_fast_assign(
		__entry->nid = nid;
		__entry->now_pages = now_pages;
		__entry->target_pages = target_pages;
		__entry->unmov_bp = unmov_bp;
		__entry->mov_bp = mov_bp;
	),
	TP_printk("nid=%d now=%lu target=%lu pressure_unmovable_bp=%u pressure_movable_bp=%u",
		  __entry->nid, __entry->now_pages, __entry->target_pages,
		  __entry->unmov_bp, __entry->mov_bp)
);

/* An allocation that could not wait took memory at the border itself. */
TRACE_EVENT(contiguitas_claim,
	TP_PROTO(int nid, unsigned long pfn, unsigned long nr_pages, unsigned long nr_free),
	TP_ARGS(nid, pfn, nr_pages, nr_free),
	TP_STRUCT__entry(
		__field(int, nid)
		__field(unsigned long, pfn)
		__field(unsigned long, nr_pages)
		__field(unsigned long, nr_free)
	),
	TP_fast_assign(
		__entry->nid = nid;
		__entry->pfn = pfn;
		__entry->nr_pages = nr_pages;
		__entry->nr_free = nr_free;
	),
	TP_printk("nid=%d pfn=%lu nr_pages=%lu nr_free=%lu",
		  __entry->nid, __entry->pfn, __entry->nr_pages, __entry->nr_free)
);

#endif /* _TRACE_CONTIGUITAS_H */

#include <trace/define_trace.h>
