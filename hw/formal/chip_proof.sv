// SPDX-License-Identifier: MIT OR Apache-2.0
// The front end and two slices together, and the values of one line. The environment is the network
// (any order, any delay), the requests of cores and devices, one private cache, and an OS that goes
// through migrations of the page there and back, with aborts, in either design.
//
// A value is current in a place or not: a write makes it current where it is served and nowhere
// else; a copy carries what its source has. Every access that is served has to find it current.
// Frames hold two lines, one at home in each slice; which frames, and which line is followed, is
// free. One migration at a time: what several do to each other is in slice_proof, where the place
// of each entry is free, and in the model checker.
`default_nettype none

module chip_proof (
    input wire logic       clock,
    // Straps.
    input wire logic       cacheable, parallel, announce,
    input wire logic [1:0] window,
    input wire logic [1:0] frame_a, frame_b,
    input wire logic       index,
    // The OS, and the software that has used the free frame.
    input wire logic       os_acts, os_starts, os_aborts, dirties, dead_leaves,
    // Cores and devices.
    input wire logic [1:0] asks, asked_name, asks_again, retries,
    input wire logic [3:0] asked_kind,
    input wire logic       core_uses, core_writes, core_evicts, core_answers,
    // Slices and network.
    input wire logic [1:0] presents, takes, op_go, answer_go, put_go, release_go, report_go, keeps,
    input wire logic [3:0] deliver,
    input wire logic       cores_go, record_go, calms
);
    logic started = 1'b0;
    always_ff @(posedge clock) started <= 1'b1;

    logic       is_cacheable, is_parallel, announces, k;
    logic [1:0] its_window, a, b;
    always_ff @(posedge clock) if (!started) begin
        is_cacheable <= cacheable;
        is_parallel  <= parallel;
        announces    <= announce;
        its_window   <= window;
        a            <= frame_a;
        b            <= frame_b;
        k            <= index;
    end
    always_comb if (!started) begin
        assume (window == 2'd1 || window == 2'd2);
        assume (frame_a != frame_b);
    end
    wire logic [2:0] line_a = {a, k};
    wire logic [2:0] line_b = {b, k};
    wire logic [1:0] home = {b[0] ^ k, a[0] ^ k};    // by place: the Gray hash of the line

    // At any time the environment may calm down: nothing new begins, and all that waits goes on.
    logic       calm;
    logic [5:0] calm_for;
    always_ff @(posedge clock) begin
        calm     <= started && (calm || calms);
        calm_for <= started && calm ? calm_for + {5'd0, calm_for != '1} : '0;
    end

    // The front end.
    logic       command_ready, slices_valid, slices_all, cores_valid, send_slot, send_wide;
    logic       answer_ready, record_valid, record_clear, record_start, record_wide;
    logic       record_function, controller_used, view_owner;
    logic [3:0] slices_kind, cores_kind;
    logic [1:0] send_src, send_dst, record_src, record_dst, reports;
    logic [4:0] record_status;
    logic       core_owes, command_valid, command_clear, command_start, slices_ready;
    logic       migrating_from;                      // the place that holds the page
    wire logic  report = |(reports & (report_go | {2{calm}}));
    wire logic  core_reports = !report && core_owes && (core_answers || calm);
    ctg_controller #(
        .ENTRIES(1), .SLICES(2), .CORES(1), .LINE_BITS(3), .SMALL(1), .LARGE(1), .QUEUE(2),
        .RECORDS(2), .FUNCTION_BITS(1)
    ) front (
        .clock(clock), .reset(!started), .cacheable(is_cacheable), .parallel(is_parallel),
        .announce(announces), .pages(3'd4), .hold(1'b0), .drop(1'b0), .drop_function(1'b0),
        .grant_valid(1'b0), .grant_function(1'b0), .grant_first(2'd0), .grant_pages(3'd0),
        .grant_entries(2'd0), .command_function(1'b0),
        .command_valid(command_valid), .command_ready(command_ready),
        .command_clear(command_clear), .command_start(command_start), .command_wide(1'b0),
        .command_src(migrating_from ? b : a), .command_dst(migrating_from ? a : b),
        .slices_valid(slices_valid), .slices_ready(slices_ready), .slices_kind(slices_kind),
        .slices_all(slices_all), .cores_valid(cores_valid), .cores_kind(cores_kind),
        .cores_ready((cores_go || calm) && !core_owes), .send_slot(send_slot), .send_src(send_src),
        .send_dst(send_dst), .send_wide(send_wide),
        .answer_valid(report || core_reports), .answer_ready(answer_ready),
        .answer_of_core(!report), .answer_slot(1'b0),
        .record_valid(record_valid), .record_ready(record_go || calm), .record_clear(record_clear),
        .record_start(record_start), .record_wide(record_wide), .record_src(record_src),
        .record_dst(record_dst), .record_status(record_status),
        .record_function(record_function),
        .view_used(controller_used), .view_owners(view_owner)
    );

    // Messages on their way: of the front end (and the turn) to each slice; a line and an
    // acknowledgement from each slice; forwards that were served, to each slice.
    logic [1:0] control, line_sent, line_target, line_handover, line_index, line_tag, line_current;
    logic [1:0] ack_sent, ack_target, ack_tag;
    logic [3:0] control_kind0, control_kind1;
    logic [3:0] served, chosen;

    // Requests under way.
    logic [1:0] under_way, offered, r_name, r_where, r_resolved, r_has_origin, r_origin;
    logic [3:0] r_kind;

    // Ports of both slices.
    logic [1:0] request_valid, request_of, decision_valid, decision_take, decision_target;
    logic [1:0] decision_resolved, decision_has_origin, decision_origin, decision_origin_slot;
    logic [1:0] in_valid, in_ready, out_valid, out_ready, out_target, out_slot, out_index;
    logic [1:0] out_owner, out_tag, op_valid, op_ready, op_tag, answer_valid, slice_answer_ready;
    logic [1:0] answer_kept, answer_tag, put_valid, put_ready, put_own, put_handover, put_owner;
    logic [1:0] release_valid, release_ready, in_tag, in_index, in_from, slice_used;
    logic [1:0] slice_clearing, hit;
    logic [3:0] decision_action, forwards, pointers;
    logic [5:0] phases, decision_line, decision_at, op_phase, op_line, put_line, release_line;
    logic [7:0] in_kind, out_kind;

    // What a slice is given: a message of each kind that is there, as the network likes.
    genvar s;
    generate
        for (s = 0; s < 2; s = s + 1) begin : slice
            wire logic [1:0] to_line = line_sent & (s == 0 ? ~line_target : line_target);
            wire logic [1:0] to_ack  = ack_sent & (s == 0 ? ~ack_target : ack_target);
            wire logic [1:0] choice  = !calm ? deliver[s * 2 +: 2] : control[s] ? 2'd0
                : |to_line ? 2'd1 : |to_ack ? 2'd2 : 2'd3;
            assign chosen[s * 2 +: 2] = choice;
            wire logic       of_line = !to_line[0];
            wire logic       of_ack  = !to_ack[0];
            assign in_valid[s] = choice == 2'd0 ? control[s] : choice == 2'd1 ? |to_line
                : choice == 2'd2 ? |to_ack : served[s * 2 +: 2] != 2'd0;
            assign in_kind[s * 4 +: 4] = choice == 2'd0 ? (s == 0 ? control_kind0 : control_kind1)
                : choice == 2'd1
                    ? (line_handover[of_line] ? ctg_pkg::HANDOVER : ctg_pkg::COPY_WRITE)
                : choice == 2'd2 ? ctg_pkg::COPY_ACK : ctg_pkg::SERVED;
            assign in_index[s] = line_index[of_line];
            assign in_tag[s]   = choice == 2'd1 ? line_tag[of_line] : ack_tag[of_ack];
            assign in_from[s]  = of_line;

            // One request a cycle, of those that are here.
            wire logic [1:0] here = under_way & ~offered & (s == 0 ? ~r_where : r_where);
            assign request_of[s]    = here[0] ? here[1] && presents[s] : 1'b1;
            assign request_valid[s] = started && here != '0 && (retries[s] || calm);

            ctg_slice #(
                .ENTRIES(1), .SLICES(2), .HASH(2), .LINE_BITS(3), .SMALL(1), .LARGE(1), .WINDOW(2),
                .CORE_BITS(1), .FWD_BITS(2)
            ) dut (
                .clock(clock), .reset(!started), .id(1'(s)), .cacheable(is_cacheable),
                .parallel(is_parallel), .window(its_window), .request_valid(request_valid[s]),
                .request_line(r_name[request_of[s]] ? line_b : line_a),
                .request_wants_copy(r_kind[32'(request_of[s]) * 2 +: 2] == os_pkg::COPY),
                .request_resolved(r_resolved[request_of[s]]),
                .request_has_origin(r_has_origin[request_of[s]]),
                .request_origin(r_origin[request_of[s]]), .request_origin_slot(1'b0),
                .decision_valid(decision_valid[s]), .decision_action(decision_action[s * 2 +: 2]),
                .decision_line(decision_line[s * 3 +: 3]), .decision_at(decision_at[s * 3 +: 3]),
                .decision_target(decision_target[s]), .decision_resolved(decision_resolved[s]),
                .decision_has_origin(decision_has_origin[s]), .decision_origin(decision_origin[s]),
                .decision_origin_slot(decision_origin_slot[s]), .decision_take(decision_take[s]),
                .in_valid(started && in_valid[s]), .in_ready(in_ready[s]),
                .in_kind(in_kind[s * 4 +: 4]), .in_slot(1'b0), .in_src(migrating_from ? b : a),
                .in_dst(migrating_from ? a : b), .in_wide(1'b0), .in_index(in_index[s]),
                .in_owner(1'b0), .in_tag(in_tag[s]), .in_from(in_from[s]), .out_valid(out_valid[s]),
                .out_ready(out_ready[s]), .out_kind(out_kind[s * 4 +: 4]),
                .out_target(out_target[s]), .out_slot(out_slot[s]), .out_index(out_index[s]),
                .out_owner(out_owner[s]), .out_tag(out_tag[s]), .op_valid(op_valid[s]),
                .op_ready(op_ready[s]), .op_phase(op_phase[s * 3 +: 3]),
                .op_line(op_line[s * 3 +: 3]), .op_tag(op_tag[s]), .answer_valid(answer_valid[s]),
                .answer_ready(slice_answer_ready[s]), .answer_tag(answer_tag[s]),
                .answer_kept(answer_kept[s]), .answer_owner(1'b0), .put_valid(put_valid[s]),
                .put_ready(put_ready[s]), .put_is_own(put_own[s]), .put_handover(put_handover[s]),
                .put_line(put_line[s * 3 +: 3]), .put_owner(put_owner[s]),
                .release_valid(release_valid[s]), .release_ready(release_ready[s]),
                .release_line(release_line[s * 3 +: 3]), .view_used(slice_used[s]),
                .view_clearing(slice_clearing[s]), .view_phase(phases[s * 3 +: 3]),
                .view_pointer(pointers[s * 2 +: 2]), .view_forwards(forwards[s * 2 +: 2]),
                .view_hit(hit[s])
            );
        end
    endgenerate

    // The OS.
    logic [1:0] names, starts_request;
    logic       idle, waits;
    chip_os software (
        .clock(clock), .started(started), .is_cacheable(is_cacheable), .calm(calm),
        .os_acts(os_acts), .os_starts(os_starts), .os_aborts(os_aborts), .asks(asks),
        .asked_name(asked_name), .under_way(under_way), .r_name(r_name), .r_kind(r_kind),
        .command_ready(command_ready), .record_valid(record_valid), .record_go(record_go),
        .record_status(record_status), .idle(idle), .waits(waits),
        .migrating_from(migrating_from), .names(names), .starts_request(starts_request),
        .command_valid(command_valid), .command_clear(command_clear),
        .command_start(command_start)
    );
    wire logic  to = !migrating_from;

    // What a request that is decided in this cycle does.
    logic [1:0] decided;                             // the request, by slice
    logic [1:0] local_place, is_local, closed, opens, puts, place_of_put, place_of_op, op_ours;
    logic [1:0] put_ours, op_out, op_is_ours, op_place, op_flag, answers;
    logic [5:0] op_doing;
    generate
        for (s = 0; s < 2; s = s + 1) begin : handshake
            assign op_ready[s]      = (op_go[s] || calm) && !op_out[s];
            assign opens[s]         = op_valid[s] && op_ready[s];
            assign place_of_op[s]   = op_line[s * 3 + 1 +: 2] == b;
            assign op_ours[s]       = op_line[s * 3] == k;
            assign answer_valid[s]  = op_out[s] && (answer_go[s] || calm);
            assign answer_tag[s]    = op_flag[s];
            assign answers[s]       = answer_valid[s] && slice_answer_ready[s];
            assign put_ready[s]     = put_go[s] || calm;
            assign puts[s]          = put_valid[s] && put_ready[s];
            assign place_of_put[s]  = put_line[s * 3 + 1 +: 2] == b;
            assign put_ours[s]      = put_line[s * 3] == k;
            assign release_ready[s] = release_go[s] || calm;
            assign is_local[s]      = decision_valid[s]
                && decision_action[s * 2 +: 2] == ctg_pkg::LOCAL;
            assign local_place[s]   = decision_at[s * 3 +: 3] == line_b;
            assign decision_take[s] = (takes[s] || calm) && decision_valid[s]
                && decision_action[s * 2 +: 2] != ctg_pkg::WAIT
                && !(is_local[s] && (closed[local_place[s]]
                    || (opens[s] && op_ours[s] && place_of_op[s] == local_place[s])
                    || (puts[s] && put_ours[s] && place_of_put[s] == local_place[s])));
        end
    endgenerate

    // Values: cur by place; the private copy; a dead copy of the frame that is free.
    logic [1:0] cur, n_cur, n_line;
    logic       priv, priv_name, priv_place, priv_leaves, priv_moves, priv_cur, dead;
    logic       n_priv, n_name, n_place, n_leaves, n_moves, n_pcur, n_dead;
    logic       stale, strange, twice, covered_up, op_value;
    // The owner keeps a line only under its new name.
    generate
        for (s = 0; s < 2; s = s + 1) begin : keeping
            assign answer_kept[s] = is_cacheable && keeps[s]
                && op_doing[s * 3 +: 3] == ctg_pkg::COPYING
                && (!op_is_ours[s] || (priv && !priv_leaves && !priv_moves
                    && priv_place == op_place[s] && priv_name != op_place[s]));
        end
    endgenerate
    always_comb begin
        n_cur = cur;
        n_line = line_current;
        n_priv = priv;
        n_name = priv_name;
        n_place = priv_place;
        n_leaves = priv_leaves;
        n_moves = priv_moves;
        n_pcur = priv_cur;
        n_dead = dead;
        {stale, strange, twice, covered_up} = '0;
        op_value = 1'b0;
        // Software that has used the free frame, and its line that leaves a private cache.
        if (idle && dirties)
            n_dead = 1'b1;
        if (n_dead && dead_leaves) begin
            n_dead = 1'b0;
            n_cur[to] = 1'b0;
        end
        for (int n = 0; n < 2; n++) begin
            if (answers[n] && op_is_ours[n]) begin
                if (answer_kept[n])
                    n_moves = 1'b1;
                else if (n_priv && !n_moves && n_place == op_place[n]) begin
                    n_priv = 1'b0;
                    n_cur[op_place[n]] = n_pcur;
                end
                if (op_doing[n * 3 +: 3] == ctg_pkg::PURGING && op_place[n] == to)
                    n_dead = 1'b0;
                op_value = n_cur[op_place[n]];
                n_line[n] = op_value;
            end
        end
        for (int n = 0; n < 2; n++)
            if (puts[n] && put_ours[n]) begin
                covered_up = covered_up || n_dead
                    || (n_priv && !n_moves && n_place == place_of_put[n]);
                if (put_handover[n]) begin
                    n_moves = 1'b0;
                    n_place = place_of_put[n];
                end else
                    n_cur[place_of_put[n]] = put_own[n] ? op_value : line_current[in_from[n]];
            end
        for (int n = 0; n < 2; n++)
            if (is_local[n] && decision_take[n]) begin
                strange = strange || home[local_place[n]] != 1'(n)
                    || (!local_place[n] && decision_at[n * 3 +: 3] != line_a);
                if (r_kind[32'(decided[n]) * 2 +: 2] == os_pkg::BACK) begin
                    if (n_priv && n_leaves) begin
                        if (!n_moves && n_place == local_place[n])
                            n_cur[n_place] = n_pcur;
                        n_priv = 1'b0;
                    end
                end else begin
                    // The directory knows of a copy that lies under the place.
                    twice = twice || (n_priv && (n_moves || n_place != local_place[n]));
                    if (n_priv) begin
                        n_cur[local_place[n]] = n_pcur;
                        n_priv = 1'b0;
                    end
                    stale = stale || (r_kind[32'(decided[n]) * 2 +: 2] != os_pkg::WRITE
                        && !n_cur[local_place[n]]);
                    if (r_kind[32'(decided[n]) * 2 +: 2] == os_pkg::WRITE) begin
                        n_cur = '0;
                        n_line = '0;
                        n_cur[local_place[n]] = 1'b1;
                    end
                    if (r_kind[32'(decided[n]) * 2 +: 2] == os_pkg::COPY) begin
                        n_priv = 1'b1;
                        n_name = r_name[decided[n]];
                        n_place = local_place[n];
                        n_leaves = 1'b0;
                        n_moves = 1'b0;
                        n_pcur = n_cur[local_place[n]];
                    end
                end
            end
        if (n_priv && !n_leaves && names[n_name] && core_uses) begin
            stale = stale || !n_pcur;
            if (core_writes) begin
                n_cur = '0;
                n_line = '0;
                n_pcur = 1'b1;
            end
        end
    end
    // A line leaves the private cache.
    wire logic [1:0] backs = {r_kind[3:2] == os_pkg::BACK, r_kind[1:0] == os_pkg::BACK};
    wire logic back_under_way = (under_way & backs) != '0;
    wire logic evicts = core_evicts && !calm && priv && n_priv && !priv_leaves && !n_leaves
        && n_name == priv_name && !back_under_way && !under_way[1] && !asks[1];

    // Where messages have room.
    assign slices_ready = !control[0] && !(slices_all && control[1]);
    always_comb
        for (int n = 0; n < 2; n++)
            case (out_kind[n * 4 +: 4])
                ctg_pkg::COPY_WRITE, ctg_pkg::HANDOVER: out_ready[n] = !line_sent[n];
                ctg_pkg::COPY_ACK: out_ready[n] = !ack_sent[n];
                ctg_pkg::TURN:     out_ready[n] = !control[out_target[n]] && !slices_valid;
                default:           out_ready[n] = !reports[n];
            endcase

    always_ff @(posedge clock) begin
        cur          <= n_cur;
        line_current <= n_line;
        priv         <= n_priv;
        priv_name    <= n_name;
        priv_place   <= n_place;
        priv_leaves  <= n_leaves || evicts;
        priv_moves   <= n_moves;
        priv_cur     <= n_pcur;
        dead <= n_dead;
        for (int n = 0; n < 2; n++) begin
            // Messages that arrive.
            if (in_valid[n] && in_ready[n])
                case (chosen[n * 2 +: 2])
                    2'd0: control[n] <= 1'b0;
                    2'd1: line_sent[in_from[n]] <= 1'b0;
                    2'd2: ack_sent[!(ack_sent[0] && ack_target[0] == 1'(n))] <= 1'b0;
                    default: ;
                endcase
            // Messages of the slices.
            if (out_valid[n] && out_ready[n])
                case (out_kind[n * 4 +: 4])
                    ctg_pkg::COPY_WRITE, ctg_pkg::HANDOVER: begin
                        line_sent[n]     <= 1'b1;
                        line_target[n]   <= out_target[n];
                        line_handover[n] <= out_kind[n * 4 +: 4] == ctg_pkg::HANDOVER;
                        line_index[n]    <= out_index[n];
                        line_tag[n]      <= out_tag[n];
                    end
                    ctg_pkg::COPY_ACK: begin
                        ack_sent[n]   <= 1'b1;
                        ack_target[n] <= out_target[n];
                        ack_tag[n]    <= out_tag[n];
                    end
                    ctg_pkg::TURN: begin
                        control[out_target[n]] <= 1'b1;
                        if (out_target[n]) control_kind1 <= ctg_pkg::TURN;
                        else control_kind0 <= ctg_pkg::TURN;
                    end
                    default: reports[n] <= 1'b1;
                endcase
            served[n * 2 +: 2] <= served[n * 2 +: 2]
                + {1'b0, is_local[!n] && decision_take[!n] && decision_has_origin[!n]
                    && decision_origin[!n] == 1'(n)}
                - {1'b0, in_valid[n] && in_ready[n] && chosen[n * 2 +: 2] == 2'd3};
            // The engine's line.
            if (opens[n]) begin
                op_out[n]     <= 1'b1;
                op_is_ours[n] <= op_ours[n];
                op_place[n]   <= place_of_op[n];
                op_flag[n]    <= op_tag[n];
                op_doing[n * 3 +: 3] <= op_phase[n * 3 +: 3];
                if (op_ours[n]) closed[place_of_op[n]] <= 1'b1;
            end
            if (answers[n]) begin
                op_out[n] <= 1'b0;
                if (op_is_ours[n] && op_doing[n * 3 +: 3] != ctg_pkg::COPYING)
                    closed[op_place[n]] <= 1'b0;
            end
            if (release_valid[n] && release_ready[n] && release_line[n * 3] == k)
                closed[release_line[n * 3 + 1 +: 2] == b] <= 1'b0;
        end
        if (slices_valid && slices_ready) begin
            control[0]    <= 1'b1;
            control_kind0 <= slices_kind;
            if (slices_all) begin
                control[1]    <= 1'b1;
                control_kind1 <= slices_kind;
            end
        end
        // Reports of either slice are alike to the front end.
        if (report && answer_ready)
            reports[!(reports[0] && (report_go[0] || calm))] <= 1'b0;
        if (cores_valid && (cores_go || calm) && !core_owes)
            core_owes <= 1'b1;
        else if (core_reports && answer_ready)
            core_owes <= 1'b0;

        // Requests.
        decided <= request_of;
        offered <= '0;
        for (int n = 0; n < 2; n++) begin
            if (request_valid[n])
                offered[request_of[n]] <= 1'b1;
            if (decision_take[n]) begin
                if (is_local[n])
                    under_way[decided[n]] <= 1'b0;
                else if (decision_action[n * 2 +: 2] == ctg_pkg::FORWARD) begin
                    r_where[decided[n]]      <= decision_target[n];
                    r_resolved[decided[n]]   <= decision_resolved[n];
                    r_has_origin[decided[n]] <= decision_has_origin[n];
                    r_origin[decided[n]]     <= decision_origin[n];
                end else begin
                    // Refused: the core marks the page and asks again, past its cache.
                    r_kind[32'(decided[n]) * 2 +: 2] <= {1'b0, asks_again[n]};
                    r_where[decided[n]]      <= home[r_name[decided[n]]];
                    r_resolved[decided[n]]   <= 1'b0;
                    r_has_origin[decided[n]] <= 1'b0;
                end
            end
        end
        for (int n = 0; n < 2; n++)
            if (starts_request[n] || (n == 1 && evicts)) begin
                under_way[n]    <= 1'b1;
                r_name[n]       <= starts_request[n] ? asked_name[n] : priv_name;
                r_where[n]      <= home[starts_request[n] ? asked_name[n] : priv_name];
                r_resolved[n]   <= 1'b0;
                r_has_origin[n] <= 1'b0;
                r_kind[n * 2 +: 2] <= !starts_request[n] ? os_pkg::BACK
                    : asked_kind[n * 2 +: 2] == os_pkg::BACK ? os_pkg::READ
                    : asked_kind[n * 2 +: 2];
            end
        if (!started) begin
            cur <= 2'b01;
            control   <= '0;
            line_sent <= '0;
            ack_sent  <= '0;
            served    <= '0;
            reports   <= '0;
            core_owes <= '0;
            under_way <= '0;
            offered   <= '0;
            op_out    <= '0;
            closed    <= '0;
            priv      <= '0;
            dead      <= '0;
            line_current <= '0;
        end
    end

    logic was_started, refused_forward;
    always_comb begin
        refused_forward = 1'b0;
        for (int n = 0; n < 2; n++)
            refused_forward = refused_forward || (decision_take[n] && r_has_origin[decided[n]]
                && decision_action[n * 2 +: 2] == ctg_pkg::NACK);
    end
    always_ff @(posedge clock) was_started <= started;
    always_ff @(posedge clock) if (started && was_started) begin
        // Every access finds the value that was written last.
        current: assert (!stale);
        // It is served at the home of the line that it is served as, and that is one of the two.
        at_home: assert (!strange);
        // No second place gives the line away while a private cache has it; no copy is written
        // over a line that a private cache may still write back.
        one_owner: assert (!twice);
        nothing_covered: assert (!covered_up);
        // No dead line is left when software may use the name.
        purged: assert (!(dead && names[to]));
        // Only the home of a source refuses.
        refuses: assert (!refused_forward);
        // A page that is not being moved lies where it should, and so does its private copy.
        rests: assert (!idle || !priv || (!priv_moves && priv_place == migrating_from
            && priv_name == migrating_from));
        // Each command ends, when nothing new is asked and nothing waits without need.
        ends: assert (calm_for != '1 || waits);
        empty: assert (!idle || (slice_used == '0 && forwards == '0));
    end
endmodule

`default_nettype wire
