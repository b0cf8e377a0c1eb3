// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue in the order of arrival, the oldest in place 0. `chosen` is the place that is shown and
// taken: 0 for first in, first out. `room` says how many places are free, so that a pipeline in
// front of it can stop in time.
`default_nettype none

module ctg_queue #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 4,
    parameter int COUNT_BITS = $clog2(DEPTH + 1)
) (
    input  wire logic                  clock,
    input  wire logic                  reset,
    input  wire logic                  push,
    input  wire logic [WIDTH-1:0]      push_data,
    output logic [COUNT_BITS-1:0]      room,
    output logic [DEPTH-1:0]           filled,
    output logic [DEPTH*WIDTH-1:0]     places,
    input  wire logic [COUNT_BITS-1:0] chosen,
    output logic                       valid,
    output logic [WIDTH-1:0]           data,
    input  wire logic                  pop
);
    localparam logic [COUNT_BITS-1:0] FULL = COUNT_BITS'(DEPTH);

    logic [COUNT_BITS-1:0] count;

    assign room  = FULL - count;
    assign valid = count != 0;
    assign data  = places[32'(chosen) * WIDTH +: WIDTH];

    // The oldest is always in place 0: short queues, and no pointers to prove things about.
    genvar i;
    generate
        for (i = 0; i < DEPTH; i = i + 1) begin : place
            localparam logic [COUNT_BITS-1:0] HERE = COUNT_BITS'(i);
            logic [WIDTH-1:0] behind;
            assign filled[i] = count > HERE;
            if (i + 1 < DEPTH) begin : inner
                assign behind = places[(i + 1) * WIDTH +: WIDTH];
            end else begin : last
                assign behind = push_data;
            end
            always_ff @(posedge clock) begin
                if (push && count == (pop ? HERE + 1'b1 : HERE))
                    places[i * WIDTH +: WIDTH] <= push_data;
                else if (pop && HERE >= chosen)
                    places[i * WIDTH +: WIDTH] <= behind;
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
