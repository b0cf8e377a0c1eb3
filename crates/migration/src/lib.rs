// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page migration protocol of Contiguitas-HW and its model checker.
