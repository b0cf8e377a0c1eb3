// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direct segments (Direct Segments, section 3.1): base, limit and offset registers beside the
//! D-TLB, one set for each half of addresses (section 3.3); what lies outside is paged.

use super::paging::paging;
use super::scheme::{Refill, Scheme};
use crate::mmu::Fill;
use crate::os::space::Space;
use crate::walk::descent::Fault;
use crate::walk::nested::Host;

struct DirectSegment {
    pages: Box<dyn Scheme>,
}

/// Makes the scheme.
pub fn segment() -> Box<dyn Scheme> {
    Box::new(DirectSegment { pages: paging() })
}

impl Scheme for DirectSegment {
    fn name(&self) -> &'static str {
        "segment"
    }

    fn has_bypass(&self) -> bool {
        true
    }

    #[inline]
    fn bypass(&mut self, space: &Space, host: Option<&Host>, va: u64) -> Option<u64> {
        let pa = space.segment_for(va)?.translate(va)?;
        match host {
            None => Some(pa),
            // Third virtualised form of section 3.3: with a segment on both sides the registers
            // hold the sum of the offsets. With the guest's alone (the second form) the address
            // still has to pass the host's tables, which the walk of a TLB miss sees to.
            Some(host) => host.space.segment.and_then(|segment| segment.translate(pa)),
        }
    }

    fn refill(&mut self, miss: &mut Refill<'_>) -> Result<Fill, Fault> {
        self.pages.refill(miss)
    }
}
