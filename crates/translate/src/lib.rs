// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual memory hardware, modelled entry for entry: page tables ([`table`]), TLBs of any
//! geometry ([`tlb`]), walkers and page-walk caches, native and nested ([`walk`]), and schemes that
//! go beyond them: direct segments, perforated pages, coalesced and range TLBs ([`schemes`]). What
//! an operating system adds is in [`os`].
//!
//! [`Engine`] translates one access at a time, or, where no time passes, a block of them
//! ([`Engine::translate_block`]). Functional runs use [`NoMemory`] as the way to memory; a timed
//! core brings its own [`Port`]. A new scheme implements [`Scheme`].

// A scheme that was written outside of this crate compiles in its folder without a change.
extern crate self as ample_translate;

mod block;
pub mod config;
pub mod engine;
pub mod error;
pub mod mmu;
pub mod os;
pub mod presets;
pub mod schemes;
pub mod stats;
pub mod table;
pub mod tlb;
pub mod walk;

pub use config::MmuConfig;
pub use engine::{BadAccess, Engine, Intent, Translated};
pub use error::{ConfigError, MapError};
pub use mmu::{Fill, Mmu};
pub use os::class_frames::ClassFrames;
pub use os::frames::{FrameSource, FrameUse, HoledBlock, IdealFrames, NoFrames};
pub use os::primary::{Admission, Primary, Provisioned, SegmentRequest};
pub use os::segment::Segment;
pub use os::settings::{OsCosts, Vma};
pub use os::space::{GLOBAL_ASID, Inval, PageMapping, Space, USER_RW};
pub use schemes::scheme::{Refill, Scheme};
pub use stats::{HitLevel, TranslationStats};
pub use table::entry::{PageSize, bits, tlb_entry};
pub use table::holes::HoleMap;
pub use table::page_table::{Mirrored, PageTable};
pub use tlb::array::TlbArray;
pub use tlb::geometry::{Geometry, Replacement};
pub use walk::cache::PwcKind;
pub use walk::descent::Fault;
pub use walk::nested::Host;
pub use walk::port::{NoMemory, Port};
