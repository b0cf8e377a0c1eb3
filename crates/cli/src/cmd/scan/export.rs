// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machine-readable formats.

use super::view::View;

/// One JSON object, indented, with a final newline.
///
/// # Errors
/// Never in practice: the view holds no map with keys that JSON lacks.
pub fn json(view: &View) -> anyhow::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(view)?;
    bytes.push(b'\n');
    Ok(bytes)
}
