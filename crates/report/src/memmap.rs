// SPDX-License-Identifier: MIT OR Apache-2.0
//! A picture of physical memory: one small square per 2 MB block (or per N of them), row by row
//! from the lowest address.

use crate::scale::Unit;
use crate::svg::{Anchor, Svg, legend};
use crate::values::FigureValues;
use ample_pfn::{BlockState, BlockTally, Definition, Order, format_bytes};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Blocks of one machine at one moment.
#[derive(Clone, Debug)]
pub struct MemoryMap {
    title: String,
    cells: Vec<Cell>,
    /// Blocks in each state, in the order of the legend.
    counts: [usize; 5],
    blocks_per_cell: usize,
    block_bytes: u64,
    border_cell: Option<f64>,
    start_bytes: u64,
    culprits: Option<MapCulprits>,
}

/// Who holds the squares of a map.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MapCulprits {
    /// Names of the owners.
    pub names: Vec<String>,
    /// What is counted: `pages`, or `blocks`.
    pub unit: &'static str,
    /// By the number of the square, owners (index into the names) and what they hold, the most
    /// first.
    pub squares: BTreeMap<usize, Vec<(u32, u32)>>,
}

/// A square: its ground, and the shares of its blocks that fill it from below.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    /// What most of its blocks are that hold no unmovable page.
    ground: BlockState,
    unmovable_ratio: f64,
    polluted_ratio: f64,
}

impl Cell {
    fn of(blocks: &[BlockTally], definition: Definition, pages: u16) -> Cell {
        let states: Vec<BlockState> = blocks.iter().map(|b| b.state(definition, pages)).collect();
        let count = |state| states.iter().filter(|&&own| own == state).count();
        let memory = (states.len() - count(BlockState::Hole)).max(1) as f64;
        let ground = match (count(BlockState::Movable), count(BlockState::Free)) {
            (0, 0) => BlockState::Hole,
            (movable, free) if movable >= free => BlockState::Movable,
            _ => BlockState::Free,
        };
        Cell {
            ground,
            unmovable_ratio: count(BlockState::Unmovable) as f64 / memory,
            polluted_ratio: count(BlockState::Polluted) as f64 / memory,
        }
    }

    fn shows(&self, state: BlockState) -> bool {
        match state {
            BlockState::Polluted => self.polluted_ratio > 0.0,
            BlockState::Unmovable => self.unmovable_ratio > 0.0,
            ground => self.ground == ground && self.polluted_ratio + self.unmovable_ratio < 1.0,
        }
    }
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
    /// A map of `blocks` (each of `base` order) under a definition of unmovable. On large machines
    /// a square stands for several blocks; those that hold an unmovable page fill their share of
    /// it.
    pub fn new(
        title: &str,
        blocks: &[BlockTally],
        base: Order,
        definition: Definition,
    ) -> MemoryMap {
        let blocks_per_cell = blocks.len().div_ceil(MAX_CELLS).max(1).next_power_of_two();
        let pages = base.pages() as u16;
        let cells = blocks
            .chunks(blocks_per_cell)
            .map(|cell| Cell::of(cell, definition, pages))
            .collect();
        let states: Vec<BlockState> = blocks.iter().map(|b| b.state(definition, pages)).collect();
        let count = |state| states.iter().filter(|&&own| own == state).count();
        MemoryMap {
            title: title.to_string(),
            cells,
            counts: MapLegend::ITEMS.map(|(state, _, _)| count(state)),
            blocks_per_cell,
            block_bytes: base.bytes(),
            border_cell: None,
            start_bytes: 0,
            culprits: None,
        }
    }

    /// Blocks that one square stands for.
    pub fn blocks_per_cell(&self) -> usize {
        self.blocks_per_cell
    }

    /// Says at which address the map begins and who holds its squares.
    #[must_use]
    pub fn with_culprits(mut self, start_bytes: u64, culprits: MapCulprits) -> MemoryMap {
        (self.start_bytes, self.culprits) = (start_bytes, Some(culprits));
        self
    }

    /// Marks the border of the unmovable region, given in blocks from the start of the map.
    pub fn with_border(mut self, block: Option<u64>) -> MemoryMap {
        self.border_cell = block.map(|block| block as f64 / self.blocks_per_cell as f64);
        self
    }

    /// The map as an `<svg>` element; runs of equal cells are one rectangle.
    pub fn to_svg(&self) -> String {
        let cell = WIDTH / COLUMNS as f64;
        let rows = self.cells.len().div_ceil(COLUMNS);
        let mut svg = Svg::new(WIDTH, TOP + rows as f64 * cell + 20.0, &self.title);
        let per_cell = format_bytes(self.blocks_per_cell as u64 * self.block_bytes);
        svg.text((0.0, 14.0), Anchor::Start, "strong", &self.title);
        let note = format!("one square = {per_cell}, lowest address first");
        svg.text((WIDTH, 14.0), Anchor::End, "", &note);
        for (row, cells) in self.cells.chunks(COLUMNS).enumerate() {
            let y = TOP + row as f64 * cell;
            let mut start = 0;
            for run in cells.chunk_by(|a, b| a == b) {
                let wide = run.len() as f64 * cell - 0.6;
                draw_cells(
                    &mut svg,
                    run[0],
                    (start as f64 * cell, y),
                    (wide, cell - 0.6),
                );
                start += run.len();
            }
        }
        self.draw_border(&mut svg, cell);
        svg.data("map", &self.data(cell).to_string());
        let items: Vec<(String, String)> = MapLegend::ITEMS
            .iter()
            .filter(|(state, _, _)| self.cells.iter().any(|cell| cell.shows(*state)))
            .map(|(_, colour, name)| (colour.to_string(), name.to_string()))
            .collect();
        legend(&mut svg, 0.0, TOP + rows as f64 * cell + 15.0, &items);
        svg.values(&self.values());
        svg.finish()
    }

