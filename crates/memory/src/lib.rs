// SPDX-License-Identifier: MIT OR Apache-2.0
//! One cache, one DRAM, the trait of a memory system.
