// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every experiment, one list.
