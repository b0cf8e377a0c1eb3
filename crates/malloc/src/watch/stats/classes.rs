// SPDX-License-Identifier: MIT OR Apache-2.0
//! The size classes in the statistics: who holds the memory, and how much of it lies idle where.

use super::text::percent;
use crate::size_class::{CLASSES, TABLE};
use crate::units::PAGE_BYTES;
use crate::{cache, central};
use core::fmt::{self, Write};

/// One size class, all CPUs and nodes together.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassSizes {
    /// The number of the class.
    pub class: usize,
    /// Spans that hold objects of the class.
    pub spans: usize,
    /// Objects in use by the application.
    pub live: usize,
    /// Free objects in its spans.
    pub in_spans: usize,
    /// Free objects in transfer caches.
    pub in_transfer: usize,
    /// Free objects in CPU caches.
    pub in_caches: usize,
}

impl ClassSizes {
    fn read(class: usize) -> ClassSizes {
        let central = central::sizes(class);
        let in_caches = cache::objects_of(class);
        let all = central.spans * usize::from(TABLE[class].objects);
        let free = central.free_objects + central.transfer_objects + in_caches;
        ClassSizes {
            class,
            spans: central.spans,
            live: all.saturating_sub(free),
            in_spans: central.free_objects,
            in_transfer: central.transfer_objects,
            in_caches,
        }
    }

    fn object_bytes(&self) -> usize {
        TABLE[self.class].bytes as usize
    }

    fn span_bytes(&self) -> usize {
        self.spans * usize::from(TABLE[self.class].pages) * PAGE_BYTES
    }
}

/// Every class that has a span.
pub fn in_use() -> impl Iterator<Item = ClassSizes> {
    (1..CLASSES)
        .map(ClassSizes::read)
        .filter(|sizes| sizes.spans > 0)
}

/// A line of the text for each class.
pub fn format_text(out: &mut impl Write, classes: impl Iterator<Item = ClassSizes>) -> fmt::Result {
    writeln!(
        out,
        "Size classes: objects\n  {:>8} {:>8} {:>10} {:>10} {:>9} {:>9} {:>9}  of spans live",
        "bytes", "spans", "MiB", "live", "in spans", "transfer", "CPUs"
    )?;
    for sizes in classes {
        writeln!(
            out,
            "  {:>8} {:>8} {:>10.2} {:>10} {:>9} {:>9} {:>9}  {:>5.1} %",
            sizes.object_bytes(),
            sizes.spans,
            sizes.span_bytes() as f64 / 1_048_576.0,
            sizes.live,
            sizes.in_spans,
            sizes.in_transfer,
            sizes.in_caches,
            percent(sizes.live * sizes.object_bytes(), sizes.span_bytes())
        )?;
    }
    Ok(())
}

/// An array of one object for each class.
pub fn format_json(out: &mut impl Write, classes: impl Iterator<Item = ClassSizes>) -> fmt::Result {
    write!(out, ",\"classes\":[")?;
    for (at, sizes) in classes.enumerate() {
        write!(
            out,
            "{}{{\"object_bytes\":{},\"spans\":{},\"span_bytes\":{},\"live_objects\":{},\
             \"span_free_objects\":{},\"transfer_free_objects\":{},\"cache_free_objects\":{}}}",
            if at > 0 { "," } else { "" },
            sizes.object_bytes(),
            sizes.spans,
            sizes.span_bytes(),
            sizes.live,
            sizes.in_spans,
            sizes.in_transfer,
            sizes.in_caches
        )?;
    }
    write!(out, "]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_name_every_class_and_account_for_every_object() {
        let sizes = ClassSizes {
            class: 8,
            spans: 2,
            live: 64,
            in_spans: 50,
            in_transfer: 10,
            in_caches: 4,
        };
        assert_eq!(sizes.object_bytes() * 128, sizes.span_bytes());
        let (mut text, mut json) = (String::new(), String::new());
        format_text(&mut text, [sizes; 2].into_iter()).unwrap();
        assert_eq!(text.lines().count(), 4);
        assert!(
            text.ends_with("  64        50        10         4   50.0 %\n"),
            "{text}"
        );
        format_json(&mut json, [sizes; 2].into_iter()).unwrap();
        assert_eq!(
            json.matches("{\"object_bytes\":128,\"spans\":2,").count(),
            2
        );
        assert!(json.starts_with(",\"classes\":[{") && json.ends_with("}]"));
        let none = core::iter::empty::<ClassSizes>;
        json.clear();
        format_json(&mut json, none()).unwrap();
        assert_eq!(json, ",\"classes\":[]");
    }
}
