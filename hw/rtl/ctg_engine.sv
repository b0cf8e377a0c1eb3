// SPDX-License-Identifier: MIT OR Apache-2.0
// The copy engine of a slice (Contiguitas section 3.3, figure 8c steps 2 and 3, figure 9 steps 1
// to 4). It makes one pass at a time over the lines that the slice is home of: PURGING takes dead
// lines of the destination out of the private caches, COPYING moves the page, FLUSHING takes lines
// back when a migration is aborted. While it copies, up to `window` lines are under way; Ptr passes
// a line when all lines before it have been acknowledged, and only then the line opens again.
`default_nettype none

module ctg_engine #(
    parameter int ENTRIES   = 16,
    parameter int SLICES    = 8,
    parameter int HASH      = 1,
    parameter int LINE_BITS = 42,
    parameter int SMALL     = 6,
    parameter int LARGE     = 15,
    parameter int WINDOW    = 4,   // places for lines under way: a power of two
    parameter int CORE_BITS = 6,
    parameter int SLOT_BITS = ENTRIES > 1 ? $clog2(ENTRIES) : 1,
    parameter int SLICE_BITS = SLICES > 1 ? $clog2(SLICES) : 1,
    parameter int TAG_BITS  = WINDOW > 1 ? $clog2(WINDOW) : 1,
    parameter int PPN_BITS  = LINE_BITS - SMALL,
    parameter int PTR_BITS  = LARGE + 1
) (
    input  wire logic                          clock,
    input  wire logic                          reset,
    input  wire logic [SLICE_BITS-1:0]         id,
    input  wire logic                          parallel, // slices do not take turns
    input  wire logic [TAG_BITS:0]             window,   // lines under way, 1 to WINDOW

    input  wire logic                          start_valid, // a pass is to be made
    input  wire logic [SLOT_BITS-1:0]          start_slot,
    input  wire logic                          ack_valid,
    input  wire logic [TAG_BITS-1:0]           ack_tag,

    input  wire logic [ENTRIES-1:0]            wide,
    input  wire logic [ENTRIES*PPN_BITS-1:0]   src,
    input  wire logic [ENTRIES*PPN_BITS-1:0]   dst,
    input  wire logic [ENTRIES*3-1:0]          phase,
    output logic                               phase_valid,
    output logic [2:0]                         phase_new,
    output logic                               pointer_valid,
    output logic [PTR_BITS-1:0]                pointer_new,
    output logic [SLOT_BITS-1:0]               slot,        // of the pass that is being made
    output logic                               active,

    // To the slice: open a line for this pass (BusRdX, or the question to its owner).
    output logic                               op_valid,
    input  wire logic                          op_ready,
    output logic [2:0]                         op_phase,
    output logic [LINE_BITS-1:0]               op_line,
    output logic [TAG_BITS-1:0]                op_tag,
    // Its answer: the private caches have given the line up, or `owner` keeps it modified.
    input  wire logic                          answer_valid,
    output logic                               answer_ready,
    input  wire logic [TAG_BITS-1:0]           answer_tag,
    input  wire logic                          answer_kept,
    input  wire logic [CORE_BITS-1:0]          answer_owner,
    // Both homes are this slice, one line at a time: move it here.
    output logic                               here_valid,
    input  wire logic                          here_ready,
    output logic [LINE_BITS-1:0]               here_line,
    output logic                               here_handover,
    output logic [CORE_BITS-1:0]               here_owner,
    // The pointer has passed a line of the source: it takes requests again.
    output logic                               release_valid,
    input  wire logic                          release_ready,
    output logic [LINE_BITS-1:0]               release_line,

    output logic                               out_valid,
    input  wire logic                          out_ready,
    output logic [3:0]                         out_kind,
    output logic [SLICE_BITS-1:0]              out_target,
    output logic [PTR_BITS-2:0]                out_index,
    output logic [CORE_BITS-1:0]               out_owner,
    output logic [TAG_BITS-1:0]                out_tag
);
    localparam logic [SLICE_BITS-1:0] LAST = SLICE_BITS'(SLICES - 1);

    // Passes that wait, and the one that is made: in turn, so that none waits for ever.
    logic [ENTRIES-1:0]   waiting, after, candidates;
    logic [SLOT_BITS-1:0] chosen;
    integer c;
    always_comb begin
        for (c = 0; c < ENTRIES; c = c + 1)
            after[c] = waiting[c] && SLOT_BITS'(c) > slot;
        candidates = |after ? after : waiting;
        chosen     = '0;
        for (c = ENTRIES - 1; c >= 0; c = c - 1)
            if (candidates[c])
                chosen = SLOT_BITS'(c);
    end

    logic [PPN_BITS-1:0] its_src, its_dst;
    logic [2:0]          its_phase;
    logic                is_wide;
    assign its_src   = src[32'(slot) * PPN_BITS +: PPN_BITS];
    assign its_dst   = dst[32'(slot) * PPN_BITS +: PPN_BITS];
    assign its_phase = phase[32'(slot) * 3 +: 3];
    assign is_wide   = wide[slot];

    logic copying;
    assign copying = its_phase == ctg_pkg::COPYING;

    // Lines under way: begun in order, passed in order, done in any order.
    logic [PTR_BITS-1:0]        next, total;
    logic [WINDOW*PTR_BITS-1:0] begun;
    logic [WINDOW-1:0]          done;
    logic [TAG_BITS-1:0]        head, tail, second;
    logic [TAG_BITS:0]          count, limit;
    assign total  = is_wide ? PTR_BITS'(64'd1 << LARGE) : PTR_BITS'(64'd1 << SMALL);
    assign limit  = copying ? window : {{TAG_BITS{1'b0}}, 1'b1};
    assign second = (WINDOW > 1) ? head + 1'b1 : '0;

    // The line that comes next, and whether it is ours.
    logic [SLICE_BITS-1:0] next_home;
    assign op_line = {its_phase == ctg_pkg::PURGING ? its_dst : its_src, {SMALL{1'b0}}}
        | {{(LINE_BITS - LARGE){1'b0}}, next[LARGE-1:0]};
    ctg_hash #(.LINE_BITS(LINE_BITS), .SLICES(SLICES), .KIND(HASH)) hash_next (
        .line(op_line), .slice(next_home));

    logic ended, ours, begins, skips, pops;
    assign ended    = next == total;
    assign ours     = next_home == id;
    assign op_valid = active && !ended && ours && count < limit;
    assign op_phase = its_phase;
    assign op_tag   = tail;
    assign begins   = op_valid && op_ready;
    assign skips    = active && !ended && !ours;
    assign pops     = active && count != '0 && done[head] && !(copying && release_valid);

    // An answer of the slice: to the home of the destination with it (figure 9, step 2).
    logic [PTR_BITS-1:0]   index;
    logic [LINE_BITS-1:0]  moved;
    logic [SLICE_BITS-1:0] moved_home;
    logic                  stays, finished, ends;
    assign index = begun[32'(answer_tag) * PTR_BITS +: PTR_BITS];
    assign moved = {its_dst, {SMALL{1'b0}}} | {{(LINE_BITS - LARGE){1'b0}}, index[LARGE-1:0]};
    ctg_hash #(.LINE_BITS(LINE_BITS), .SLICES(SLICES), .KIND(HASH)) hash_moved (
        .line(moved), .slice(moved_home));
    assign stays         = moved_home == id && window == {{TAG_BITS{1'b0}}, 1'b1};
    assign here_valid    = answer_valid && copying && stays;
    assign here_line     = moved;
    assign here_handover = answer_kept;
    assign here_owner    = answer_owner;
    assign finished      = active && ended && count == '0 && !release_valid;

    always_comb begin
        out_valid  = finished || (answer_valid && copying && !stays);
        out_owner  = answer_owner;
        out_tag    = answer_tag;
        out_target = finished ? id + 1'b1 : moved_home;
        if (!finished)
            out_kind = answer_kept ? ctg_pkg::HANDOVER : ctg_pkg::COPY_WRITE;
        else if (its_phase == ctg_pkg::PURGING)
            out_kind = ctg_pkg::INSTALLED;
        else if (its_phase == ctg_pkg::FLUSHING)
            out_kind = ctg_pkg::FLUSHED;
        else if (parallel || id == LAST)
            out_kind = ctg_pkg::SLICE_COPIED;
        else
            out_kind = ctg_pkg::TURN;
    end
    assign out_index    = index[PTR_BITS-2:0];
    assign answer_ready = !copying || (stays ? here_ready : out_ready);
    assign ends         = finished && out_ready;

    // After the purge the pointer starts again.
    assign phase_valid   = ends && its_phase == ctg_pkg::PURGING;
    assign phase_new     = ctg_pkg::REDIRECTING;
    assign pointer_valid = phase_valid || pops || (skips && count == '0);
    always_comb begin
        if (phase_valid)
            pointer_new = '0;
        else if (!pops)
            pointer_new = next + 1'b1;
        else if (count == {{TAG_BITS{1'b0}}, 1'b1})
            pointer_new = skips ? next + 1'b1 : next;
        else
            pointer_new = begun[32'(second) * PTR_BITS +: PTR_BITS];
    end

    integer w;
    always_ff @(posedge clock) begin
        if (reset) begin
            waiting <= '0;
            active  <= 1'b0;
            slot    <= '0;
            next    <= '0;
            head    <= '0;
            tail    <= '0;
            count   <= '0;
            release_valid <= 1'b0;
        end else begin
            if (!active && |waiting) begin
                active <= 1'b1;
                slot   <= chosen;
                next   <= '0;
                waiting[chosen] <= 1'b0;
            end else if (ends)
                active <= 1'b0;
            if (start_valid)
                waiting[start_slot] <= 1'b1;
            if (begins || skips)
                next <= next + 1'b1;
            if (begins && WINDOW > 1)
                tail <= tail + 1'b1;
            if (pops)
                head <= second;
            if (begins && !pops)
                count <= count + 1'b1;
            else if (pops && !begins)
                count <= count - 1'b1;
            // The pointer is in the table when the line opens.
            if (pops && copying)
                release_valid <= 1'b1;
            else if (release_ready)
                release_valid <= 1'b0;
        end
        for (w = 0; w < WINDOW; w = w + 1) begin
            if (begins && tail == TAG_BITS'(w)) begin
                begun[w * PTR_BITS +: PTR_BITS] <= next;
                done[w] <= 1'b0;
            end else if ((ack_valid && ack_tag == TAG_BITS'(w))
                || (answer_valid && answer_ready && answer_tag == TAG_BITS'(w)
                    && (!copying || stays)))
                done[w] <= 1'b1;
        end
        if (pops)
            release_line <= {its_src, {SMALL{1'b0}}}
                | {{(LINE_BITS - LARGE){1'b0}}, begun[32'(head) * PTR_BITS +: LARGE]};
    end

    wire unused_ok = &{1'b0, index[PTR_BITS-1], 1'b0};
endmodule

`default_nettype wire
