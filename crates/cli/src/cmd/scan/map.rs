// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory map: one cell = N blocks, coloured by what they hold.

use super::style::{Colour, Style};
use ample_pfn::{BASE_PAGE_BYTES, BlockTally, Definition, MetricsBuilder, Order, format_bytes};
use std::fmt::Write;

/// Rows that a map may take.
const MAX_ROWS: usize = 16;
/// Columns of the address in front of a row.
const ADDRESS_COLUMNS: usize = 9;

/// What a cell shows, worst first wins among the blocks it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// No memory.
    Hole,
    /// All blocks wholly free.
    Free,
    /// No unmovable page.
    Movable,
    /// Only pages that may or may not be in use.
    Doubtful,
    /// Less than a quarter of the blocks held by unmovable pages.
    FewHeld,
    /// Up to three quarters held.
    ManyHeld,
    /// More held.
    Held,
}

/// What a legend may show, in its order.
const LOOKS: [Look; 6] = [
    Look::Free,
    Look::Movable,
    Look::Doubtful,
    Look::FewHeld,
    Look::ManyHeld,
    Look::Held,
];

impl Look {
    /// Character and colour of a cell.
    pub fn glyph(self, style: &Style) -> (char, Colour) {
        let (ascii, block, colour, _) = self.draw();
        (if style.unicode { block } else { ascii }, colour)
    }

    /// What the legend says.
    pub fn name(self) -> &'static str {
        self.draw().3
    }

    fn draw(self) -> (char, char, Colour, &'static str) {
        match self {
            Look::Hole => (' ', ' ', Colour::Dim, "no memory"),
            Look::Free => ('.', '·', Colour::Free, "free"),
            Look::Movable => ('-', '░', Colour::Movable, "movable"),
            Look::Doubtful => ('~', '≈', Colour::Doubtful, "perhaps held"),
            Look::FewHeld => ('+', '▒', Colour::Doubtful, "<25% held"),
            Look::ManyHeld => ('*', '▓', Colour::Polluted, "<75% held"),
            Look::Held => ('#', '█', Colour::Held, "held"),
        }
    }
}

/// Looks of the cells, by first frame of each row.
#[derive(Debug)]
pub struct Map {
    /// First frame and cells of each row; rows without memory are left out.
    pub rows: Vec<(u64, Vec<Look>)>,
    /// Bytes that a cell stands for.
    pub cell_bytes: u64,
}

impl Map {
    /// Lays the blocks out for a width, in at most [`MAX_ROWS`] rows.
    pub fn new(builder: &MetricsBuilder, columns: usize) -> Map {
        let (first, base, blocks) = builder.blocks();
        let width = columns.saturating_sub(ADDRESS_COLUMNS + 1).max(8);
        // A power of two, so that rows start at round addresses.
        let width = 1 << width.ilog2();
        let with_memory = blocks
            .iter()
            .filter(|b| u64::from(b.hole) < base.pages())
            .count();
        let per_cell = with_memory
            .div_ceil(width * MAX_ROWS)
            .max(1)
            .next_power_of_two();
        let row_pages = (per_cell * width) as u64 * base.pages();
        let lead = ((first.0 % row_pages) / base.pages()) as usize;
        let mut rows = Vec::new();
        let mut rest = blocks;
        let mut start = first.0 - first.0 % row_pages;
        let mut skip = lead;
        while !rest.is_empty() {
            let (row, tail) = rest.split_at((per_cell * width - skip).min(rest.len()));
            let cells = row_cells(row, skip, per_cell, base);
            if cells.iter().any(|&look| look != Look::Hole) {
                rows.push((start, cells));
            }
            (rest, skip) = (tail, 0);
            start += row_pages;
        }
        Map {
            rows,
            cell_bytes: per_cell as u64 * base.bytes(),
        }
    }

    /// The map as text, with its legend.
    pub fn render(&self, style: &Style) -> String {
        let mut text = String::new();
        for (start, cells) in &self.rows {
            text.push_str(&address(*start));
            // Trailing holes would be trailing blanks.
            let end = cells
                .iter()
                .rposition(|&look| look != Look::Hole)
                .map_or(0, |at| at + 1);
            for run in cells[..end].chunk_by(|a, b| a == b) {
                let (glyph, colour) = run[0].glyph(style);
                text.push_str(&style.paint(colour, &glyph.to_string().repeat(run.len())));
            }
            text.push('\n');
        }
        let cell = format_bytes(self.cell_bytes);
        let _ = write!(text, "{:ADDRESS_COLUMNS$}1 cell = {cell}", "");
        for look in self.looks() {
            let (glyph, colour) = look.glyph(style);
            let _ = write!(
                text,
                "  {} {}",
                style.paint(colour, &glyph.to_string()),
                look.name()
            );
        }
        text + "\n"
    }

