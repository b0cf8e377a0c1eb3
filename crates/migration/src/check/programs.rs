// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs of the litmus tests.

/// A load (`None`) or a store of a variable.
pub type LitmusAccess = (u8, Option<u8>);

/// Programs of the cores, and of a device that does one thing after the other.
#[derive(Clone, Copy, Debug)]
pub struct LitmusTest {
    /// Usual name.
    pub name: &'static str,
    pub(super) cores: &'static [&'static [LitmusAccess]],
    pub(super) device: &'static [LitmusAccess],
}

const X: u8 = 0;
const Y: u8 = 1;

/// Store buffering, message passing, load buffering, coherence of two reads, and message passing
/// from and to a device (payload X, descriptor Y).
pub const LITMUS_TESTS: [LitmusTest; 6] = [
    LitmusTest {
        name: "SB",
        cores: &[&[(X, Some(1)), (Y, None)], &[(Y, Some(1)), (X, None)]],
        device: &[],
    },
    LitmusTest {
        name: "MP",
        cores: &[&[(X, Some(1)), (Y, Some(1))], &[(Y, None), (X, None)]],
        device: &[],
    },
    LitmusTest {
        name: "LB",
        cores: &[&[(X, None), (Y, Some(1))], &[(Y, None), (X, Some(1))]],
        device: &[],
    },
    LitmusTest {
        name: "CoRR",
        cores: &[&[(X, Some(1))], &[(X, None), (X, None)]],
        device: &[],
    },
    LitmusTest {
        name: "DMA write",
        cores: &[&[(Y, None), (X, None)]],
        device: &[(X, Some(1)), (Y, Some(1))],
    },
    LitmusTest {
        name: "DMA read",
        cores: &[&[(X, Some(1)), (Y, Some(1))]],
        device: &[(Y, None), (X, None)],
    },
];
