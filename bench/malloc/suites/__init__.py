# SPDX-License-Identifier: MIT OR Apache-2.0
"""The test suites of real programs, for bench/malloc/suites.py."""
