/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM contiguitas

#if !defined(_TRACE_CONTIGUITAS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_CONTIGUITAS_H

#include <linux/tracepoint.h>

DECLARE_EVENT_CLASS(contiguitas_move,
	TP_PROTO(int nid, unsigned long from_pfn, unsigned long to_pfn, long result),
	TP_ARGS(nid, from_pfn, to_pfn, result),
	TP_STRUCT__entry(
		__field(int, nid)
		__field(unsigned long, from_pfn)
		__field(unsigned long, to_pfn)
		__field(long, result)
	),
	TP_fast_assign(
		__entry->nid = nid;
		__entry->from_pfn = from_pfn;
		__entry->to_pfn = to_pfn;
		__entry->result = result;
	),
	TP_printk("nid=%d from_pfn=%lu to_pfn=%lu result=%ld",
		  __entry->nid, __entry->from_pfn, __entry->to_pfn, __entry->result)
);

#define DEFINE_CONTIGUITAS_EVENT(name)							\
DEFINE_EVENT(contiguitas_move, name,							\
	TP_PROTO(int nid, unsigned long from_pfn, unsigned long to_pfn, long result),	\
	TP_ARGS(nid, from_pfn, to_pfn, result))

/* One step of the border; result is the free pages gained, or the error that stopped it. */
DEFINE_CONTIGUITAS_EVENT(contiguitas_resize);

/* A request took memory at the border at once; result is the free pages gained. */
DEFINE_CONTIGUITAS_EVENT(contiguitas_claim);

/* Where Algorithm 1 wants it; result is unmovable less movable pressure (basis points). */
DEFINE_CONTIGUITAS_EVENT(contiguitas_decide);

#endif /* _TRACE_CONTIGUITAS_H */

#include <trace/define_trace.h>
