// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nothing but the tests in `tests/tidy.rs`: they check the tree, not the code.
