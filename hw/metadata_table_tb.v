// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks of the metadata table: match on both sides, the pointer comparison at its borders,
// clearing. Prints PASS, or what differed.
`timescale 1ns / 1ps
`default_nettype none

module metadata_table_tb;
    reg         clock = 0;
    reg         reset = 1;
    reg         lookup_valid = 0;
    reg  [35:0] lookup_ppn = 0;
    reg  [5:0]  lookup_line = 0;
    wire        hit, hit_is_source, hit_is_copied;
    wire [2:0]  hit_phase;
    wire [35:0] other_ppn;
    reg         write_valid = 0, write_used = 0, step_valid = 0;
    reg  [15:0] write_select = 0, step_select = 0;
    reg  [35:0] write_source = 0, write_destination = 0;
    reg  [6:0]  step_pointer = 0;
    reg  [2:0]  step_phase = 0;
    integer     failures = 0;
    integer     line;

    metadata_table dut (
        .clock(clock), .reset(reset), .lookup_valid(lookup_valid), .lookup_ppn(lookup_ppn),
        .lookup_line(lookup_line), .hit(hit), .hit_is_source(hit_is_source),
        .hit_is_copied(hit_is_copied), .hit_phase(hit_phase), .other_ppn(other_ppn),
        .write_valid(write_valid), .write_select(write_select), .write_used(write_used),
        .write_source(write_source), .write_destination(write_destination),
        .step_valid(step_valid), .step_select(step_select), .step_pointer(step_pointer),
        .step_phase(step_phase)
    );

    always #1 clock = !clock;

    task tick;
        begin
            @(posedge clock);
            #0.1;
        end
    endtask

    task look(input [35:0] ppn, input [5:0] at);
        begin
            lookup_valid = 1;
            lookup_ppn = ppn;
            lookup_line = at;
            tick;
            lookup_valid = 0;
        end
    endtask

    task expect_that(input condition, input [8*40-1:0] what);
        if (!condition) begin
            failures = failures + 1;
            $display("FAIL: %0s (line %0d)", what, line);
        end
    endtask

    task install(input integer slot, input [35:0] src, input [35:0] dst, input use_it);
        begin
            write_valid = 1;
            write_select = 16'b1 << slot;
            write_used = use_it;
            write_source = src;
            write_destination = dst;
            tick;
            write_valid = 0;
        end
    endtask

    initial begin
        line = 0;
        tick;
        reset = 0;
        look(36'd7, 0);
        expect_that(!hit, "empty table hits");
        install(3, 36'h123456789, 36'hABCDEF012, 1);
        install(15, 36'h5, 36'h6, 1);
        look(36'h123456789, 0);
        expect_that(hit && hit_is_source && other_ppn == 36'hABCDEF012, "source");
        look(36'hABCDEF012, 0);
        expect_that(hit && !hit_is_source && other_ppn == 36'h123456789, "destination");
        look(36'h6, 0);
        expect_that(hit && other_ppn == 36'h5, "last entry");
        step_valid = 1;
        step_select = 16'b1 << 3;
        step_phase = 3'd2;
        step_pointer = 7'd40;
        tick;
        step_valid = 0;
        for (line = 0; line < 64; line = line + 1) begin
            look(36'h123456789, line[5:0]);
            expect_that(hit_is_copied == (line < 40), "pointer comparison");
        end
        install(3, 36'h0, 36'h0, 0);
        look(36'h123456789, 0);
        expect_that(!hit, "cleared entry hits");
        if (failures == 0)
            $display("PASS");
        $finish;
    end
endmodule

`default_nettype wire
