// SPDX-License-Identifier: MIT OR Apache-2.0
// Sketch of the metadata table of one LLC slice (Contiguitas-HW): fully associative, two match
// ports on the tags of every entry (source and destination PPN), the pointer comparison, and a
// priority-free one-hot read-out. Commands write one entry; the copy engine advances a pointer.
//
// One look-up a cycle, registered output: two cycles from request to decision.
`default_nettype none

module metadata_table #(
    parameter ENTRIES  = 16,
    parameter PPN_BITS = 36,   // 48-bit physical addresses, 4 KB pages
    parameter PTR_BITS = 7,    // 0..64 lines of a page
    parameter PHASES   = 3     // bits: purging, redirecting, copying, done, flushing
) (
    input  wire                        clock,
    input  wire                        reset,

    // Look-up: a request at this slice.
    input  wire                        lookup_valid,
    input  wire [PPN_BITS-1:0]         lookup_ppn,
    input  wire [PTR_BITS-2:0]         lookup_line,
    output reg                         hit,
    output reg                         hit_is_source,
    output reg                         hit_is_copied,
    output reg  [PHASES-1:0]           hit_phase,
    output reg  [PPN_BITS-1:0]         other_ppn,

    // Commands and the engine: one entry at a time, chosen one-hot.
    input  wire                        write_valid,
    input  wire [ENTRIES-1:0]          write_select,
    input  wire                        write_used,
    input  wire [PPN_BITS-1:0]         write_source,
    input  wire [PPN_BITS-1:0]         write_destination,
    input  wire                        step_valid,
    input  wire [ENTRIES-1:0]          step_select,
    input  wire [PTR_BITS-1:0]         step_pointer,
    input  wire [PHASES-1:0]           step_phase
);
    localparam COPYING = 3'd2;
    localparam DONE    = 3'd3;

    reg  [ENTRIES-1:0]   used;
    reg  [PPN_BITS-1:0]  source      [0:ENTRIES-1];
    reg  [PPN_BITS-1:0]  destination [0:ENTRIES-1];
    reg  [PTR_BITS-1:0]  pointer     [0:ENTRIES-1];
    reg  [PHASES-1:0]    phase       [0:ENTRIES-1];

    wire [ENTRIES-1:0]   match_source;
    wire [ENTRIES-1:0]   match_destination;
    wire [ENTRIES-1:0]   copied;

    genvar e;
    generate
        for (e = 0; e < ENTRIES; e = e + 1) begin : entry
            assign match_source[e]      = used[e] && source[e] == lookup_ppn;
            assign match_destination[e] = used[e] && destination[e] == lookup_ppn;
            // A line has moved when it lies below the pointer, not when it is the pointer's.
            assign copied[e] = phase[e] == DONE
                || (phase[e] == COPYING && {1'b0, lookup_line} < pointer[e]);

            always @(posedge clock) begin
                if (reset)
                    used[e] <= 1'b0;
                else if (write_valid && write_select[e])
                    used[e] <= write_used;
                if (write_valid && write_select[e]) begin
                    source[e]      <= write_source;
                    destination[e] <= write_destination;
                end
                if (write_valid && write_select[e]) begin
                    pointer[e] <= {PTR_BITS{1'b0}};
                    phase[e]   <= {PHASES{1'b0}};
                end else if (step_valid && step_select[e]) begin
                    pointer[e] <= step_pointer;
                    phase[e]   <= step_phase;
                end
            end
        end
    endgenerate

    // At most one entry matches: the controller refuses overlapping migrations.
    reg                 any_copied;
    reg [PHASES-1:0]    any_phase;
    reg [PPN_BITS-1:0]  any_other;
    integer i;
    always @* begin
        any_copied = 1'b0;
        any_phase  = {PHASES{1'b0}};
        any_other  = {PPN_BITS{1'b0}};
        for (i = 0; i < ENTRIES; i = i + 1) begin
            any_copied = any_copied | ((match_source[i] | match_destination[i]) & copied[i]);
            any_phase  = any_phase
                | ({PHASES{match_source[i] | match_destination[i]}} & phase[i]);
            any_other  = any_other
                | ({PPN_BITS{match_source[i]}} & destination[i])
                | ({PPN_BITS{match_destination[i]}} & source[i]);
        end
    end

    always @(posedge clock) begin
        hit           <= !reset && lookup_valid && |(match_source | match_destination);
        hit_is_source <= |match_source;
        hit_is_copied <= any_copied;
        hit_phase     <= any_phase;
        other_ppn     <= any_other;
    end
endmodule

`default_nettype wire
