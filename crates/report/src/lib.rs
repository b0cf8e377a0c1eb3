// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results as pictures and pages.
//!
//! Figures are SVG without scripts; colours are CSS variables, so that one figure fits light and
//! dark pages. A [`Page`] puts figures, tables and prose into one self-contained HTML file.
//! Everything here is a pure function from data to text: same data, same bytes.

mod bars;
mod escape;
mod lines;
mod memmap;
mod migration;
mod page;
pub mod results;
mod scale;
mod svg;
mod table;
mod tornado;
mod values;

pub use bars::{Bar, BarChart, BarGroup};
pub use escape::escape;
pub use lines::{LineChart, Series};
pub use memmap::{MapCulprits, MapLegend, MemoryMap};
pub use migration::{LineCell, LinePlace, MIGRATION_LEGEND, MigrationFrame, migration_frame};
pub use page::{Page, Section};
pub use scale::{Axis, Unit};
pub use svg::{STYLE, plain, standalone};
pub use table::{Align, Table};
pub use tornado::{TornadoBar, TornadoChart};
