// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the shared resizing policy (one C header, three users) for the server model.

fn main() {
    let include = "../../kernel/src/include";
    println!("cargo::rerun-if-changed=src/policy/shim.c");
    println!("cargo::rerun-if-changed={include}/linux/contiguitas_policy.h");
    cc::Build::new()
        .file("src/policy/shim.c")
        .include(include)
        .warnings(true)
        .extra_warnings(true)
        .compile("ample_contiguitas_policy");
}
