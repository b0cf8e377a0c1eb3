// SPDX-License-Identifier: MIT OR Apache-2.0
// Random look-ups on the synthesised netlist of the table, to count how many nets change. All 16
// entries are in use; half of the look-ups hit. Fixed seed.
`timescale 1ns / 1ps
`default_nettype none

module activity_tb;
    parameter   LOOKUPS = 400;
    reg         clock = 0, reset = 1, lookup_valid = 0;
    reg  [35:0] lookup_ppn = 0;
    reg  [5:0]  lookup_line = 0;
    wire        hit, hit_is_source, hit_is_copied;
    wire [2:0]  hit_phase;
    wire [35:0] other_ppn;
    reg         write_valid = 0, write_used = 1, step_valid = 0;
    reg  [15:0] write_select = 0, step_select = 0;
    reg  [35:0] write_source = 0, write_destination = 0;
    reg  [6:0]  step_pointer = 0;
    reg  [2:0]  step_phase = 0;
    reg  [35:0] pages [0:31];
    integer     i, seed, hits;

    metadata_table dut (
        .clock(clock), .reset(reset), .lookup_valid(lookup_valid), .lookup_ppn(lookup_ppn),
        .lookup_line(lookup_line), .hit(hit), .hit_is_source(hit_is_source),
        .hit_is_copied(hit_is_copied), .hit_phase(hit_phase), .other_ppn(other_ppn),
        .write_valid(write_valid), .write_select(write_select), .write_used(write_used),
        .write_source(write_source), .write_destination(write_destination),
        .step_valid(step_valid), .step_select(step_select), .step_pointer(step_pointer),
        .step_phase(step_phase)
    );

    always #5 clock = !clock;

    // Frames of a 64 GB machine: 24 bits that vary.
    function [35:0] frame(input integer unused);
        frame = {12'b0, $random(seed)} & 36'hFFFFFF;
    endfunction

    initial begin
        seed = 1;
        hits = 0;
        @(negedge clock);
        @(negedge clock);
        reset = 0;
        for (i = 0; i < 16; i = i + 1) begin
            pages[2 * i] = frame(0);
            pages[2 * i + 1] = frame(0);
            write_valid = 1;
            write_select = 16'b1 << i;
            write_source = pages[2 * i];
            write_destination = pages[2 * i + 1];
            @(negedge clock);
        end
        write_valid = 0;
        @(negedge clock);
        $dumpfile("activity.vcd");
        $dumpvars(0, dut);
        for (i = 0; i < LOOKUPS; i = i + 1) begin
            lookup_valid = 1;
            lookup_ppn = (i % 2) ? pages[$random(seed) & 31] : frame(0);
            lookup_line = $random(seed);
            @(negedge clock);
            hits = hits + hit;
        end
        $display("lookups %0d hits %0d", LOOKUPS, hits);
        $finish;
    end
endmodule

`default_nettype wire
