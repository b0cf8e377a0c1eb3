// SPDX-License-Identifier: MIT OR Apache-2.0
//! With the feature `bpf`: compiles the BPF programs (needs clang) and generates their skeleton.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "bpf")]
    skeleton();
}

#[cfg(feature = "bpf")]
fn skeleton() {
    const SOURCE: &str = "src/bpf/pages.bpf.c";
    println!("cargo::rerun-if-changed={SOURCE}");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let skeleton = std::path::Path::new(&out).join("pages.skel.rs");
    let built = libbpf_cargo::SkeletonBuilder::new()
        .source(SOURCE)
        .clang_args(["-Wall", "-Werror"])
        .build_and_generate(&skeleton);
    if let Err(error) = built {
        eprintln!("cannot build {SOURCE}: {error:?}");
        eprintln!("install clang, or build without the feature `bpf`");
        std::process::exit(1);
    }
}
