// SPDX-License-Identifier: MIT OR Apache-2.0
//! Link options of the shared library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // Threads hold pointers into the library (rseq, objects): it may never be unloaded.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
