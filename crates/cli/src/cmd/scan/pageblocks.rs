// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies in the pageblocks of each migratetype: pollution is unmovable memory in a block that
//! the kernel keeps for movable memory.

use ample_host::PageblockRun;
use ample_pfn::{
    Definition, GroupMetrics, MetricsBuilder, MigrateType, PAGEBLOCK_ORDER, PAGES_PER_PAGEBLOCK,
};
use serde::Serialize;

/// Pageblocks of one migratetype.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TypeRow {
    /// The migratetype that all of them have.
    pub migratetype: MigrateType,
    /// Blocks with memory.
    pub blocks: u64,
    /// Blocks with at least one page that K certainly calls unmovable.
    pub unmovable_blocks: u64,
    /// Wholly free blocks.
    pub free_blocks: u64,
}

const TYPES: [MigrateType; 6] = [
    MigrateType::Movable,
    MigrateType::Unmovable,
    MigrateType::Reclaimable,
    MigrateType::HighAtomic,
    MigrateType::Cma,
    MigrateType::Isolate,
];

/// Name of a migratetype.
pub fn name(migratetype: MigrateType) -> &'static str {
    match migratetype {
        MigrateType::Movable => "movable",
        MigrateType::Unmovable => "unmovable",
        MigrateType::Reclaimable => "reclaimable",
        MigrateType::HighAtomic => "high atomic",
        MigrateType::Cma => "CMA",
        MigrateType::Isolate => "isolated",
    }
}

/// Blocks of the machine that no row counts: memory that the kernel has not initialised or accepted
/// yet, which is free and gets its type with its first use.
pub fn untyped_blocks(rows: &[TypeRow], total: &GroupMetrics) -> u64 {
    let pageblocks = total
        .sizes
        .iter()
        .find(|size| size.size_bytes == PAGEBLOCK_ORDER.bytes());
    let typed: u64 = rows.iter().map(|row| row.blocks).sum();
    pageblocks.map_or(0, |size| size.blocks.saturating_sub(typed))
}

/// One row per migratetype that occurs; `None` where the tallies are finer than pageblocks.
pub fn rows(runs: &[PageblockRun], builder: &MetricsBuilder) -> Option<Vec<TypeRow>> {
    let (first, base, blocks) = builder.blocks();
    if base != PAGEBLOCK_ORDER {
        return None;
    }
    let pages = PAGES_PER_PAGEBLOCK as u16;
    let mut rows = TYPES.map(|migratetype| TypeRow {
        migratetype,
        blocks: 0,
        unmovable_blocks: 0,
        free_blocks: 0,
    });
    for run in runs {
        let row = rows
            .iter_mut()
            .find(|row| row.migratetype == run.migratetype)?;
        let from = (run.start_pfn.saturating_sub(first.0) >> base.0) as usize;
        let tallies = blocks
            .iter()
            .skip(from)
            .take(usize::try_from(run.blocks).ok()?);
        for tally in tallies.filter(|tally| tally.hole < pages) {
            row.blocks += 1;
            row.unmovable_blocks += u64::from(tally.unmovable[Definition::K as usize] > 0);
            row.free_blocks += u64::from(tally.mergeable_free == pages);
        }
    }
    Some(rows.into_iter().filter(|row| row.blocks > 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_pfn::{Layout, PageClass, Pfn, SizeList};

    #[test]
    fn pollution_is_counted_by_type() {
        let layout = Layout::single(Pfn(1024), 3 * 512);
        let mut builder = MetricsBuilder::new(&layout, &SizeList::standard());
        builder.push(Pfn(1024), &[PageClass::Free; 512]);
        builder.push(Pfn(1536), &[PageClass::Slab; 512]);
        let run = |start_pfn, blocks, migratetype| PageblockRun {
            start_pfn,
            blocks,
            migratetype,
        };
        let runs = [
            run(1024, 2, MigrateType::Movable),
            run(2048, 1, MigrateType::Unmovable),
        ];
        let rows = rows(&runs, &builder).unwrap();
        let coverage = ample_pfn::Coverage {
            ambiguous_free_pages: None,
            owners: false,
        };
        let total = builder.finish(&coverage).total;
        assert_eq!(untyped_blocks(&rows, &total), 0);
        assert_eq!(
            untyped_blocks(&[], &total),
            2,
            "the third block has no memory"
        );
        assert_eq!(rows.len(), 1, "the third block has no memory");
        assert_eq!(
            (
                rows[0].blocks,
                rows[0].unmovable_blocks,
                rows[0].free_blocks
            ),
            (2, 1, 1)
        );
        let fine: SizeList = "64K,2M".parse().unwrap();
        assert_eq!(
            super::rows(&runs, &MetricsBuilder::new(&layout, &fine)),
            None
        );
    }
}
