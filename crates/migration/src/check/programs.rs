// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs of the litmus tests.

use crate::protocol::{LineAddr, Observer};

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

/// What happens beside the programs.
#[derive(Clone, Copy, Debug, Default)]
pub struct LitmusCase {
    /// The page of both variables moves.
    pub migrates: bool,
    /// An error of memory destroys what the last level holds of X, in one of the two frames, once,
    /// at any time: from then on it holds [`POISON`], as what read it would tell.
    pub poison: bool,
    /// Planted error: the value of a load that bypassed the private caches counts whenever it was
    /// asked for.
    pub careless: bool,
    /// Planted error: the engine does not write to the destination what it cannot read.
    pub drops_poison: bool,
}

/// What a load of destroyed data finds.
pub const POISON: u8 = 255;
/// What the destination holds of its former life.
pub(super) const DEAD: u8 = 9;

/// Takes values and ends of the accesses of one core.
pub(super) struct Seen {
    pub given: Option<u8>,
    pub stores: u8,
    pub ended: Vec<u8>,
}

impl Observer<u8, u8> for Seen {
    fn given(&mut self, _: LineAddr, value: u8, _: bool) {
        self.given = Some(value);
    }

    fn store(&mut self, _: LineAddr) -> u8 {
        self.stores
    }

    fn store_once(&mut self) -> u8 {
        self.stores
    }

    fn ended(&mut self, token: u8) {
        self.ended.push(token);
    }
}

pub(super) const X: u8 = 0;
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
