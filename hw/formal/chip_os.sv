// SPDX-License-Identifier: MIT OR Apache-2.0
// The OS of chip_proof: which page it moves, and under which names software may use the line.
`default_nettype none

package os_pkg;
    // Where the OS is in a migration.
    localparam logic [2:0] IDLE     = 3'd0;
    localparam logic [2:0] INSTALLS = 3'd1;
    localparam logic [2:0] RESTS    = 3'd2;    // installed, not cacheable: may start or give up
    localparam logic [2:0] BOTH     = 3'd3;    // both names are in use
    localparam logic [2:0] COPIES   = 3'd4;
    localparam logic [2:0] COPIED   = 3'd5;
    localparam logic [2:0] CLEARS   = 3'd6;

    // Kinds of requests.
    localparam logic [1:0] READ  = 2'd0;
    localparam logic [1:0] WRITE = 2'd1;
    localparam logic [1:0] COPY  = 2'd2;       // the line, for a private cache
    localparam logic [1:0] BACK  = 2'd3;       // a write-back
endpackage

module chip_os (
    input wire logic        clock, started, is_cacheable, calm,
    // What the environment wants.
    input wire logic        os_acts, os_starts, os_aborts,
    input wire logic [1:0]  asks, asked_name,
    // Requests that are under way, and the front end.
    input wire logic [1:0]  under_way, r_name,
    input wire logic [3:0]  r_kind,
    input wire logic        command_ready, record_valid, record_go,
    input wire logic [4:0]  record_status,
    // Whether no page is moved; whether no command is under way; the place that holds the page.
    output wire logic       idle, waits,
    output logic            migrating_from,
    output wire logic [1:0] names, starts_request,
    output wire logic       command_valid, command_clear, command_start
);
    logic [2:0] os;
    logic       aborts;
    wire logic resting = os == os_pkg::IDLE || os == os_pkg::RESTS;
    wire logic clears  = os == os_pkg::CLEARS;
    wire logic late    = os == os_pkg::COPIES || os == os_pkg::COPIED || clears;
    wire logic old_only = resting || os == os_pkg::INSTALLS || (clears && aborts)
        || (os == os_pkg::COPIES && !is_cacheable);
    wire logic new_only = late && !old_only && (is_cacheable || clears);
    assign names = {!(migrating_from ? new_only : old_only),
        !(migrating_from ? old_only : new_only)};
    // A name is given up when no access under it is under way; write-backs may be.
    assign starts_request = {2{!calm}} & asks & ~under_way
        & {names[asked_name[1]], names[asked_name[0]]};
    wire logic [1:0] backs    = {r_kind[3:2] == os_pkg::BACK, r_kind[1:0] == os_pkg::BACK};
    wire logic [1:0] accesses = under_way & ~backs;
    wire logic both      = os == os_pkg::BOTH;
    wire logic quiet_old = (accesses & (migrating_from ? r_name : ~r_name)) == '0;
    wire logic quiet_new = (accesses & (migrating_from ? ~r_name : r_name)) == '0;
    wire logic gives_up  = os_aborts && (os == os_pkg::RESTS || (both && is_cacheable));
    wire logic may_go    = resting || os == os_pkg::COPIED
        || (both && (gives_up ? quiet_new : quiet_old));
    assign idle  = os == os_pkg::IDLE;
    assign waits = resting || both || os == os_pkg::COPIED;
    assign command_valid = started && os_acts && !calm && may_go && starts_request == '0;
    assign command_clear = os == os_pkg::COPIED || (both && !is_cacheable) || gives_up;
    assign command_start = !command_clear && (!idle || (!is_cacheable && os_starts));
    wire logic records = record_valid && (record_go || calm);
    always_ff @(posedge clock) begin
        if (!started) begin
            os <= os_pkg::IDLE;
            migrating_from <= 1'b0;
            aborts <= 1'b0;
        end else if (command_valid && command_ready) begin
            os     <= command_clear ? os_pkg::CLEARS
                : command_start ? os_pkg::COPIES : os_pkg::INSTALLS;
            aborts <= gives_up;
        end else if (records)
            case (record_status)
                ctg_pkg::S_INSTALLED: os <= is_cacheable ? os_pkg::BOTH : os_pkg::RESTS;
                ctg_pkg::S_COPIED:    os <= is_cacheable ? os_pkg::COPIED : os_pkg::BOTH;
                default: begin
                    os <= os_pkg::IDLE;
                    migrating_from <= migrating_from ^ !aborts;
                end
            endcase
    end

    // Its commands are never wrong, and each ends as it should.
    logic was_started;
    always_ff @(posedge clock) was_started <= started;
    always_ff @(posedge clock) if (started && was_started)
        as_asked: assert (!records
            || (record_status == ctg_pkg::S_INSTALLED && os == os_pkg::INSTALLS)
            || (record_status == ctg_pkg::S_COPIED && os == os_pkg::COPIES)
            || (record_status == ctg_pkg::S_CLEARED && clears));
endmodule

`default_nettype wire
