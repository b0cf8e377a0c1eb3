# SPDX-License-Identifier: GPL-2.0-only
# No page above the border becomes unmovable: long-term pins (gup_test and
# io_uring registered buffers), zero-copy sends, vmsplice.
before=$(vmstat pgmigrate_success)
expect "pins lie below the border" pins longterm "$(border)"
expect "registered buffers lie below the border" pins register "$(border)"
expect "spliced pages lie below the border" pins vmsplice "$(border)"
load send 64 200 1
after=$(vmstat pgmigrate_success)
emit pins "\"moved_pages\": $((after - before)), \"left_pages\": $(vmstat contiguitas_pin_left)"
expect "zero-copy sends moved their pages" [ "$after" -gt "$before" ]
