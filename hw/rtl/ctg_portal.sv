// SPDX-License-Identifier: MIT OR Apache-2.0
// The registers of a function: a descriptor written a word at a time, and the doorbell that submits
// it, for software without ENQCMD. The answers to bad input are those of the table in
// docs/contiguitas-hw.md: `code` is 0 when a write only fills a register or the doorbell is taken.
`default_nettype none

module ctg_portal #(
    parameter int LINE_BITS = 42,
    parameter int SMALL     = 6,
    parameter int LARGE     = 15,
    parameter int PPN_BITS  = LINE_BITS - SMALL
) (
    input  wire logic                  clock,
    input  wire logic                  reset,
    input  wire logic [PPN_BITS:0]     memory,         // 4 KB pages of memory
    input  wire logic                  write_valid,
    input  wire logic [1:0]            write_register, // source, destination, pages, doorbell
    input  wire logic [63:0]           write_value,
    output logic                       retry,          // the work queue is full
    output logic [4:0]                 code,
    output logic                       drop,           // doorbell 4: reset of the function

    output logic                       command_valid,
    input  wire logic                  command_ready,
    output logic                       command_clear,
    output logic                       command_start,
    output logic                       command_wide,
    output logic [PPN_BITS-1:0]        command_src,
    output logic [PPN_BITS-1:0]        command_dst
);
    localparam logic [63:0] ONE   = 64'd1;
    localparam logic [63:0] MANY  = 64'd1 << (LARGE - SMALL);
    localparam logic [63:0] LINES = 64'hFFFF_FFFF >> SMALL; // pages that 32 bits of lines hold
    localparam int          BYTES = SMALL + 6;              // log2 of the bytes of a page

    logic [63:0] source, destination, pages;
    logic [2:0]  written;
    logic        rings, known, crooked, beyond;
    logic [63:0] offset;                                    // of either in a page of its size
    logic [64:0] source_end, destination_end;               // in pages

    assign rings    = write_valid && write_register == 2'd3;
    assign known    = write_value >= 64'd1 && write_value <= 64'd3;
    assign offset   = (source | destination)
        & ~({64{1'b1}} << (pages == MANY ? LARGE + 6 : BYTES));
    assign crooked  = offset != '0;
    assign source_end      = ({1'b0, source} >> BYTES) + {1'b0, pages};
    assign destination_end = ({1'b0, destination} >> BYTES) + {1'b0, pages};
    assign beyond   = pages > LINES || source_end > 65'(memory) || destination_end > 65'(memory);
    assign drop     = rings && write_value == 64'd4;

    always_comb begin
        code = '0;
        if (rings && !drop) begin
            if (written != 3'b111)
                code = ctg_pkg::S_INCOMPLETE;
            else if (!known)
                code = ctg_pkg::S_UNKNOWN_COMMAND;
            else if (crooked)
                code = ctg_pkg::S_UNALIGNED;
            else if (beyond)
                code = ctg_pkg::S_OUTSIDE_MEMORY;
            else if ((pages != ONE && pages != MANY) || source == destination)
                code = ctg_pkg::S_BAD_RANGE; // none, or a size that the table has no entry for
        end
    end

    assign command_valid = rings && !drop && code == '0;
    assign command_clear = write_value == 64'd3;
    assign command_start = write_value == 64'd2;
    assign command_wide  = pages == MANY && LARGE > SMALL;
    assign command_src   = source[LINE_BITS+5:BYTES];
    assign command_dst   = destination[LINE_BITS+5:BYTES];
    assign retry         = command_valid && !command_ready;

    always_ff @(posedge clock) begin
        if (reset || drop || (command_valid && command_ready))
            written <= '0;
        else if (write_valid && !rings)
            written[write_register] <= 1'b1;
        if (write_valid && write_register == 2'd0)
            source <= write_value;
        if (write_valid && write_register == 2'd1)
            destination <= write_value;
        if (write_valid && write_register == 2'd2)
            pages <= write_value;
    end
endmodule

`default_nettype wire
