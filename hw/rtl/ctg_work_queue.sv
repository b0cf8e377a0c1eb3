// SPDX-License-Identifier: MIT OR Apache-2.0
// The work queue: descriptors in the order in which they came, except that those of a function that
// is being reset come out first, so that its reset waits for nobody else's work.
`default_nettype none

module ctg_work_queue #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 8,
    parameter int FUNCTION_BITS = 2,
    parameter int COUNT_BITS = $clog2(DEPTH + 1)
) (
    input  wire logic                          clock,
    input  wire logic                          reset,
    input  wire logic [2**FUNCTION_BITS-1:0]   resetting, // by function
    output logic [2**FUNCTION_BITS-1:0]        holds,     // functions that have a descriptor in it

    input  wire logic                          push,
    input  wire logic [FUNCTION_BITS-1:0]      push_function,
    input  wire logic [WIDTH-1:0]              push_data,
    output logic                               full,

    output logic                               valid,
    output logic                               dropped,   // its function is being reset
    output logic [FUNCTION_BITS-1:0]           owner,
    output logic [WIDTH-1:0]                   data,
    input  wire logic                          pop
);
    localparam int ENTRY_BITS = FUNCTION_BITS + WIDTH; // whose it is, and the descriptor

    logic [DEPTH*ENTRY_BITS-1:0]        places;
    logic [DEPTH-1:0]                   filled;
    logic [COUNT_BITS-1:0]              room, chosen;
    logic [DEPTH*FUNCTION_BITS-1:0]     owners;
    assign full = room == '0;

    // The oldest of a function that is being reset, else the oldest, which is in place 0.
    integer n;
    always_comb begin
        chosen  = '0;
        dropped = 1'b0;
        holds   = '0;
        for (n = DEPTH - 1; n >= 0; n = n - 1) begin
            owners[n * FUNCTION_BITS +: FUNCTION_BITS] =
                places[n * ENTRY_BITS + WIDTH +: FUNCTION_BITS];
            if (filled[n])
                holds[owners[n * FUNCTION_BITS +: FUNCTION_BITS]] = 1'b1;
            if (filled[n] && resetting[owners[n * FUNCTION_BITS +: FUNCTION_BITS]]) begin
                chosen  = COUNT_BITS'(n);
                dropped = 1'b1;
            end
        end
    end

    ctg_queue #(.WIDTH(ENTRY_BITS), .DEPTH(DEPTH)) entries (
        .clock(clock), .reset(reset), .push(push), .push_data({push_function, push_data}),
        .room(room), .filled(filled), .places(places), .chosen(chosen), .valid(valid),
        .data({owner, data}), .pop(pop));
endmodule

`default_nettype wire
