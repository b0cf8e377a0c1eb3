// SPDX-License-Identifier: MIT OR Apache-2.0
//! The policy of the guide "Add a policy" in `docs/server-model.md`, run on a workload. The guide
//! shows the lines between the two marks.

// guide: begin
use super::decisions::Policy;
use crate::alloc::fallback::claim_whole_block;
use crate::config::Rules;
use crate::kernel::SimKernel;
use crate::memory::FreeList;

/// Types never mix inside 2 MB, and no page is moved for it.
#[derive(Debug)]
pub(crate) struct WholeBlocks;

impl Policy for WholeBlocks {
    fn rules(&self) -> Rules {
        Rules {
            mixing: false,
            ..Rules::default()
        }
    }

    fn fallback(&mut self, kernel: &mut SimKernel, list: FreeList) -> Option<u32> {
        claim_whole_block(kernel, list)
    }
}
// guide: end

use crate::config::{Config, PolicyKind};
use crate::memory::FrameKind;
use crate::server::ServerModel;
use crate::workload::{Driver, Workload};
use ample_pfn::is_movable;

#[test]
fn the_guide_shows_this_policy() {
    let shown = (include_str!("example.rs").split("// guide: begin\n").nth(1))
        .and_then(|rest| rest.split("// guide: end\n").next())
        .expect("the two marks");
    let guide = include_str!("../../../../docs/server-model.md");
    assert!(guide.contains(&format!("```rust\n{shown}```\n")), "copy it");
}

#[test]
fn a_policy_of_two_decisions_runs_a_workload() {
    let mut config = Config::new(PolicyKind::Linux);
    config.memory_bytes = 128 << 20;
    let mut server = ServerModel::with_policy(&config, Box::new(WholeBlocks)).expect("a size");
    let workload = Workload::load("web").expect("a shipped workload");
    let mut driver = Driver::new(&mut server, &workload, config.event_ratio);
    (0..60).for_each(|_| driver.second(&mut server));
    server.check().expect("sound");
    let zone = &server.kernel.zone;
    let mixed = |b: u32| {
        let used = |movable| {
            let head = |state: crate::memory::FrameState| {
                state.kind() == FrameKind::Used && is_movable(state.class()) == movable
            };
            !zone.heads_where(b, head).is_empty()
        };
        used(true) && used(false)
    };
    assert!(!(0..zone.block_count()).any(mixed), "types mix inside 2 MB");
}
