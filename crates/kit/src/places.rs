// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a program finds what was built or installed with it.

use std::path::{Path, PathBuf};

/// File name of the library of the allocator, in a build and in a package of the system.
const PRELOAD: [&str; 2] = ["libample_malloc.so", "libample_malloc.so.0"];

/// The library of the allocator that goes with a program in this folder: beside it, in the build
/// profile `malloc` beside its own, or in the folders of libraries under the same prefix, first
/// that of the architecture (Debian's multiarch, `lib/x86_64-linux-gnu`).
pub fn preload_library(folder: &Path) -> Option<PathBuf> {
    let of_architecture = format!("../lib/{}-linux-gnu", std::env::consts::ARCH);
    let folders = [".", "../malloc", &of_architecture, "../lib"];
    let mut places = folders.iter().flat_map(|place| {
        let place = if *place == "." {
            folder.into()
        } else {
            folder.join(place)
        };
        PRELOAD.map(|name| place.join(name))
    });
    let library = places.find(|library| library.is_file())?;
    Some(library.canonicalize().unwrap_or(library))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A file of this path below the root, with the folders above it.
    fn put(root: &Path, path: &str) {
        let file = root.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
    }

    #[test]
    fn the_library_is_found_in_a_build_and_in_an_installed_package() {
        let root = std::env::temp_dir().join(format!("ample-places-{}", std::process::id()));
        let found = |program: &str| preload_library(&root.join(program));
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        assert_eq!(found("usr/bin"), None);
        put(&root, "usr/lib/libample_malloc.so");
        assert!(
            found("usr/bin")
                .unwrap()
                .ends_with("lib/libample_malloc.so")
        );
        let multiarch = format!("{}-linux-gnu/libample_malloc.so.0", std::env::consts::ARCH);
        put(&root, &format!("usr/lib/{multiarch}"));
        assert!(found("usr/bin").unwrap().ends_with(&multiarch));
        // A folder of that name is no library.
        fs::create_dir_all(root.join("usr/bin/libample_malloc.so")).unwrap();
        assert!(found("usr/bin").unwrap().ends_with(&multiarch));
        put(&root, "target/malloc/libample_malloc.so");
        fs::create_dir_all(root.join("target/release")).unwrap();
        assert!(
            found("target/release")
                .unwrap()
                .ends_with("malloc/libample_malloc.so")
        );
        fs::remove_dir_all(&root).unwrap();
    }
}
