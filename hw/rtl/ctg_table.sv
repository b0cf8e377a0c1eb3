// SPDX-License-Identifier: MIT OR Apache-2.0
// The metadata table of a slice (Contiguitas section 3.3 and figure 8b): fully associative on the
// source and on the destination page number, with Ptr, size and phase of each migration. The
// number of a place comes from the controller, whose table every slice replicates.
`default_nettype none

module ctg_table #(
    parameter int ENTRIES   = 16,
    parameter int LINE_BITS = 42,
    parameter int SMALL     = 6,   // log2 of the lines of a 4 KB page
    parameter int LARGE     = 15,  // of a 2 MB page; equal to SMALL: one size only
    parameter int FWD_BITS  = 10,  // counter of forwards under way
    parameter int SLOT_BITS = ENTRIES > 1 ? $clog2(ENTRIES) : 1,
    parameter int PPN_BITS  = LINE_BITS - SMALL,
    parameter int PTR_BITS  = LARGE + 1
) (
    input  wire logic                          clock,
    input  wire logic                          reset,

    input  wire logic                          install_valid,
    input  wire logic [SLOT_BITS-1:0]          install_slot,
    input  wire logic [PPN_BITS-1:0]           install_src,
    input  wire logic [PPN_BITS-1:0]           install_dst,
    input  wire logic                          install_wide,
    input  wire logic                          phase_valid,
    input  wire logic [SLOT_BITS-1:0]          phase_slot,
    input  wire logic [2:0]                    phase_new,
    input  wire logic                          pointer_valid,
    input  wire logic [SLOT_BITS-1:0]          pointer_slot,
    input  wire logic [PTR_BITS-1:0]           pointer_new,
    input  wire logic                          clear_valid,
    input  wire logic [SLOT_BITS-1:0]          clear_slot,
    input  wire logic                          remove_valid,
    input  wire logic [SLOT_BITS-1:0]          remove_slot,
    input  wire logic [ENTRIES-1:0]            forward_up,
    input  wire logic [ENTRIES-1:0]            forward_down,

    // Look-up: the entries whose source or destination page holds the line.
    input  wire logic [LINE_BITS-1:0]          lookup_line,
    output logic [ENTRIES-1:0]                 in_source,
    output logic [ENTRIES-1:0]                 in_destination,

    output logic [ENTRIES-1:0]                 used,
    output logic [ENTRIES-1:0]                 clearing,
    output logic [ENTRIES-1:0]                 wide,
    output logic [ENTRIES-1:0]                 idle,   // no forward under way
    output logic [ENTRIES-1:0]                 full,   // one more would not fit the counter
    output logic [ENTRIES*PPN_BITS-1:0]        src,
    output logic [ENTRIES*PPN_BITS-1:0]        dst,
    output logic [ENTRIES*3-1:0]               phase,
    output logic [ENTRIES*PTR_BITS-1:0]        pointer,
    output logic [ENTRIES*FWD_BITS-1:0]        forwards
);
    localparam int EXTRA = LARGE - SMALL;

    // Bits of the page number that count of a large page.
    localparam logic [PPN_BITS-1:0] LARGE_MASK = {PPN_BITS{1'b1}} << EXTRA;

    logic [PPN_BITS-1:0] lookup_ppn;
    assign lookup_ppn = lookup_line[LINE_BITS-1:SMALL];
    wire unused_ok = &{1'b0, lookup_line[SMALL-1:0], 1'b0};

    genvar e;
    generate
        for (e = 0; e < ENTRIES; e = e + 1) begin : entry
            localparam logic [SLOT_BITS-1:0] HERE = SLOT_BITS'(e);
            logic                is_used, is_clearing, is_wide;
            logic [PPN_BITS-1:0] its_src, its_dst, mask;
            logic [2:0]          its_phase;
            logic [PTR_BITS-1:0] its_pointer;
            logic [FWD_BITS-1:0] its_forwards;

            assign mask = is_wide ? LARGE_MASK : {PPN_BITS{1'b1}};
            assign in_source[e]      = is_used && ((its_src ^ lookup_ppn) & mask) == '0;
            assign in_destination[e] = is_used && ((its_dst ^ lookup_ppn) & mask) == '0;

            assign used[e]     = is_used;
            assign clearing[e] = is_clearing;
            assign wide[e]    = is_wide;
            assign idle[e]     = its_forwards == '0;
            assign full[e]     = &its_forwards;
            assign src[e * PPN_BITS +: PPN_BITS]      = its_src;
            assign dst[e * PPN_BITS +: PPN_BITS]      = its_dst;
            assign phase[e * 3 +: 3]                  = its_phase;
            assign pointer[e * PTR_BITS +: PTR_BITS]  = its_pointer;
            assign forwards[e * FWD_BITS +: FWD_BITS] = its_forwards;

            always_ff @(posedge clock) begin
                if (reset) begin
                    is_used     <= 1'b0;
                    is_clearing <= 1'b0;
                end else if (install_valid && install_slot == HERE) begin
                    is_used     <= 1'b1;
                    is_clearing <= 1'b0;
                end else begin
                    if (remove_valid && remove_slot == HERE)
                        is_used <= 1'b0;
                    if (clear_valid && clear_slot == HERE)
                        is_clearing <= 1'b1;
                end
                if (install_valid && install_slot == HERE) begin
                    its_src   <= install_src;
                    its_dst   <= install_dst;
                    is_wide  <= install_wide;
                    its_phase <= ctg_pkg::PURGING;
                end else if (phase_valid && phase_slot == HERE)
                    its_phase <= phase_new;
                if (install_valid && install_slot == HERE)
                    its_pointer <= '0;
                else if (pointer_valid && pointer_slot == HERE)
                    its_pointer <= pointer_new;
                if (reset || (install_valid && install_slot == HERE))
                    its_forwards <= '0;
                else if (forward_up[e] && !forward_down[e])
                    its_forwards <= its_forwards + 1'b1;
                else if (forward_down[e] && !forward_up[e])
                    its_forwards <= its_forwards - 1'b1;
            end
        end
    endgenerate
endmodule

`default_nettype wire
