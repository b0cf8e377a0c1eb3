// SPDX-License-Identifier: MIT OR Apache-2.0
//! With the feature `bpf`: compiles the BPF programs (needs clang) and generates their skeletons.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "bpf")]
    for name in ["pages", "events", "traffic"] {
        skeleton(name);
    }
}

#[cfg(feature = "bpf")]
fn skeleton(name: &str) {
    let source = format!("src/bpf/{name}.bpf.c");
    println!("cargo::rerun-if-changed={source}");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let skeleton = std::path::Path::new(&out).join(format!("{name}.skel.rs"));
    // The object names its source: by a path that is the same wherever the tree lies.
    let tree = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let names = format!("-ffile-prefix-map={tree}=.");
    let built = libbpf_cargo::SkeletonBuilder::new()
        .source(&source)
        .clang_args(["-Wall", "-Werror", "-mcpu=v3", &names])
        .build_and_generate(&skeleton);
    if let Err(error) = built {
        eprintln!("cannot build {source}: {error:?}");
        eprintln!("install clang, or build without the feature `bpf`");
        std::process::exit(1);
    }
}
