// SPDX-License-Identifier: MIT OR Apache-2.0
//! One scan as rows of the table of a fleet.

use ample_host::Scan;
use ample_pfn::{
    BASE_PAGE_BYTES as PAGE, Definition, DefinitionMetrics, GroupMetrics, Interval, MetricsBuilder,
    RatioInterval, SizeList,
};

/// Version of the table's columns and of their meaning, in every row.
pub const SCHEMA_VERSION: i64 = 2;

/// Longest text in a row: a table with a longer one is refused as a whole.
pub const LONGEST_TEXT_BYTES: usize = 4096;

/// What an operator calls a machine; both may be absent, and are texts of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// What the machine is for: web, cache, build.
    pub role: Option<String>,
    /// Where it stands.
    pub rack: Option<String>,
}

macro_rules! fleet_row {
    ($($(#[$text_doc:meta])* $text:ident,)*; $($(#[$doc:meta])* $number:ident,)*) => {
        /// One row of the table. A scan has one row of kind `machine`, one of kind `size` for each
        /// block size and definition of unmovable, and one of kind `source` for each source.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct FleetRow {
            $($(#[$text_doc])* pub $text: Option<String>,)*
            $($(#[$doc])* pub $number: Option<i64>,)*
        }

        impl FleetRow {
            /// Names of the columns of text, which come first in the table.
            pub const TEXTS: &'static [&'static str] = &[$(stringify!($text),)*];
            /// Names of the columns of numbers.
            pub const NUMBERS: &'static [&'static str] = &[$(stringify!($number),)*];

            /// The texts, in the order of [`FleetRow::TEXTS`].
            pub fn texts(&self) -> [Option<&str>; FleetRow::TEXTS.len()] {
                [$(self.$text.as_deref(),)*]
            }

            /// The numbers, in the order of [`FleetRow::NUMBERS`].
            pub fn numbers(&self) -> [Option<i64>; FleetRow::NUMBERS.len()] {
                [$(self.$number,)*]
            }
        }
    };
}

fleet_row! {
    /// `machine`, `size` or `source`.
    kind,
    /// Definition of unmovable: K, P or O (kind `size`).
    definition,
    /// Source of unmovable pages (kind `source`).
    source,
    /// Host name.
    host,
    /// Kernel release.
    kernel,
    /// What the machine is for, as its operator says.
    role,
    /// Where the machine stands, as its operator says.
    rack,
    /// Which reader looked at the pages.
    reader,
    ;
    /// Block size; 4096 stands for single pages (kind `size`).
    size_bytes,
    /// [`SCHEMA_VERSION`].
    schema_version,
    /// Start of the scan, in seconds since 1970.
    unix_time_seconds,
    /// Uptime of the machine.
    uptime_seconds,
    /// Memory without holes (kind `machine`).
    memory_bytes,
    /// Bytes in free pages (kind `machine`).
    free_bytes,
    /// Processor time of the scan (kind `machine`).
    scan_cpu_ns,
    /// Aligned blocks with memory (kind `size`).
    blocks,
    /// Aligned, wholly free blocks (kind `size`).
    free_blocks,
    /// Blocks with an unmovable page, at least (kind `size`).
    unmovable_blocks_low,
    /// Blocks with an unmovable page, at most (kind `size`).
    unmovable_blocks_high,
    /// Whole blocks without an unmovable page, at least (kind `size`).
    potential_blocks_low,
    /// Whole blocks without an unmovable page, at most (kind `size`).
    potential_blocks_high,
    /// Free pages in unmovable 2 MB blocks ÷ the pages of these, per million, at least.
    internal_free_ppm_low,
    /// Free pages in unmovable 2 MB blocks ÷ the pages of these, per million, at most.
    internal_free_ppm_high,
    /// Unmovable pages of the source (kind `source`).
    source_pages,
    /// 2 MB blocks that hold such pages (kind `source`).
    source_blocks_2m,
}

const TWO_MB: u64 = 2 << 20;

fn number(value: u64) -> Option<i64> {
    i64::try_from(value).ok()
}

fn ppm(ratio: Option<f64>) -> Option<i64> {
    ratio.map(|ratio| (ratio * 1e6).round() as i64)
}

impl FleetRow {
    fn of_kind(&self, kind: &str) -> FleetRow {
        FleetRow {
            kind: Some(kind.into()),
            ..self.clone()
        }
    }

    fn of_size(&self, definition: Definition, size_bytes: u64) -> FleetRow {
        FleetRow {
            definition: Some(definition.name().into()),
            size_bytes: number(size_bytes),
            ..self.of_kind("size")
        }
    }

    fn unmovable(self, blocks: u64, free: u64, held: Interval, potential: Interval) -> FleetRow {
        FleetRow {
            blocks: number(blocks),
            free_blocks: number(free),
            unmovable_blocks_low: number(held.low),
            unmovable_blocks_high: number(held.high),
            potential_blocks_low: number(potential.low),
            potential_blocks_high: number(potential.high),
            ..self
        }
    }

    fn internal_free(self, ratio: RatioInterval) -> FleetRow {
        FleetRow {
            internal_free_ppm_low: ppm(ratio.low),
            internal_free_ppm_high: ppm(ratio.high),
            ..self
        }
    }
}

/// The rows of a scan at the standard block sizes.
pub fn rows(scan: &mut Scan, labels: &Labels) -> Vec<FleetRow> {
    let Ok(builder) = MetricsBuilder::collect(scan, &SizeList::standard());
    let meta = &scan.meta;
    let about = FleetRow {
        host: meta.hostname.clone(),
        kernel: Some(meta.kernel.clone()),
        role: labels.role.clone(),
        rack: labels.rack.clone(),
        reader: Some(meta.reader.clone()),
        unix_time_seconds: meta.unix_time_seconds.and_then(number),
        uptime_seconds: meta.uptime_seconds.and_then(number),
        scan_cpu_ns: number(meta.cpu_ns),
        ..FleetRow::default()
    };
    rows_of(&about, &builder.total(&meta.coverage))
}

/// The rows of a machine whose metrics are known. `about` says which machine it is, and when.
pub fn rows_of(about: &FleetRow, total: &GroupMetrics) -> Vec<FleetRow> {
    let all = FleetRow {
        schema_version: Some(SCHEMA_VERSION),
        scan_cpu_ns: None,
        ..about.clone()
    };
    let mut rows = vec![FleetRow {
        memory_bytes: number(total.memory_bytes),
        free_bytes: number(total.free_bytes),
        scan_cpu_ns: about.scan_cpu_ns,
        ..all.of_kind("machine")
    }];
    for definition in Definition::ALL {
        if let Some(metrics) = total.definition(definition) {
            size_rows(&all, total, definition, metrics, &mut rows);
        }
    }
    rows.extend(total.sources.iter().map(|source| FleetRow {
        source: Some(source.source.name().into()),
        source_pages: number(source.pages),
        source_blocks_2m: number(source.blocks_2m),
        ..all.of_kind("source")
    }));
    rows
}

fn size_rows(
    all: &FleetRow,
    total: &GroupMetrics,
    definition: Definition,
    metrics: &DefinitionMetrics,
    rows: &mut Vec<FleetRow>,
) {
    let pages = total.memory_bytes / PAGE;
    let movable = Interval {
        low: pages - metrics.unmovable_pages.high,
        high: pages - metrics.unmovable_pages.low,
    };
    let free_pages = total.free_bytes / PAGE;
    let page_row = all.of_size(definition, PAGE);
    rows.push(page_row.unmovable(pages, free_pages, metrics.unmovable_pages, movable));
    for (size, own) in total.sizes.iter().zip(&metrics.sizes) {
        debug_assert_eq!(size.size_bytes, own.size_bytes);
        let row = all.of_size(definition, size.size_bytes).unmovable(
            size.blocks,
            size.free_blocks,
            own.unmovable_blocks,
            own.potential_blocks,
        );
        rows.push(if size.size_bytes == TWO_MB {
            row.internal_free(metrics.internal_fragmentation_ratio)
        } else {
            row
        });
    }
}
