// SPDX-License-Identifier: MIT OR Apache-2.0
// What Contiguitas-HW adds to a slice of the last-level cache (Contiguitas section 3.3, figure 9):
// metadata table, redirection beside the tags, hash, and copy engine. Tags, directory, data and
// network belong to the slice that is there anyway; it takes a decision of the redirection, or
// sends the request through again, and serves the engine's lines in order with requests.
`default_nettype none

module ctg_slice #(
    parameter int ENTRIES   = 16,
    parameter int SLICES    = 8,
    parameter int HASH      = 1,
    parameter int LINE_BITS = 42,
    parameter int SMALL     = 6,
    parameter int LARGE     = 15,
    parameter int WINDOW    = 4,
    parameter int CORE_BITS = 6,
    parameter int FWD_BITS  = 10,
    parameter int SLOT_BITS = ENTRIES > 1 ? $clog2(ENTRIES) : 1,
    parameter int SLICE_BITS = SLICES > 1 ? $clog2(SLICES) : 1,
    parameter int TAG_BITS  = WINDOW > 1 ? $clog2(WINDOW) : 1,
    parameter int PPN_BITS  = LINE_BITS - SMALL,
    parameter int PTR_BITS  = LARGE + 1
) (
    input  wire logic                    clock,
    input  wire logic                    reset,
    // What does not change while migrations are in flight.
    input  wire logic [SLICE_BITS-1:0]   id,
    input  wire logic                    cacheable,
    input  wire logic                    parallel,
    input  wire logic [TAG_BITS:0]       window,

    // A request, and two cycles later where it goes.
    input  wire logic                    request_valid,
    input  wire logic [LINE_BITS-1:0]    request_line,
    input  wire logic                    request_wants_copy,
    input  wire logic                    request_resolved,
    input  wire logic                    request_has_origin,
    input  wire logic [SLICE_BITS-1:0]   request_origin,
    input  wire logic [SLOT_BITS-1:0]    request_origin_slot,
    output logic                         decision_valid,
    output logic [1:0]                   decision_action,
    output logic [LINE_BITS-1:0]         decision_line,
    output logic [LINE_BITS-1:0]         decision_at,
    output logic [SLICE_BITS-1:0]        decision_target,
    output logic                         decision_resolved,
    output logic                         decision_has_origin,
    output logic [SLICE_BITS-1:0]        decision_origin,
    output logic [SLOT_BITS-1:0]         decision_origin_slot,
    input  wire logic                    decision_take,

    // Messages of the controller and of other slices.
    input  wire logic                    in_valid,
    output logic                         in_ready,
    input  wire logic [3:0]              in_kind,
    input  wire logic [SLOT_BITS-1:0]    in_slot,
    input  wire logic [PPN_BITS-1:0]     in_src,
    input  wire logic [PPN_BITS-1:0]     in_dst,
    input  wire logic                    in_wide,
    input  wire logic [PTR_BITS-2:0]     in_index,
    input  wire logic [CORE_BITS-1:0]    in_owner,
    input  wire logic [TAG_BITS-1:0]     in_tag,
    input  wire logic [SLICE_BITS-1:0]   in_from,
    output logic                         out_valid,
    input  wire logic                    out_ready,
    output logic [3:0]                   out_kind,
    output logic [SLICE_BITS-1:0]        out_target,
    output logic [SLOT_BITS-1:0]         out_slot,
    output logic [PTR_BITS-2:0]          out_index,
    output logic [CORE_BITS-1:0]         out_owner,
    output logic [TAG_BITS-1:0]          out_tag,

    // Lines of the engine (see ctg_engine), and lines that come from other slices.
    output logic                         op_valid,
    input  wire logic                    op_ready,
    output logic [2:0]                   op_phase,
    output logic [LINE_BITS-1:0]         op_line,
    output logic [TAG_BITS-1:0]          op_tag,
    input  wire logic                    answer_valid,
    output logic                         answer_ready,
    input  wire logic [TAG_BITS-1:0]     answer_tag,
    input  wire logic                    answer_kept,
    input  wire logic [CORE_BITS-1:0]    answer_owner,
    output logic                         put_valid,
    input  wire logic                    put_ready,
    output logic                         put_is_own,   // the data is in this slice
    output logic                         put_handover, // no data: `owner` has the line
    output logic [LINE_BITS-1:0]         put_line,
    output logic [CORE_BITS-1:0]         put_owner,
    output logic                         release_valid,
    input  wire logic                    release_ready,
    output logic [LINE_BITS-1:0]         release_line,

    // The table, to be looked at.
    output logic [ENTRIES-1:0]           view_used,
    output logic [ENTRIES-1:0]           view_clearing,
    output logic [ENTRIES*3-1:0]         view_phase,
    output logic [ENTRIES*PTR_BITS-1:0]  view_pointer,
    output logic [ENTRIES*FWD_BITS-1:0]  view_forwards,
    output logic [ENTRIES-1:0]           view_hit
);
    logic [ENTRIES-1:0]          in_source, in_destination, wide, idle, full, covered;
    logic [ENTRIES-1:0]          forward_up, forward_down, drained;
    logic [ENTRIES*PPN_BITS-1:0] src, dst;
    logic                        counts, engine_phase, pointer_valid, active;
    logic                        engine_valid, engine_ready, here_valid, here_ready;
    logic                        here_handover;
    logic [2:0]                  engine_phase_new;
    logic [3:0]                  engine_kind;
    logic [SLICE_BITS-1:0]       engine_target;
    logic [SLOT_BITS-1:0]        engine_slot;
    logic [PTR_BITS-1:0]         pointer_new;
    logic [PTR_BITS-2:0]         engine_index;
    logic [CORE_BITS-1:0]        engine_owner, here_owner;
    logic [TAG_BITS-1:0]         engine_tag;
    logic [LINE_BITS-1:0]        here_line;

    // Messages. An answer waits in a register until it is taken; a message that needs an answer
    // waits for the register.
    logic                  reply_valid, reply_free, is_line, taken, own_served;
    logic [3:0]            reply_kind;
    logic [SLOT_BITS-1:0]  reply_slot;
    logic [SLICE_BITS-1:0] reply_target;
    logic [TAG_BITS-1:0]   reply_tag;
    assign is_line    = in_kind == ctg_pkg::COPY_WRITE || in_kind == ctg_pkg::HANDOVER;
    assign reply_free = !reply_valid;
    always_comb begin
        case (in_kind)
            ctg_pkg::FINISH:     in_ready = reply_free && !engine_phase;
            ctg_pkg::COPY_WRITE: in_ready = reply_free && put_ready;
            ctg_pkg::HANDOVER:   in_ready = reply_free && put_ready;
            ctg_pkg::SERVED:     in_ready = !own_served;
            default:             in_ready = !engine_phase;
        endcase
    end
    assign taken = in_valid && in_ready;

    // A line of another slice goes first; then the engine's own.
    logic foreign;
    assign foreign      = in_valid && is_line && reply_free;
    assign put_valid    = foreign || here_valid;
    assign put_is_own   = !foreign;
    assign put_handover = foreign ? in_kind == ctg_pkg::HANDOVER : here_handover;
    assign put_owner    = foreign ? in_owner : here_owner;
    assign put_line     = foreign
        ? {dst[32'(in_slot) * PPN_BITS +: PPN_BITS], {SMALL{1'b0}}}
            | {{(LINE_BITS - LARGE){1'b0}}, in_index}
        : here_line;
    assign here_ready   = put_ready && !foreign;

    // Forwards under way: counted when the first slice sends a request on, until it has found its
    // home. An entry that was cleared goes when none is left.
    assign own_served = decision_valid && decision_take && decision_has_origin
        && decision_action == ctg_pkg::LOCAL && decision_origin == id;
    always_comb begin
        forward_up   = (counts && decision_take) ? covered : '0;
        forward_down = '0;
        if (own_served)
            forward_down[decision_origin_slot] = 1'b1;
        else if (taken && in_kind == ctg_pkg::SERVED)
            forward_down[in_slot] = 1'b1;
        drained = view_used & view_clearing & idle & ~(counts ? covered : '0);
    end
    logic [SLOT_BITS-1:0] drained_slot;
    integer d;
    always_comb begin
        drained_slot = '0;
        for (d = ENTRIES - 1; d >= 0; d = d - 1)
            if (drained[d])
                drained_slot = SLOT_BITS'(d);
    end

    // One message a cycle: answers, entries that go, the engine.
    always_comb begin
        out_valid  = reply_valid || |drained || engine_valid;
        out_index  = engine_index;
        out_owner  = engine_owner;
        out_tag    = reply_valid ? reply_tag : engine_tag;
        out_target = reply_valid ? reply_target : engine_target;
        if (reply_valid) begin
            out_kind = reply_kind;
            out_slot = reply_slot;
        end else if (|drained) begin
            out_kind = ctg_pkg::CLEARED;
            out_slot = drained_slot;
        end else begin
            out_kind = engine_kind;
            out_slot = engine_slot;
        end
    end
    logic removes;
    assign removes      = out_ready && !reply_valid && |drained;
    assign engine_ready = out_ready && !reply_valid && !(|drained);

    always_ff @(posedge clock) begin
        if (reset)
            reply_valid <= 1'b0;
        else if (taken && (in_kind == ctg_pkg::FINISH || is_line))
            reply_valid <= 1'b1;
        else if (out_ready)
            reply_valid <= 1'b0;
        if (taken && reply_free) begin
            reply_kind   <= is_line ? ctg_pkg::COPY_ACK : ctg_pkg::FINISHED;
            reply_slot   <= in_slot;
            reply_tag    <= in_tag;
            reply_target <= in_from;
        end
    end

    // The phase that a message brings.
    logic       brings;
    logic [2:0] brought;
    always_comb begin
        case (in_kind)
            ctg_pkg::TURN:   brought = ctg_pkg::COPYING;
            ctg_pkg::FINISH: brought = ctg_pkg::DONE;
            default:         brought = ctg_pkg::FLUSHING;
        endcase
        brings = taken && (in_kind == ctg_pkg::TURN || in_kind == ctg_pkg::FINISH
            || in_kind == ctg_pkg::FLUSH);
    end

    ctg_table #(
        .ENTRIES(ENTRIES), .LINE_BITS(LINE_BITS), .SMALL(SMALL), .LARGE(LARGE),
        .FWD_BITS(FWD_BITS)
    ) metadata (
        .clock(clock), .reset(reset),
        .install_valid(taken && in_kind == ctg_pkg::INSTALL), .install_slot(in_slot),
        .install_src(in_src), .install_dst(in_dst), .install_wide(in_wide),
        .phase_valid(brings || engine_phase), .phase_slot(brings ? in_slot : engine_slot),
        .phase_new(brings ? brought : engine_phase_new),
        .pointer_valid(pointer_valid), .pointer_slot(engine_slot), .pointer_new(pointer_new),
        .clear_valid(taken && in_kind == ctg_pkg::CLEAR), .clear_slot(in_slot),
        .remove_valid(removes), .remove_slot(drained_slot),
        .forward_up(forward_up), .forward_down(forward_down),
        .lookup_line(request_line), .in_source(in_source), .in_destination(in_destination),
        .used(view_used), .clearing(view_clearing), .wide(wide), .idle(idle), .full(full),
        .src(src), .dst(dst), .phase(view_phase), .pointer(view_pointer),
        .forwards(view_forwards)
    );

    ctg_redirect #(
        .ENTRIES(ENTRIES), .SLICES(SLICES), .HASH(HASH), .LINE_BITS(LINE_BITS), .SMALL(SMALL),
        .LARGE(LARGE)
    ) redirect (
        .clock(clock), .reset(reset), .id(id), .cacheable(cacheable),
        .request_valid(request_valid), .request_line(request_line),
        .request_wants_copy(request_wants_copy), .request_resolved(request_resolved),
        .request_has_origin(request_has_origin), .request_origin(request_origin),
        .request_origin_slot(request_origin_slot),
        .in_source(in_source), .in_destination(in_destination),
        .install_valid(taken && in_kind == ctg_pkg::INSTALL), .install_slot(in_slot),
        .used(view_used), .clearing(view_clearing), .wide(wide), .full(full),
        .src(src), .dst(dst), .phase(view_phase), .pointer(view_pointer),
        .valid(decision_valid), .action(decision_action), .line(decision_line),
        .at(decision_at), .target(decision_target), .resolved(decision_resolved),
        .has_origin(decision_has_origin), .origin(decision_origin),
        .origin_slot(decision_origin_slot), .counts(counts), .covered(covered), .hit(view_hit)
    );

    ctg_engine #(
        .ENTRIES(ENTRIES), .SLICES(SLICES), .HASH(HASH), .LINE_BITS(LINE_BITS), .SMALL(SMALL),
        .LARGE(LARGE), .WINDOW(WINDOW), .CORE_BITS(CORE_BITS)
    ) engine (
        .clock(clock), .reset(reset), .id(id), .parallel(parallel), .window(window),
        .start_valid(taken && (in_kind == ctg_pkg::INSTALL || in_kind == ctg_pkg::TURN
            || in_kind == ctg_pkg::FLUSH)),
        .start_slot(in_slot),
        .ack_valid(taken && in_kind == ctg_pkg::COPY_ACK), .ack_tag(in_tag),
        .wide(wide), .src(src), .dst(dst), .phase(view_phase),
        .phase_valid(engine_phase), .phase_new(engine_phase_new),
        .pointer_valid(pointer_valid), .pointer_new(pointer_new), .slot(engine_slot),
        .active(active),
        .op_valid(op_valid), .op_ready(op_ready), .op_phase(op_phase), .op_line(op_line),
        .op_tag(op_tag),
        .answer_valid(answer_valid), .answer_ready(answer_ready), .answer_tag(answer_tag),
        .answer_kept(answer_kept), .answer_owner(answer_owner),
        .here_valid(here_valid), .here_ready(here_ready), .here_line(here_line),
        .here_handover(here_handover), .here_owner(here_owner),
        .release_valid(release_valid), .release_ready(release_ready),
        .release_line(release_line),
        .out_valid(engine_valid), .out_ready(engine_ready), .out_kind(engine_kind),
        .out_target(engine_target), .out_index(engine_index), .out_owner(engine_owner),
        .out_tag(engine_tag)
    );

    wire unused_ok = &{1'b0, active, 1'b0};
endmodule

`default_nettype wire
