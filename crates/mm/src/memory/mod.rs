// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the simulated memory, as types that own it and keep its invariants: the [`Zone`]
//! of frames, pageblocks and buddy lists; free pages of the CPUs; the owners of used pages; the
//! page cache; the reserves. Each has a `check` of its invariants in O(frames).

mod area;
mod block;
mod check;
mod classes;
mod cpus;
mod frames;
mod isolate;
mod list;
mod lru;
mod pools;
mod prefetch;
mod state;
mod units;
mod watermarks;
mod zone;

pub(crate) use check::check;
pub(crate) use cpus::{CpuLists, PCP_BATCH, PCP_ORDERS, Slot};
pub(crate) use frames::Frames;
pub(crate) use lru::Lru;
pub use pools::PoolId;
pub(crate) use pools::Pools;
pub(crate) use prefetch::begins_group;
pub(crate) use state::{FrameKind, FrameState, MAX_FRAMES};
pub(crate) use units::{BLOCK_ORDER, BLOCK_PAGES, FreeList, GIGA_BLOCKS, HIGH, LOW, MAX_ORDER};
pub use watermarks::Marks;
pub(crate) use watermarks::Watermarks;
pub(crate) use zone::Zone;
