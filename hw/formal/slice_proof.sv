// SPDX-License-Identifier: MIT OR Apache-2.0
// Properties of one slice, with messages in any order that the controller and the other slice may
// send (the assumptions). A page has two lines, one at home in each slice: what a window of several
// lines does is compared in the co-simulation only.
`default_nettype none

module slice_proof (
    input wire logic       clock,
    input wire logic       cacheable, parallel, id,
    input wire logic [1:0] window,
    input wire logic       request_valid, request_wants_copy, request_resolved,
    input wire logic [3:0] request_line,
    input wire logic       decision_take, in_valid, in_slot, in_from, in_tag,
    input wire logic [3:0] in_kind,
    input wire logic [2:0] in_src, in_dst,
    input wire logic       in_index, in_owner,
    input wire logic       out_ready, op_ready, answer_valid, answer_tag, answer_kept,
    input wire logic       answer_owner, put_ready, release_ready
);
    logic        decision_valid, decision_has_origin, decision_origin, decision_origin_slot;
    logic        decision_resolved, decision_target, in_ready, out_valid, op_valid, op_tag;
    logic        answer_ready, put_valid, put_own, put_handover, release_valid;
    logic [1:0]  decision_action, used, clearing, hit;
    logic [3:0]  decision_line, decision_at, out_kind, op_line, put_line, release_line;
    logic        out_target, out_slot, out_index, out_owner, out_tag, put_owner;
    logic [2:0]  op_phase;
    logic [5:0]  phase;
    logic [3:0]  pointer, forwards;

    logic started = 1'b0;
    always_ff @(posedge clock) started <= 1'b1;

    ctg_slice #(
        .ENTRIES(2), .SLICES(2), .HASH(2), .LINE_BITS(4), .SMALL(1), .LARGE(1), .WINDOW(2),
        .CORE_BITS(1), .FWD_BITS(2)
    ) dut (
        .clock(clock), .reset(!started), .id(id_fixed), .cacheable(cacheable),
        .parallel(parallel), .window(window_fixed),
        .request_valid(request_valid), .request_line(request_line),
        .request_wants_copy(request_wants_copy), .request_resolved(request_resolved),
        .request_has_origin(1'b0), .request_origin(1'b0), .request_origin_slot(1'b0),
        .decision_valid(decision_valid), .decision_action(decision_action),
        .decision_line(decision_line), .decision_at(decision_at),
        .decision_target(decision_target), .decision_resolved(decision_resolved),
        .decision_has_origin(decision_has_origin), .decision_origin(decision_origin),
        .decision_origin_slot(decision_origin_slot), .decision_take(decision_take),
        .in_valid(in_valid), .in_ready(in_ready), .in_kind(in_kind), .in_slot(in_slot),
        .in_src(in_src), .in_dst(in_dst), .in_wide(1'b0), .in_index(in_index),
        .in_owner(in_owner), .in_tag(in_tag), .in_from(in_from),
        .out_valid(out_valid), .out_ready(out_ready), .out_kind(out_kind),
        .out_target(out_target), .out_slot(out_slot), .out_index(out_index),
        .out_owner(out_owner), .out_tag(out_tag),
        .op_valid(op_valid), .op_ready(op_ready), .op_phase(op_phase), .op_line(op_line),
        .op_tag(op_tag),
        .answer_valid(answer_valid), .answer_ready(answer_ready), .answer_tag(answer_tag),
        .answer_kept(answer_kept), .answer_owner(answer_owner),
        .put_valid(put_valid), .put_ready(put_ready), .put_is_own(put_own),
        .put_handover(put_handover), .put_line(put_line), .put_owner(put_owner),
        .release_valid(release_valid), .release_ready(release_ready),
        .release_line(release_line),
        .view_used(used), .view_clearing(clearing), .view_phase(phase), .view_pointer(pointer),
        .view_forwards(forwards), .view_hit(hit)
    );

    // Straps hold still.
    logic       id_fixed;
    logic [1:0] window_fixed;
    always_ff @(posedge clock) begin
        if (!started) begin
            id_fixed     <= id;
            window_fixed <= window;
        end
    end
    always_comb if (started) assume (window_fixed == 2'd1 || window_fixed == 2'd2);

    // What the environment knows of each place: the steps in which the controller leads it.
    localparam logic [2:0] FREE = 0, PURGES = 1, READY = 2, COPIES = 3, COPIED = 4, IS_DONE = 5;
    localparam logic [2:0] FLUSHES = 6, CLEARS = 7;
    logic [5:0] at;
    logic [2:0] src0, src1, dst0, dst1;
    logic [1:0] owed, acked;  // an answer, an acknowledgement is under way, by tag
    logic [1:0] acks;
    logic       taken;
    assign taken = in_valid && in_ready;
    wire logic [2:0] step = at[32'(in_slot) * 3 +: 3];
    wire logic [2:0] other_step = at[32'(!in_slot) * 3 +: 3];
    wire logic [2:0] other_src = in_slot ? src0 : src1;
    wire logic [2:0] other_dst = in_slot ? dst0 : dst1;
    wire logic apart = in_src != in_dst && (other_step == FREE
        || (in_src != other_src && in_src != other_dst && in_dst != other_src
            && in_dst != other_dst));

    always_comb if (started && in_valid) begin
        assume (in_kind != ctg_pkg::INSTALL || (step == FREE && apart));
        assume (in_kind != ctg_pkg::TURN || step == READY);
        assume (in_kind != ctg_pkg::FLUSH || step == READY);
        assume (in_kind != ctg_pkg::CLEAR || step == IS_DONE);
        assume (in_kind != ctg_pkg::COPY_ACK || acks[in_tag]);
        assume (in_kind != ctg_pkg::SERVED || forwards[32'(in_slot) * 2 +: 2] != '0);
        assume (in_kind <= ctg_pkg::SERVED);
        // The controller reports no page as copied while this slice copies.
        if (in_kind == ctg_pkg::FINISH) assume (step == COPIED);
    end
    always_comb if (started && answer_valid) assume (owed[answer_tag]);

    always_ff @(posedge clock) begin
        if (!started) begin
            at   <= '0;
            owed <= '0;
            acks <= '0;
        end else begin
            if (out_valid && out_ready)
                case (out_kind)
                    ctg_pkg::INSTALLED:    at[32'(out_slot) * 3 +: 3] <= READY;
                    ctg_pkg::TURN:         at[32'(out_slot) * 3 +: 3] <= COPIED;
                    ctg_pkg::SLICE_COPIED: at[32'(out_slot) * 3 +: 3] <= COPIED;
                    ctg_pkg::FLUSHED:      at[32'(out_slot) * 3 +: 3] <= IS_DONE;
                    ctg_pkg::CLEARED:      at[32'(out_slot) * 3 +: 3] <= FREE;
                    ctg_pkg::COPY_WRITE, ctg_pkg::HANDOVER: acks[out_tag] <= 1'b1;
                    default: ;
                endcase
            if (taken)
                case (in_kind)
                    ctg_pkg::INSTALL:  at[32'(in_slot) * 3 +: 3] <= PURGES;
                    ctg_pkg::TURN:     at[32'(in_slot) * 3 +: 3] <= COPIES;
                    ctg_pkg::FINISH:   at[32'(in_slot) * 3 +: 3] <= IS_DONE;
                    ctg_pkg::FLUSH:    at[32'(in_slot) * 3 +: 3] <= FLUSHES;
                    ctg_pkg::CLEAR:    at[32'(in_slot) * 3 +: 3] <= CLEARS;
                    ctg_pkg::COPY_ACK: acks[in_tag] <= 1'b0;
                    default: ;
                endcase
            if (taken && in_kind == ctg_pkg::INSTALL && !in_slot) begin
                src0 <= in_src;
                dst0 <= in_dst;
            end
            if (taken && in_kind == ctg_pkg::INSTALL && in_slot) begin
                src1 <= in_src;
                dst1 <= in_dst;
            end
            if (answer_valid && answer_ready)
                owed[answer_tag] <= 1'b0;
            if (op_valid && op_ready)
                owed[op_tag] <= 1'b1;
        end
    end

    // The phase that each step has; a place that is done or leaves may have been aborted.
    function automatic logic in_phase(input logic [2:0] the_step, input logic [2:0] its_phase);
        case (the_step)
            FREE:           in_phase = 1'b1;
            PURGES:         in_phase = its_phase == ctg_pkg::PURGING;
            READY:          in_phase = its_phase == ctg_pkg::REDIRECTING;
            COPIES, COPIED: in_phase = its_phase == ctg_pkg::COPYING;
            FLUSHES:        in_phase = its_phase == ctg_pkg::FLUSHING;
            default:        in_phase = its_phase == ctg_pkg::DONE || its_phase == ctg_pkg::FLUSHING;
        endcase
    endfunction

    // The last cycle, to compare with.
    logic       was_requested, was_started;
    logic [3:0] old_pointer;
    logic [1:0] old_used, restarts;
    always_ff @(posedge clock) begin
        was_started   <= started;
        was_requested <= request_valid && started;
        old_pointer   <= pointer;
        old_used      <= used;
        restarts[0]   <= (taken && in_kind == ctg_pkg::INSTALL && !in_slot)
            || (out_valid && out_ready && out_kind == ctg_pkg::INSTALLED && !out_slot);
        restarts[1]   <= (taken && in_kind == ctg_pkg::INSTALL && in_slot)
            || (out_valid && out_ready && out_kind == ctg_pkg::INSTALLED && out_slot);
    end

    // Which lines the pointer says have moved.
    wire logic [2:0] hit_phase = hit[1] ? phase[5:3] : phase[2:0];
    wire logic [1:0] hit_pointer = hit[1] ? pointer[3:2] : pointer[1:0];
    wire logic [2:0] hit_src = hit[1] ? src1 : src0;
    wire logic moved = hit_phase == ctg_pkg::DONE || (hit_phase == ctg_pkg::COPYING
        && {1'b0, decision_line[0]} < hit_pointer);
    wire logic by_source = |hit && decision_line[3:1] == hit_src;
    wire logic at_source = decision_at[3:1] == hit_src;

    // Where a line that the engine works on lies in its entry.
    wire logic open0 = used[0] && release_line[3:1] == src0;
    wire logic [1:0] open_pointer = open0 ? pointer[1:0] : pointer[3:2];
    wire logic [2:0] open_phase = open0 ? phase[2:0] : phase[5:3];

    always_ff @(posedge clock) if (started && was_started) begin
        // At most one match.
        one_match: assert (hit != 2'b11);
        // Only of a page that holds the line, and that is not being cleared.
        real0: assert (!(decision_valid && hit[0]) || decision_line[3:1] == src0
            || decision_line[3:1] == dst0);
        real1: assert (!(decision_valid && hit[1]) || decision_line[3:1] == src1
            || decision_line[3:1] == dst1);
        over: assert ((hit & clearing) == '0);
        // One line at a time, where no more are asked for.
        alone: assert (!(op_valid && window_fixed == 2'd1) || (owed | acks) == '0);
        // The pointer only grows.
        grows0: assert (!(old_used[0] && used[0]) || restarts[0]
            || pointer[1:0] >= old_pointer[1:0]);
        grows1: assert (!(old_used[1] && used[1]) || restarts[1]
            || pointer[3:2] >= old_pointer[3:2]);
        in_page: assert ((!used[0] || pointer[1:0] <= 2'd2) && (!used[1] || pointer[3:2] <= 2'd2));
        // Every request is decided after two cycles, and each in one way.
        decided: assert (decision_valid == was_requested);
        // Served or sent to one side, the one that the pointer says.
        one_side: assert (!(decision_valid && by_source && !request_was_resolved
            && decision_action == ctg_pkg::LOCAL) || at_source == !moved);
        refused: assert (!(decision_valid && decision_action == ctg_pkg::NACK)
            || (by_source && moved && !cacheable));
        // No lost write: a line opens only when the pointer has passed it, and is taken by the
        // engine only while requests still find it at the source.
        opens: assert (!release_valid || open_phase == ctg_pkg::DONE
            || (open_phase == ctg_pkg::COPYING && {1'b0, release_line[0]} < open_pointer));
        takes: assert (!(op_valid && op_phase == ctg_pkg::COPYING)
            || {1'b0, op_line[0]} >= (op_line[3:1] == src0 && used[0]
                ? pointer[1:0] : pointer[3:2]));
        // The table holds what the controller has given it, and nothing else.
        table0: assert (used[0] == (at[2:0] != FREE));
        table1: assert (used[1] == (at[5:3] != FREE));
        phases0: assert (in_phase(at[2:0], phase[2:0]));
        phases1: assert (in_phase(at[5:3], phase[5:3]));
        // A forward is counted only of an entry that is there.
        counted: assert ((used[0] || forwards[1:0] == '0) && (used[1] || forwards[3:2] == '0));
    end

    logic request_was_resolved;
    always_ff @(posedge clock) request_was_resolved <= request_resolved;
endmodule

`default_nettype wire
