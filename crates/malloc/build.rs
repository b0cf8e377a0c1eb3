// SPDX-License-Identifier: MIT OR Apache-2.0
//! Link options of the shared library.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // Threads hold pointers into the library (rseq, objects): it may never be unloaded.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // The name that programs linked with -lample_malloc ask for; 0 counts changes of
        // include/ample_malloc.h that break them.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libample_malloc.so.0");
        if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu")
            && let (Some(unwinder), Some(out)) = (static_unwinder(), std::env::var_os("OUT_DIR"))
        {
            link_statically(&unwinder, Path::new(&out));
        }
    }
}

/// GCC's unwinder as an archive, if the C compiler has it and compiles for the target.
fn static_unwinder() -> Option<PathBuf> {
    if std::env::var("HOST").ok()? != std::env::var("TARGET").ok()? {
        return None;
    }
    let asked = Command::new("cc")
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    let path = PathBuf::from(String::from_utf8(asked.ok()?.stdout).ok()?.trim_end());
    // A name without a folder means that there is none.
    (path.is_absolute() && path.exists()).then_some(path)
}

/// Lets `-lgcc_s`, which rustc asks for, find the archive: a small program would pay a sixth of its
/// start for loading libgcc_s, of which only the heap profile and panics use anything.
fn link_statically(unwinder: &Path, out: &Path) {
    let script = format!("INPUT({})\n", unwinder.display());
    if std::fs::write(out.join("libgcc_s.so"), script).is_ok() {
        println!("cargo:rustc-cdylib-link-arg=-L{}", out.display());
    }
}
