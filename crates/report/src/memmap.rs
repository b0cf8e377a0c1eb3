// SPDX-License-Identifier: MIT OR Apache-2.0
//! A picture of physical memory: one small square per 2 MB block (or per N of them), row by row
//! from the lowest address.

use crate::svg::{Anchor, Svg, legend};
use ample_pfn::{BlockState, BlockTally, Definition, Order, format_bytes};

/// Blocks of one machine at one moment.
#[derive(Clone, Debug)]
pub struct MemoryMap {
    title: String,
    states: Vec<BlockState>,
    blocks_per_cell: usize,
    block_bytes: u64,
    border_cell: Option<f64>,
}

/// Colours and names of the states, in the order of the legend.
#[derive(Clone, Copy, Debug)]
pub struct MapLegend;

impl MapLegend {
    /// CSS colour and name of each state.
    pub const ITEMS: [(BlockState, &'static str, &'static str); 5] = [
        (BlockState::Free, "var(--free)", "free"),
        (BlockState::Movable, "var(--movable)", "movable"),
        (
            BlockState::Polluted,
            "var(--polluted)",
            "polluted by unmovable pages",
        ),
        (
            BlockState::Unmovable,
            "var(--unmovable)",
            "unmovable throughout",
        ),
        (BlockState::Hole, "var(--hole)", "no memory"),
    ];

    fn of(state: BlockState) -> (&'static str, &'static str) {
        let row = MapLegend::ITEMS.iter().find(|(s, _, _)| *s == state);
        row.map_or(("var(--hole)", "no memory"), |(_, colour, name)| {
            (colour, name)
        })
    }
}

const WIDTH: f64 = 860.0;
const COLUMNS: usize = 128;
const MAX_CELLS: usize = 128 * 48;
const TOP: f64 = 24.0;

impl MemoryMap {
    /// A map of `blocks` (each of `base` order) under a definition of unmovable. Large machines
    /// share a cell between several blocks; it then shows the worst state among them.
    pub fn new(
        title: &str,
        blocks: &[BlockTally],
        base: Order,
        definition: Definition,
    ) -> MemoryMap {
        let blocks_per_cell = blocks.len().div_ceil(MAX_CELLS).max(1).next_power_of_two();
        let pages = base.pages() as u16;
        let states = blocks
            .chunks(blocks_per_cell)
            .map(|cell| worst(cell.iter().map(|block| block.state(definition, pages))))
            .collect();
        MemoryMap {
            title: title.to_string(),
            states,
            blocks_per_cell,
            block_bytes: base.bytes(),
            border_cell: None,
        }
    }

    /// Marks the border of the unmovable region, given in blocks from the start of the map.
    pub fn with_border(mut self, block: Option<u64>) -> MemoryMap {
        self.border_cell = block.map(|block| block as f64 / self.blocks_per_cell as f64);
        self
    }

    /// The map as an `<svg>` element; runs of equal cells are one rectangle.
    pub fn to_svg(&self) -> String {
        let cell = WIDTH / COLUMNS as f64;
        let rows = self.states.len().div_ceil(COLUMNS);
        let mut svg = Svg::new(WIDTH, TOP + rows as f64 * cell + 20.0, &self.title);
        let per_cell = format_bytes(self.blocks_per_cell as u64 * self.block_bytes);
        svg.text((0.0, 14.0), Anchor::Start, "strong", &self.title);
        let note = format!("one square = {per_cell}, lowest address first");
        svg.text((WIDTH, 14.0), Anchor::End, "", &note);
        for (row, states) in self.states.chunks(COLUMNS).enumerate() {
            let y = TOP + row as f64 * cell;
            let mut start = 0;
            for end in 1..=states.len() {
                if end < states.len() && states[end] == states[start] {
                    continue;
                }
                let (colour, _) = MapLegend::of(states[start]);
                let size = ((end - start) as f64 * cell - 0.6, cell - 0.6);
                svg.rect((start as f64 * cell, y), size, colour, "");
                start = end;
            }
        }
        self.draw_border(&mut svg, cell);
        let items: Vec<(String, String)> = MapLegend::ITEMS
            .iter()
            .filter(|(state, _, _)| self.states.contains(state))
            .map(|(_, colour, name)| (colour.to_string(), name.to_string()))
            .collect();
        legend(&mut svg, 0.0, TOP + rows as f64 * cell + 15.0, &items);
        svg.finish()
    }

    /// A stepped line: after the border cell in its row, before it in the next.
    fn draw_border(&self, svg: &mut Svg, cell: f64) {
        let Some(at) = self.border_cell else { return };
        let row = (at / COLUMNS as f64).floor();
        let x = (at - row * COLUMNS as f64) * cell;
        let (top, bottom) = (TOP + row * cell - 0.3, TOP + (row + 1.0) * cell - 0.3);
        svg.line((0.0, bottom), (x, bottom), "whisker");
        svg.line((x, top), (x, bottom), "whisker");
        svg.line((x, top), (WIDTH, top), "whisker");
    }
}

/// A cell shows what spoils it: polluted before unmovable before movable before free.
fn worst(states: impl Iterator<Item = BlockState>) -> BlockState {
    let rank = |state: &BlockState| match state {
        BlockState::Hole => 0,
        BlockState::Free => 1,
        BlockState::Movable => 2,
        BlockState::Unmovable => 3,
        BlockState::Polluted => 4,
    };
    states.max_by_key(rank).unwrap_or(BlockState::Hole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(free: u16, unmovable: u16) -> BlockTally {
        let unmovable = [unmovable; 3];
        BlockTally {
            free,
            mergeable_free: free,
            unmovable,
            ..BlockTally::default()
        }
    }

    #[test]
    fn equal_neighbours_share_a_rectangle() {
        let blocks = [vec![block(512, 0); 100], vec![block(0, 3); 28]].concat();
        let map = MemoryMap::new("m", &blocks, Order(9), Definition::K);
        let svg = map.with_border(Some(64)).to_svg();
        // Two runs and two legend squares.
        assert_eq!(svg.matches("<rect").count(), 4);
        assert!(svg.contains("one square = 2M"));
    }

    #[test]
    fn large_machines_share_cells_and_show_the_worst() {
        let mut blocks = vec![block(0, 0); 1 << 19]; // 1 TB
        blocks[7] = block(0, 1);
        let map = MemoryMap::new("m", &blocks, Order(9), Definition::O);
        assert_eq!(map.states.len(), 4096);
        assert_eq!(map.states[0], BlockState::Polluted);
        assert_eq!(map.states[1], BlockState::Movable);
    }

    #[test]
    fn an_empty_machine_draws() {
        assert!(
            MemoryMap::new("m", &[], Order(9), Definition::P)
                .to_svg()
                .contains("</svg>")
        );
    }
}
