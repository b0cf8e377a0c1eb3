/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM contiguitas

#if !defined(_TRACE_CONTIGUITAS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_CONTIGUITAS_H

#include <linux/contiguitas_policy.h>
#include <linux/tracepoint.h>

/* The policy's view of a node: all that struct ctg_state holds, under the names it has there. */
#define CTG_STATE_FIELDS							\
		__field(u64, node_pages)					\
		__field(u64, unmov_pages)					\
		__field(u64, unmov_free_pages)					\
		__field(u64, mov_free_pages)					\
		__field(u64, unmov_low_wmark_pages)				\
		__field(u64, mov_low_wmark_pages)				\
		__field(u64, min_pages)						\
		__field(u64, max_pages)						\
		__field(u64, block_pages)					\
		__field(u32, pressure_unmov_bp)					\
		__field(u32, pressure_mov_bp)

#define CTG_STATE_ASSIGN							\
		__entry->node_pages = s->node_pages;				\
		__entry->unmov_pages = s->unmov_pages;				\
		__entry->unmov_free_pages = s->unmov_free_pages;		\
		__entry->mov_free_pages = s->mov_free_pages;			\
		__entry->unmov_low_wmark_pages = s->unmov_low_wmark_pages;	\
		__entry->mov_low_wmark_pages = s->mov_low_wmark_pages;		\
		__entry->min_pages = s->min_pages;				\
		__entry->max_pages = s->max_pages;				\
		__entry->block_pages = s->block_pages;				\
		__entry->pressure_unmov_bp = s->pressure_unmov_bp;		\
		__entry->pressure_mov_bp = s->pressure_mov_bp;

#define CTG_STATE_FORMAT							\
	" node_pages=%llu unmov_pages=%llu unmov_free_pages=%llu mov_free_pages=%llu"	\
	" unmov_low_wmark_pages=%llu mov_low_wmark_pages=%llu min_pages=%llu"	\
	" max_pages=%llu block_pages=%llu pressure_unmov_bp=%u pressure_mov_bp=%u"

#define CTG_STATE_ARGS								\
		__entry->node_pages, __entry->unmov_pages,			\
		__entry->unmov_free_pages, __entry->mov_free_pages,		\
		__entry->unmov_low_wmark_pages, __entry->mov_low_wmark_pages,	\
		__entry->min_pages, __entry->max_pages, __entry->block_pages,	\
		__entry->pressure_unmov_bp, __entry->pressure_mov_bp

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

/*
 * A round of the resizer: where ctg_round_pages() wants the border, and all that it was told.
 * beyond and limit_pages bear on it if somebody waits (urgent).
 */
TRACE_EVENT(contiguitas_decide,
	TP_PROTO(int nid, unsigned long border, const struct ctg_params *p,
		 const struct ctg_state *s, bool urgent, bool beyond, u64 limit, u64 target),
	TP_ARGS(nid, border, p, s, urgent, beyond, limit, target),
	TP_STRUCT__entry(
		__field(int, nid)
		__field(unsigned long, from_pfn)
		__field(unsigned long, to_pfn)
		__field(u32, threshold_unmov_bp)
		__field(u32, threshold_mov_bp)
		__field(u32, c_ue_milli)
		__field(u32, c_me_milli)
		__field(u32, c_us_milli)
		__field(u32, c_ms_milli)
		CTG_STATE_FIELDS
		__field(bool, urgent)
		__field(bool, beyond)
		__field(u64, limit_pages)
		__field(u64, target_pages)
	),
	TP_fast_assign(
		__entry->nid = nid;
		__entry->from_pfn = border;
		__entry->to_pfn = border + target - s->unmov_pages;
		__entry->threshold_unmov_bp = p->threshold_unmov_bp;
		__entry->threshold_mov_bp = p->threshold_mov_bp;
		__entry->c_ue_milli = p->c_ue_milli;
		__entry->c_me_milli = p->c_me_milli;
		__entry->c_us_milli = p->c_us_milli;
		__entry->c_ms_milli = p->c_ms_milli;
		CTG_STATE_ASSIGN
		__entry->urgent = urgent;
		__entry->beyond = beyond;
		__entry->limit_pages = limit;
		__entry->target_pages = target;
	),
	TP_printk("nid=%d from_pfn=%lu to_pfn=%lu threshold_unmov_bp=%u threshold_mov_bp=%u"
		  " c_ue_milli=%u c_me_milli=%u c_us_milli=%u c_ms_milli=%u" CTG_STATE_FORMAT
		  " urgent=%d beyond=%d limit_pages=%llu target_pages=%llu",
		  __entry->nid, __entry->from_pfn, __entry->to_pfn,
		  __entry->threshold_unmov_bp, __entry->threshold_mov_bp, __entry->c_ue_milli,
		  __entry->c_me_milli, __entry->c_us_milli, __entry->c_ms_milli, CTG_STATE_ARGS,
		  __entry->urgent, __entry->beyond, __entry->limit_pages, __entry->target_pages)
);

/* The border is to go up: does the back-off after a growth that failed hold it? */
TRACE_EVENT(contiguitas_grow,
	TP_PROTO(int nid, const struct ctg_state *s, bool urgent, bool hard, bool waits, bool held),
	TP_ARGS(nid, s, urgent, hard, waits, held),
	TP_STRUCT__entry(
		__field(int, nid)
		CTG_STATE_FIELDS
		__field(bool, urgent)
		__field(bool, hard)
		__field(bool, waits)
		__field(bool, held)
	),
	TP_fast_assign(
		__entry->nid = nid;
		CTG_STATE_ASSIGN
		__entry->urgent = urgent;
		__entry->hard = hard;
		__entry->waits = waits;
		__entry->held = held;
	),
	TP_printk("nid=%d" CTG_STATE_FORMAT " urgent=%d hard=%d waits=%d held=%d",
		  __entry->nid, CTG_STATE_ARGS,
		  __entry->urgent, __entry->hard, __entry->waits, __entry->held)
);

/* A look at a growth under way: has it to succeed, and how far does it go before the next look? */
TRACE_EVENT(contiguitas_step,
	TP_PROTO(int nid, const struct ctg_state *s, bool urgent, u64 target, u64 wanted,
		 bool must, u64 step),
	TP_ARGS(nid, s, urgent, target, wanted, must, step),
	TP_STRUCT__entry(
		__field(int, nid)
		CTG_STATE_FIELDS
		__field(bool, urgent)
		__field(u64, target_pages)
		__field(u64, wanted_pages)
		__field(bool, must)
		__field(u64, step_pages)
	),
	TP_fast_assign(
		__entry->nid = nid;
		CTG_STATE_ASSIGN
		__entry->urgent = urgent;
		__entry->target_pages = target;
		__entry->wanted_pages = wanted;
		__entry->must = must;
		__entry->step_pages = step;
	),
	TP_printk("nid=%d" CTG_STATE_FORMAT
		  " urgent=%d target_pages=%llu wanted_pages=%llu must=%d step_pages=%llu",
		  __entry->nid, CTG_STATE_ARGS, __entry->urgent,
		  __entry->target_pages, __entry->wanted_pages,
		  __entry->must, __entry->step_pages)
);

#endif /* _TRACE_CONTIGUITAS_H */

#include <trace/define_trace.h>
