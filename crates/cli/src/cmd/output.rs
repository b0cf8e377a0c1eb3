// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that a user asks for.

use anyhow::Context;
use std::path::Path;

/// Writes a file whole or not at all.
pub(super) fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    ample_kit::files::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
