// SPDX-License-Identifier: MIT OR Apache-2.0
// Redirection beside the tags of a slice (Contiguitas section 3.3, figure 9 steps 5 and 6), in the
// two cycles that section 5.3 allows: the first searches the table and finds the line's other name
// and both homes, the decision falls in the second. Non-cacheable design: a line that has moved is
// not given to a private cache (NACK). Cacheable design: it is served under either mapping.
//
// The slice takes the decision in the cycle in which it is offered, or sends the request through
// again (`take` low: the line is busy, or the network has no room). So the pointer cannot pass a
// line between decision and service.
`default_nettype none

module ctg_redirect #(
    parameter int ENTRIES   = 16,
    parameter int SLICES    = 8,
    parameter int HASH      = 1,
    parameter int LINE_BITS = 42,
    parameter int SMALL     = 6,
    parameter int LARGE     = 15,
    parameter int SLOT_BITS = ENTRIES > 1 ? $clog2(ENTRIES) : 1,
    parameter int SLICE_BITS = SLICES > 1 ? $clog2(SLICES) : 1,
    parameter int PPN_BITS  = LINE_BITS - SMALL,
    parameter int PTR_BITS  = LARGE + 1
) (
    input  wire logic                          clock,
    input  wire logic                          reset,
    input  wire logic [SLICE_BITS-1:0]         id,
    input  wire logic                          cacheable,

    // First cycle: a request, and what the table found for it.
    input  wire logic                          request_valid,
    input  wire logic [LINE_BITS-1:0]          request_line,
    input  wire logic                          request_wants_copy,
    input  wire logic                          request_resolved,
    input  wire logic                          request_has_origin,
    input  wire logic [SLICE_BITS-1:0]         request_origin,
    input  wire logic [SLOT_BITS-1:0]          request_origin_slot,
    input  wire logic [ENTRIES-1:0]            in_source,
    input  wire logic [ENTRIES-1:0]            in_destination,
    input  wire logic                          install_valid,
    input  wire logic [SLOT_BITS-1:0]          install_slot,

    // The table, as it is in the second cycle.
    input  wire logic [ENTRIES-1:0]            used,
    input  wire logic [ENTRIES-1:0]            clearing,
    input  wire logic [ENTRIES-1:0]            wide,
    input  wire logic [ENTRIES-1:0]            full,
    input  wire logic [ENTRIES*PPN_BITS-1:0]   src,
    input  wire logic [ENTRIES*PPN_BITS-1:0]   dst,
    input  wire logic [ENTRIES*3-1:0]          phase,
    input  wire logic [ENTRIES*PTR_BITS-1:0]   pointer,

    // Second cycle: the decision.
    output logic                               valid,
    output logic [1:0]                         action,
    output logic [LINE_BITS-1:0]               line,   // as the agent named it
    output logic [LINE_BITS-1:0]               at,     // LOCAL: where it lies
    output logic [SLICE_BITS-1:0]              target, // FORWARD: where to
    output logic                               resolved,
    output logic                               has_origin,
    output logic [SLICE_BITS-1:0]              origin,
    output logic [SLOT_BITS-1:0]               origin_slot,
    output logic                               counts, // a first forward: counted when taken
    output logic [ENTRIES-1:0]                 covered,
    output logic [ENTRIES-1:0]                 hit     // entries that redirect it
);
    logic [ENTRIES-1:0]     by_source, by_destination;
    logic                   wants_copy, was_resolved, had_origin, is_wide;
    logic [SLICE_BITS-1:0]  old_origin, home_line, home_other;
    logic [SLOT_BITS-1:0]   old_slot, slot;
    logic [LINE_BITS-1:0]   other;

    // Pages of the table do not overlap, so that one entry at most matches: its fields are gathered
    // without priority. They do not change while it is there, so that the first cycle gathers them
    // and finds both homes, too; whether the entry still counts is decided in the second.
    logic [PPN_BITS-1:0]   found_ppn;
    logic [SLOT_BITS-1:0]  found_slot;
    logic                  found_wide;
    integer f;
    always_comb begin
        found_ppn  = '0;
        found_slot = '0;
        found_wide = 1'b0;
        for (f = 0; f < ENTRIES; f = f + 1) begin
            found_ppn = found_ppn
                | ({PPN_BITS{in_source[f]}} & dst[f * PPN_BITS +: PPN_BITS])
                | ({PPN_BITS{in_destination[f]}} & src[f * PPN_BITS +: PPN_BITS]);
            found_slot = found_slot
                | ({SLOT_BITS{in_source[f] | in_destination[f]}} & SLOT_BITS'(f));
            found_wide = found_wide | ((in_source[f] | in_destination[f]) & wide[f]);
        end
    end

    // The same line under the other mapping: a large page keeps more bits of the line's number.
    localparam logic [LARGE-1:0] SMALL_MASK = LARGE'((64'd1 << SMALL) - 64'd1);
    logic [LINE_BITS-1:0]  found_line;
    logic [SLICE_BITS-1:0] found_home, request_home;
    assign found_line = {found_ppn, {SMALL{1'b0}}} | {{(LINE_BITS - LARGE){1'b0}},
        request_line[LARGE-1:0] & (found_wide ? {LARGE{1'b1}} : SMALL_MASK)};
    ctg_hash #(.LINE_BITS(LINE_BITS), .SLICES(SLICES), .KIND(HASH)) hash_line (
        .line(request_line), .slice(request_home));
    ctg_hash #(.LINE_BITS(LINE_BITS), .SLICES(SLICES), .KIND(HASH)) hash_other (
        .line(found_line), .slice(found_home));

    // An entry that is installed in this cycle was not compared: the request came before it.
    logic [ENTRIES-1:0] fresh;
    always_comb begin
        fresh = '0;
        fresh[install_slot] = install_valid;
    end

    always_ff @(posedge clock) begin
        valid          <= request_valid && !reset;
        line           <= request_line;
        wants_copy     <= request_wants_copy;
        was_resolved   <= request_resolved;
        had_origin     <= request_has_origin;
        old_origin     <= request_origin;
        old_slot       <= request_origin_slot;
        by_source      <= in_source & ~fresh;
        by_destination <= in_destination & ~fresh;
        other          <= found_line;
        slot           <= found_slot;
        is_wide        <= found_wide;
        home_line      <= request_home;
        home_other     <= found_home;
    end

    // An entry redirects until its Clear arrives; it counts forwards until it is gone.
    logic [ENTRIES-1:0] from_source, from_destination;
    assign covered          = (by_source | by_destination) & used;
    assign from_source      = by_source & used & ~clearing;
    assign from_destination = by_destination & used & ~clearing;
    assign hit              = from_source | from_destination;

    // What may have changed since the first cycle.
    logic [PTR_BITS-1:0]  its_pointer;
    logic [2:0]           its_phase;
    logic                 counter_full;
    logic [LARGE-1:0]     index;
    integer i;
    always_comb begin
        its_pointer  = '0;
        its_phase    = '0;
        counter_full = 1'b0;
        for (i = 0; i < ENTRIES; i = i + 1) begin
            its_pointer = its_pointer
                | ({PTR_BITS{hit[i]}} & pointer[i * PTR_BITS +: PTR_BITS]);
            its_phase    = its_phase | ({3{hit[i]}} & phase[i * 3 +: 3]);
            counter_full = counter_full | (covered[i] & full[i]);
        end
    end
    assign index = line[LARGE-1:0] & (is_wide ? {LARGE{1'b1}} : SMALL_MASK);

    logic copied;
    assign copied = its_phase == ctg_pkg::DONE
        || (its_phase == ctg_pkg::COPYING && {1'b0, index} < its_pointer);

    // While a line has not moved, the home of its source name orders all accesses; afterwards the
    // home of its destination name does.
    logic use_other, refuse, here;
    always_comb begin
        refuse    = 1'b0;
        use_other = 1'b0;
        resolved  = 1'b1;
        here      = 1'b0;
        if (|from_source) begin
            if (was_resolved)
                use_other = 1'b1;
            else if (!copied)
                resolved = 1'b0;
            else begin
                use_other = 1'b1;
                refuse    = wants_copy && !cacheable;
            end
        end else if (|from_destination && !was_resolved && its_phase != ctg_pkg::DONE) begin
            if (home_other != id) begin
                use_other = 1'b1;
                resolved  = 1'b0;
            end else if (!copied) begin
                use_other = 1'b1;
                here      = 1'b1;
            end
        end
    end

    assign at     = use_other ? other : line;
    assign target = use_other ? home_other : home_line;
    always_comb begin
        if (refuse)
            action = ctg_pkg::NACK;
        else if (here || target == id)
            action = ctg_pkg::LOCAL;
        else if (!had_origin && counter_full)
            action = ctg_pkg::WAIT;
        else
            action = ctg_pkg::FORWARD;
    end

    assign counts      = valid && action == ctg_pkg::FORWARD && !had_origin && |covered;
    assign has_origin  = had_origin || counts;
    assign origin      = counts ? id : old_origin;
    assign origin_slot = counts ? slot : old_slot;
endmodule

`default_nettype wire