    /// What occurs in the map, in the order of the legend.
    pub fn looks(&self) -> impl Iterator<Item = Look> + '_ {
        let shown = |look: &Look| self.rows.iter().any(|(_, cells)| cells.contains(look));
        LOOKS.into_iter().filter(move |look| shown(look))
    }
}

/// What stands in front of a row that begins at frame `start`.
pub fn address(start: u64) -> String {
    let text = if start == 0 {
        "0".to_string()
    } else {
        format_bytes(start * BASE_PAGE_BYTES)
    };
    format!("{text:>width$} ", width = ADDRESS_COLUMNS - 1)
}

/// Cells of one row whose first `skip` blocks lie before the memory.
fn row_cells(row: &[BlockTally], skip: usize, per_cell: usize, base: Order) -> Vec<Look> {
    let mut cells = vec![Look::Hole; skip / per_cell];
    let head = (per_cell - skip % per_cell).min(row.len());
    let (first, rest) = row.split_at(head);
    cells.push(look(first, base));
    cells.extend(rest.chunks(per_cell).map(|blocks| look(blocks, base)));
    cells
}

/// How a cell looks, under definition K.
fn look(blocks: &[BlockTally], base: Order) -> Look {
    let pages = base.pages() as u16;
    let present = blocks.iter().filter(|block| block.hole < pages).count();
    let certain = blocks
        .iter()
        .filter(|block| block.unmovable[Definition::K as usize] > 0)
        .count();
    let free = blocks
        .iter()
        .filter(|block| block.mergeable_free + block.hole == pages)
        .count();
    if present == 0 {
        Look::Hole
    } else if certain * 4 > present * 3 {
        Look::Held
    } else if certain * 4 >= present {
        Look::ManyHeld
    } else if certain > 0 {
        Look::FewHeld
    } else if blocks.iter().any(|block| block.ambiguous > 0) {
        Look::Doubtful
    } else if free == blocks.len() {
        Look::Free
    } else {
        Look::Movable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_pfn::{Layout, PageClass, Pfn, SizeList};

    fn builder(start: u64, blocks: &[PageClass]) -> MetricsBuilder {
        let layout = Layout::single(Pfn(start), blocks.len() as u64 * 512);
        let mut builder = MetricsBuilder::new(&layout, &SizeList::standard());
        for (index, &class) in blocks.iter().enumerate() {
            builder.push(Pfn(start + index as u64 * 512), &[class; 512]);
        }
        builder
    }

    fn style(colour: bool) -> Style {
        Style {
            colour,
            unicode: false,
            columns: 80,
        }
    }

    #[test]
    fn cells_show_the_blocks_in_order() {
        let classes = [
            PageClass::Free,
            PageClass::Anon,
            PageClass::Bare,
            PageClass::Slab,
            PageClass::Hole,
        ];
        let map = Map::new(&builder(0, &classes), 80);
        assert_eq!(map.cell_bytes, 2 << 20);
        let text = map.render(&style(false));
        assert!(text.starts_with("       0 .-~#\n"), "{text}");
        assert!(
            text.contains("1 cell = 2M  . free  - movable  ~ perhaps held  # held"),
            "{text}"
        );
    }

    #[test]
    fn rows_start_at_round_addresses() {
        let map = Map::new(&builder(3 * 512, &[PageClass::Anon; 130]), 80);
        let starts: Vec<u64> = map.rows.iter().map(|row| row.0).collect();
        assert_eq!(starts, [0, 64 * 512, 128 * 512]);
        assert_eq!(
            map.rows[0].1[..4],
            [Look::Hole, Look::Hole, Look::Hole, Look::Movable]
        );
    }

    #[test]
    fn large_machines_share_cells() {
        let mut classes = vec![PageClass::Anon; 16 * 64 * 4];
        classes[0] = PageClass::Slab;
        let map = Map::new(&builder(0, &classes), 80);
        assert_eq!(map.cell_bytes, 8 << 20);
        assert!(map.rows.len() <= MAX_ROWS);
        assert_eq!(map.rows[0].1[0], Look::ManyHeld);
        assert_eq!(map.rows[0].1[1], Look::Movable);
    }

    #[test]
    fn colours_only_where_wanted() {
        let map = Map::new(&builder(0, &[PageClass::Slab]), 80);
        assert!(map.render(&style(true)).contains("\x1b["));
        assert!(!map.render(&style(false)).contains('\x1b'));
    }
}
