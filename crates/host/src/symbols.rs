// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of addresses in the running kernel, from `/proc/kallsyms`.

use crate::{HostError, Root};
use std::ops::Range;

/// A symbol may be looked for this far above its start: further away, no name is better.
const MAX_OFFSET: u64 = 1 << 20;

/// The functions of the kernel and its modules, by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    text: String,
    /// Start address, name in `text`; ascending.
    starts: Vec<(u64, Range<u32>)>,
}

impl KernelSymbols {
    /// Reads the symbols; none when the kernel hides their addresses (`kernel.kptr_restrict`).
    ///
    /// # Errors
    /// [`HostError`] when the file cannot be read.
    pub fn read(root: &Root) -> Result<KernelSymbols, HostError> {
        Ok(KernelSymbols::parse(root.read("proc/kallsyms")?))
    }

    pub(crate) fn parse(text: String) -> KernelSymbols {
        let mut starts = Vec::new();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let address = u64::from_str_radix(address, 16).unwrap_or(0);
            if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            let at = name.as_ptr() as usize - text.as_ptr() as usize;
            starts.push((address, at as u32..(at + name.len()) as u32));
        }
        starts.sort_unstable_by_key(|(address, _)| *address);
        KernelSymbols { text, starts }
    }

    /// The function that `address` lies in, without the suffixes of a compiler's clones
    /// (`.isra.0`, `.constprop.0`, `.cold`); the address itself in hexadecimal if unknown.
    pub fn name(&self, address: u64) -> String {
        let after = self.starts.partition_point(|(start, _)| *start <= address);
        let found = after.checked_sub(1).map(|at| &self.starts[at]);
        match found {
            Some((start, name)) if address - start < MAX_OFFSET => {
                let name = &self.text[name.start as usize..name.end as usize];
                name.split('.').next().unwrap_or(name).to_string()
            }
            _ => format!("{address:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_get_the_function_that_they_lie_in() {
        let text = "ffffffff81000000 T _text\nffffffff81001000 t cold.isra.0\n\
                    0000000000000000 T hidden\nffffffff81002000 D data\n\
                    ffffffffc0000000 t pipe_write\t[pipes]\nbroken\n";
        let symbols = KernelSymbols::parse(text.to_string());
        assert_eq!(symbols.name(0xffff_ffff_8100_0123), "_text");
        assert_eq!(symbols.name(0xffff_ffff_8100_2000), "cold");
        assert_eq!(symbols.name(0xffff_ffff_c000_0010), "pipe_write");
        assert_eq!(symbols.name(0x10), "0x10");
        assert_eq!(symbols.name(u64::MAX), "0xffffffffffffffff");
        assert_eq!(KernelSymbols::default().name(7), "0x7");
    }
}
