// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual memory hardware, modelled entry for entry: page tables, TLBs of any geometry,
//! page-walk caches, nested walks, direct segments, perforated pages, coalesced and range TLBs.
//!
//! [`Engine`] translates one access at a time. Functional runs use [`NoMemory`] as the way to
//! memory; a timed core brings its own [`Port`]. A new scheme implements [`Scheme`].

pub mod assoc;
mod class_frames;
pub mod config;
mod descent;
pub mod engine;
pub mod error;
mod events;
pub mod frames;
pub mod mmu;
mod narrow;
pub mod nested;
pub mod pagetable;
pub mod presets;
pub mod primary;
pub mod scheme;
pub mod schemes;
pub mod space;
pub mod stats;
mod wide;

pub use assoc::{Geometry, Replacement};
pub use class_frames::ClassFrames;
pub use config::{MmuConfig, PwcKind, TlbArray};
pub use engine::{BadAccess, Engine, Intent, OsCosts, Translated, Vma};
pub use error::{ConfigError, MapError};
pub use frames::{FrameSource, FrameUse, HoledBlock, IdealFrames};
pub use mmu::{Fault, Fill, Mmu, NoMemory, Port};
pub use nested::Host;
pub use pagetable::{PageSize, PageTable, bits};
pub use primary::{Admission, Primary, Provisioned, Request};
pub use scheme::{Refill, Scheme};
pub use space::{HoleMap, Inval, Mapping, Segment, Space, USER_RW};
pub use stats::{HitLevel, Stats};
