// SPDX-License-Identifier: MIT OR Apache-2.0
// Codes that the modules of Contiguitas-HW share (Contiguitas, ISCA 2023, section 3.3). The names
// are those of the protocol in crates/migration/src/protocol.
`default_nettype none

package ctg_pkg;
    // What the engine does with an entry (protocol: Phase).
    localparam logic [2:0] PURGING     = 3'd0;
    localparam logic [2:0] REDIRECTING = 3'd1;
    localparam logic [2:0] COPYING     = 3'd2;
    localparam logic [2:0] DONE        = 3'd3;
    localparam logic [2:0] FLUSHING    = 3'd4;

    // Where a request goes.
    localparam logic [1:0] LOCAL   = 2'd0;  // serve it here, at line `at`
    localparam logic [1:0] FORWARD = 2'd1;  // to another slice
    localparam logic [1:0] NACK    = 2'd2;  // not cacheable: mark the page, ask again
    localparam logic [1:0] WAIT    = 2'd3;  // the counter of forwards is full: ask again

    // Messages to a slice.
    localparam logic [3:0] INSTALL    = 4'd0;
    localparam logic [3:0] TURN       = 4'd1;
    localparam logic [3:0] FINISH     = 4'd2;
    localparam logic [3:0] FLUSH      = 4'd3;
    localparam logic [3:0] CLEAR      = 4'd4;
    localparam logic [3:0] COPY_WRITE = 4'd5;
    localparam logic [3:0] HANDOVER   = 4'd6;
    localparam logic [3:0] COPY_ACK   = 4'd7;
    localparam logic [3:0] SERVED     = 4'd8;
    // Messages of a slice to the controller.
    localparam logic [3:0] INSTALLED    = 4'd9;
    localparam logic [3:0] SLICE_COPIED = 4'd10;
    localparam logic [3:0] FINISHED     = 4'd11;
    localparam logic [3:0] FLUSHED      = 4'd12;
    localparam logic [3:0] CLEARED      = 4'd13;
    // Messages of the controller to the cores.
    localparam logic [3:0] MARK   = 4'd14;
    localparam logic [3:0] UNMARK = 4'd15;

    // What a completion record says (docs/contiguitas-hw.md, bad input).
    localparam logic [4:0] S_INSTALLED        = 5'd1;
    localparam logic [4:0] S_COPIED           = 5'd2;
    localparam logic [4:0] S_CLEARED          = 5'd3;
    localparam logic [4:0] S_INCOMPLETE       = 5'd16;
    localparam logic [4:0] S_UNKNOWN_COMMAND  = 5'd17;
    localparam logic [4:0] S_UNALIGNED        = 5'd18;
    localparam logic [4:0] S_NOT_YOURS        = 5'd19;
    localparam logic [4:0] S_OUTSIDE_MEMORY   = 5'd20;
    localparam logic [4:0] S_BAD_RANGE        = 5'd21;
    localparam logic [4:0] S_NOT_FOUND        = 5'd22;
    localparam logic [4:0] S_COPY_IN_PROGRESS = 5'd23;
    localparam logic [4:0] S_OVERLAP          = 5'd24;
    localparam logic [4:0] S_TABLE_FULL       = 5'd25;
    localparam logic [4:0] S_DROPPED          = 5'd26;
endpackage

`default_nettype wire
