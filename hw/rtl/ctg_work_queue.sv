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
    localparam logic [COUNT_BITS-1:0] FULL = COUNT_BITS'(DEPTH);

    logic [DEPTH*WIDTH-1:0]         places;
    logic [DEPTH*FUNCTION_BITS-1:0] owners;
    logic [COUNT_BITS-1:0]          count, chosen;
    logic [DEPTH-1:0]               here;

    assign full  = count == FULL;
    assign valid = count != '0;

    // The oldest of a function that is being reset, else the oldest, which is in place 0.
    integer n;
    always_comb begin
        chosen  = '0;
        dropped = 1'b0;
        holds   = '0;
        for (n = DEPTH - 1; n >= 0; n = n - 1) begin
            here[n] = count > COUNT_BITS'(n);
            if (here[n])
                holds[owners[n * FUNCTION_BITS +: FUNCTION_BITS]] = 1'b1;
            if (here[n] && resetting[owners[n * FUNCTION_BITS +: FUNCTION_BITS]]) begin
                chosen  = COUNT_BITS'(n);
                dropped = 1'b1;
            end
        end
    end
    assign owner = owners[32'(chosen) * FUNCTION_BITS +: FUNCTION_BITS];
    assign data  = places[32'(chosen) * WIDTH +: WIDTH];

    genvar i;
    generate
        for (i = 0; i < DEPTH; i = i + 1) begin : place
            localparam logic [COUNT_BITS-1:0] HERE = COUNT_BITS'(i);
            logic [WIDTH-1:0]         behind;
            logic [FUNCTION_BITS-1:0] owner_behind;
            if (i + 1 < DEPTH) begin : inner
                assign behind = places[(i + 1) * WIDTH +: WIDTH];
                assign owner_behind = owners[(i + 1) * FUNCTION_BITS +: FUNCTION_BITS];
            end else begin : last
                assign behind = push_data;
                assign owner_behind = push_function;
            end
            always_ff @(posedge clock) begin
                if (push && count == (pop ? HERE + 1'b1 : HERE)) begin
                    places[i * WIDTH +: WIDTH] <= push_data;
                    owners[i * FUNCTION_BITS +: FUNCTION_BITS] <= push_function;
                end else if (pop && HERE >= chosen) begin
                    places[i * WIDTH +: WIDTH] <= behind;
                    owners[i * FUNCTION_BITS +: FUNCTION_BITS] <= owner_behind;
                end
            end
        end
    endgenerate

    always_ff @(posedge clock) begin
        if (reset)
            count <= '0;
        else if (push && !pop)
            count <= count + 1'b1;
        else if (pop && !push)
            count <= count - 1'b1;
    end
endmodule

`default_nettype wire
