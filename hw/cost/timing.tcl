# SPDX-License-Identifier: MIT OR Apache-2.0
# Static timing of a mapped slice, for OpenSTA. LIBERTY and NETLIST come from the environment.
# Nets have the capacitance of their pins; wires have none.
read_liberty $env(LIBERTY)
read_verilog $env(NETLIST)
link_design $env(TOP)
set inputs {}
foreach port [all_inputs] {
    if {[get_property $port full_name] != "clock"} { lappend inputs $port }
}
create_clock -name clock -period 10 [get_ports clock]
set_input_delay 0 -clock clock $inputs
set_output_delay 0 -clock clock [all_outputs]
set_driving_cell -lib_cell BUFX4 $inputs
set_load 0.05 [all_outputs]
if {$env(TOP) == "ctg_slice"} {
    puts "path request"
    report_checks -from [get_ports request_*] -digits 4
    puts "path decision"
    report_checks -to [get_ports decision_*] -digits 4
}
puts "path any"
report_checks -digits 4
