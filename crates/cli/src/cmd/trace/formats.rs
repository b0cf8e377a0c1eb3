// SPDX-License-Identifier: MIT OR Apache-2.0
//! The formats of traces on the command line: named, found, refused.

use ample_trace::files::Format;
use anyhow::Context;
use std::path::Path;

/// The format of a name, or the names.
pub(crate) fn format(text: &str) -> Result<Format, String> {
    let known = Format::ALL.map(|(name, _)| name).join(", ");
    Format::named(text).ok_or_else(|| format!("known: {known}"))
}

/// The same of those that are written.
pub(super) fn written_format(text: &str) -> Result<Format, String> {
    let known = format(text)
        .ok()
        .filter(|own| Format::WRITTEN.contains(own));
    let names = Format::WRITTEN.map(Format::name).join(", ");
    known.ok_or_else(|| format!("written are {names}"))
}

/// Says what a trace of samples is not good for.
pub(super) fn warn_of_samples(format: Format, path: &Path) {
    if format == Format::Perf {
        tell!(
            "{}: samples, single accesses out of many thousands: which pages they lie in is to be \
             trusted, rates of misses are not",
            path.display()
        );
    }
}

/// The format of a file: the one that is given, or what the file tells.
///
/// # Errors
/// When it cannot be read, or tells none.
pub(crate) fn format_of(path: &Path, given: Option<Format>) -> anyhow::Result<Format> {
    match given {
        Some(format) => Ok(format),
        None => Format::of_file(path).with_context(|| match path.is_file() {
            true => format!("{} (give its format by --from)", path.display()),
            false => format!("cannot read {}", path.display()),
        }),
    }
}

/// The format of a file that is to be written: the one that is given, or what its name tells.
///
/// # Errors
/// When its name tells none that is written.
pub(super) fn output_format(path: &Path, given: Option<Format>) -> anyhow::Result<Format> {
    let named = Format::of_name(path).filter(|own| Format::WRITTEN.contains(own));
    given.or(named).with_context(|| {
        format!(
            "{}: the name tells no format; let it end in .trace or hold champsim or lackey",
            path.display()
        )
    })
}
