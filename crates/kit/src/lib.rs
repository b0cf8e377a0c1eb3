// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every other crate needs: random numbers, divisors, orders of recency, statistics.