    /// How many blocks are in each state; those without memory are no part of the shares.
    fn values(&self) -> FigureValues {
        let all = MapLegend::ITEMS.iter().zip(self.counts);
        let memory = all
            .clone()
            .filter(|((state, ..), _)| *state != BlockState::Hole);
        let memory: usize = memory.map(|(_, count)| count).sum();
        let row = |((state, _, name), count): (&(BlockState, &str, &str), usize)| {
            let share = match (*state, memory) {
                (BlockState::Hole, _) | (_, 0) => "–".into(),
                _ => Unit::Percent.format(count as f64 / memory as f64),
            };
            vec![name.to_string(), count.to_string(), share]
        };
        let blocks = format!("blocks of {}", format_bytes(self.block_bytes));
        FigureValues {
            at: Vec::new(),
            heads: vec!["state".into(), blocks, "share of memory".into()],
            rows: all.filter(|(_, count)| *count > 0).map(row).collect(),
        }
    }

    /// What the script of a page needs to tell of each square: `runs` are the number of squares,
    /// the ground, and the shares that are unmovable and polluted.
    fn data(&self, cell: f64) -> Value {
        let rounded = |ratio: f64| (ratio * 1000.0).round() / 1000.0;
        let runs = self.cells.chunk_by(|a, b| a == b).map(|run| {
            let (unmovable, polluted) = (run[0].unmovable_ratio, run[0].polluted_ratio);
            let ground = MapLegend::of(run[0].ground).1;
            json!([run.len(), ground, rounded(unmovable), rounded(polluted)])
        });
        let mut data = json!({
            "cell": cell, "columns": COLUMNS, "top": TOP, "start": self.start_bytes,
            "bytes": self.blocks_per_cell as u64 * self.block_bytes,
            "runs": runs.collect::<Vec<Value>>(),
        });
        if let Some(culprits) = &self.culprits {
            data["names"] = json!(culprits.names);
            data["unit"] = json!(culprits.unit);
            data["squares"] = json!(culprits.squares);
        }
        data
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

/// Equal squares in a row: the ground, and from below what is unmovable throughout, then what is
/// polluted.
fn draw_cells(svg: &mut Svg, cell: Cell, (x, y): (f64, f64), (wide, high): (f64, f64)) {
    let mut bottom = y + high;
    let layers = [
        (BlockState::Unmovable, cell.unmovable_ratio),
        (BlockState::Polluted, cell.polluted_ratio),
    ];
    for (state, ratio) in layers.into_iter().filter(|(_, ratio)| *ratio > 0.0) {
        // A single block of many still shows.
        let tall = (high * ratio).max(0.5).min(bottom - y);
        bottom -= tall;
        svg.rect((x, bottom), (wide, tall), MapLegend::of(state).0, "");
    }
    if bottom > y + 0.05 {
        svg.rect((x, y), (wide, bottom - y), MapLegend::of(cell.ground).0, "");
    }
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
        let values = MemoryMap::new("m", &blocks, Order(9), Definition::K).values();
        assert_eq!(values.rows[0], ["free", "100", "78.1 %"]);
        assert_eq!(
            values.rows[1],
            ["polluted by unmovable pages", "28", "21.9 %"]
        );
        assert!(
            svg.contains("&quot;runs&quot;:[[100,&quot;free&quot;,0.0,0.0],[28,"),
            "{svg}"
        );
    }

    /// One of 128 blocks is not all of them.
    #[test]
    fn a_square_of_many_blocks_is_filled_by_their_share() {
        let mut blocks = vec![block(0, 0); 1 << 19]; // 1 TB
        blocks[7] = block(0, 1);
        let map = MemoryMap::new("m", &blocks, Order(9), Definition::O);
        assert_eq!(map.cells.len(), 4096);
        assert_eq!(map.cells[0].polluted_ratio, 1.0 / 128.0);
        assert_eq!(map.cells[0].ground, BlockState::Movable);
        assert_eq!(map.cells[1].polluted_ratio, 0.0);
        assert!(map.to_svg().contains("height='0.5'"));
    }

    #[test]
    fn a_square_names_its_culprits_and_no_name_ends_the_attribute() {
        let culprits = MapCulprits {
            names: vec!["a'><script>".into()],
            unit: "pages",
            squares: BTreeMap::from([(0, vec![(0, 3)])]),
        };
        let map = MemoryMap::new("m", &[block(0, 3)], Order(9), Definition::K);
        let svg = map.with_culprits(4096, culprits).to_svg();
        assert!(svg.contains("{&quot;0&quot;:[[0,3]]}"), "{svg}");
        assert!(!svg.contains("<script>"));
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
