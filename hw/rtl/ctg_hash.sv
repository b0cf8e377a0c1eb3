// SPDX-License-Identifier: MIT OR Apache-2.0
// The home slice of a line: a copy of the hash of the private caches (Contiguitas section 3.3,
// distributed slices). The kinds are those of SliceHash in crates/migration; its multiplicative
// hash is an upper bound of a study and has no hardware here.
`default_nettype none

module ctg_hash #(
    parameter int LINE_BITS = 42,  // 48-bit physical addresses, lines of 64 bytes
    parameter int SLICES    = 8,
    parameter int KIND      = 1,   // 0 modulo, 1 exclusive-or fold, 2 Gray, 3 whole 4 KB pages
    parameter int SLICE_BITS = SLICES > 1 ? $clog2(SLICES) : 1
) (
    input  wire logic [LINE_BITS-1:0]  line,
    output logic [SLICE_BITS-1:0]      slice
);
    logic [63:0] whole, fold32, fold16, fold7, spread;

    assign whole  = {{(64 - LINE_BITS){1'b0}}, line};
    assign fold32 = whole ^ (whole >> 32);
    assign fold16 = fold32 ^ (fold32 >> 16);
    assign fold7  = fold16 ^ (fold16 >> 7);

    generate
        if (KIND == 0) begin : modulo
            assign spread = whole;
        end else if (KIND == 1) begin : fold
            assign spread = fold7 ^ (fold7 >> 3);
        end else if (KIND == 2) begin : gray
            assign spread = whole ^ (whole >> 1);
        end else begin : pages
            assign spread = whole >> 6;
        end
    endgenerate

    localparam logic [63:0] COUNT = 64'(SLICES);
    logic [63:0] rest;
    assign rest  = spread % COUNT;
    assign slice = rest[SLICE_BITS-1:0];

    // Upper bits of the spread matter only where SLICES is no power of two.
    wire unused_ok = &{1'b0, rest[63:SLICE_BITS], fold7, 1'b0};
endmodule

`default_nettype wire
