// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who holds the blocks of the scanned machine: by name where the scan saw owners, else by source.

use super::simulate::Machine;
use ample_host::{PageOwner, Who};
use ample_pfn::{BASE_PAGE_BYTES, BlockTally, Source, format_bytes};
use ample_report::{MapCulprits, Table};
use std::collections::BTreeMap;

/// Owners, and stretches of memory, that a table shows.
const MOST_ROWS: usize = 15;

/// Name of an owner with its kind and control group.
fn full_name(owner: &PageOwner) -> String {
    let group = owner
        .cgroup
        .as_ref()
        .map_or(String::new(), |group| format!(" in {group}"));
    format!("{} {}{group}", owner.kind.title(), owner.name)
}

/// The owners that hold the most.
pub(super) fn owners(who: &Who) -> Table {
    let mut table = Table::headed(
        "kind | owner | >memory | >2 MB blocks | >2 MB blocks alone | >1 GB blocks | \
         >1 GB blocks alone",
    );
    for owner in who.owners.iter().take(MOST_ROWS) {
        let group = owner
            .cgroup
            .as_ref()
            .map_or(String::new(), |group| format!(" in {group}"));
        table.row(vec![
            owner.kind.title().into(),
            format!("{}{group}", owner.name),
            format_bytes(owner.pages * BASE_PAGE_BYTES),
            owner.blocks_2m.to_string(),
            owner.alone_2m.to_string(),
            owner.blocks_1g.to_string(),
            owner.alone_1g.to_string(),
        ]);
    }
    table
}

/// The stretches of memory with the most unmovable pages, and who holds them.
pub(super) fn stretches(who: &Who) -> Table {
    let mut table = Table::headed("from | >unmovable | held by");
    let pages = |most: &[(u32, u32)]| most.iter().map(|(_, pages)| u64::from(*pages)).sum::<u64>();
    let mut cells: Vec<_> = who.cells.iter().collect();
    cells.sort_by_key(|cell| (std::cmp::Reverse(pages(&cell.most)), cell.start_pfn));
    for cell in cells.into_iter().take(MOST_ROWS) {
        let names = cell.most.iter().map(|(owner, pages)| {
            let held = format_bytes(u64::from(*pages) * BASE_PAGE_BYTES);
            format!("{} {held}", full_name(&who.owners[*owner as usize]))
        });
        table.row(vec![
            format_bytes(cell.start_pfn * BASE_PAGE_BYTES),
            format_bytes(pages(&cell.most) * BASE_PAGE_BYTES),
            names.collect::<Vec<_>>().join(", "),
        ]);
    }
    table
}

/// Who holds each square of a map of the machine with so many blocks a square.
pub(super) fn squares(machine: &Machine, blocks_per_cell: usize) -> MapCulprits {
    let cell_pages = blocks_per_cell as u64 * machine.base.pages();
    match &machine.who {
        Some(who) => by_name(who, machine.first.0, cell_pages),
        None => by_source(&machine.blocks, blocks_per_cell),
    }
}

fn by_name(who: &Who, first_pfn: u64, cell_pages: u64) -> MapCulprits {
    let mut squares: BTreeMap<usize, Vec<(u32, u32)>> = BTreeMap::new();
    for cell in who.cells.iter().filter(|cell| cell.start_pfn >= first_pfn) {
        let index = (cell.start_pfn - first_pfn) / cell_pages.max(1);
        squares
            .entry(index as usize)
            .or_default()
            .extend(&cell.most);
    }
    MapCulprits {
        names: who.owners.iter().map(full_name).collect(),
        unit: "pages",
        squares,
    }
}

fn by_source(blocks: &[BlockTally], blocks_per_cell: usize) -> MapCulprits {
    let held = |cell: &[BlockTally]| -> Vec<(u32, u32)> {
        let with = |bit: usize| {
            cell.iter()
                .filter(|block| block.sources >> bit & 1 == 1)
                .count()
        };
        let counts = (0..Source::ALL.len()).map(|bit| (bit as u32, with(bit) as u32));
        counts.filter(|(_, blocks)| *blocks > 0).collect()
    };
    let cells = blocks.chunks(blocks_per_cell.max(1)).map(held).enumerate();
    MapCulprits {
        names: Source::ALL
            .iter()
            .map(|source| source.title().into())
            .collect(),
        unit: "blocks",
        squares: cells.filter(|(_, own)| !own.is_empty()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_host::{OwnerCell, OwnerKind};

    #[test]
    fn squares_find_their_owners_by_address() {
        let cell = |start_pfn, most: &[(u32, u32)]| OwnerCell {
            start_pfn,
            most: most.to_vec(),
        };
        let owner = PageOwner {
            kind: OwnerKind::Slab,
            name: "dentry".into(),
            cgroup: Some("/a".into()),
            age_seconds: None,
            pages: 9,
            blocks_2m: 2,
            alone_2m: 2,
            blocks_1g: 0,
            alone_1g: 0,
        };
        let who = Who {
            owners: vec![owner],
            cell_pages: 512,
            cells: vec![cell(1024, &[(0, 4)]), cell(2048, &[(0, 5)])],
            ..Who::default()
        };
        let found = by_name(&who, 1024, 1024);
        assert_eq!(
            found.squares,
            BTreeMap::from([(0, vec![(0, 4)]), (1, vec![(0, 5)])])
        );
        assert_eq!(found.names, ["slab dentry in /a"]);
        assert!(
            stretches(&who)
                .to_text()
                .contains("8M          20K  slab dentry in /a 20K")
        );
        let blocks = [0b10, 0, 0b11].map(|sources| BlockTally {
            sources,
            ..BlockTally::default()
        });
        let found = by_source(&blocks, 2);
        assert_eq!(found.squares[&1], [(0, 1), (1, 1)]);
    }
}
