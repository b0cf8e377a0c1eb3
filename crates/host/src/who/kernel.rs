// SPDX-License-Identifier: MIT OR Apache-2.0
//! Following pointers through kernel memory, many at a time.

use crate::{HostError, printable};

/// Bytes of one frame.
pub const FRAME_BYTES: u64 = 4096;

/// Kernel memory and where the kernel's types keep their fields.
///
/// Addresses that cannot be read give zeros: an object that is gone reads as empty.
pub trait KernelMemory {
    /// The `bytes` at each address, one after the other; `bytes` is a multiple of 8, at most 4096.
    ///
    /// # Errors
    /// [`HostError::Bpf`] when the program cannot be run.
    fn gather(&mut self, addresses: &[u64], bytes: usize) -> Result<Vec<u64>, HostError>;

    /// Offset in bytes of a field, written `type.field.field`; `None` where this kernel has no
    /// such field.
    fn offset(&mut self, path: &'static str) -> Option<u64>;

    /// Bytes of a structure; `None` where this kernel has no such type.
    fn size(&mut self, name: &'static str) -> Option<u64>;

    /// Address of the `struct page` of frame 0.
    fn memory_map(&self) -> u64;

    /// Address at which the direct map of physical memory begins.
    fn direct_map(&self) -> u64;

    /// Like [`KernelMemory::offset`], for fields without which nothing can be said.
    ///
    /// # Errors
    /// [`HostError::Bpf`] that names the field.
    fn field(&mut self, path: &'static str) -> Result<u64, HostError> {
        self.offset(path)
            .ok_or_else(|| HostError::Bpf(format!("this kernel has no {path}")))
    }

    /// The word at `offset` of each object; 0 for the object 0.
    ///
    /// # Errors
    /// As [`KernelMemory::gather`].
    fn follow(&mut self, objects: &[u64], offset: u64) -> Result<Vec<u64>, HostError> {
        let address = |&object: &u64| match object {
            0 => 0,
            object => object.wrapping_add(offset),
        };
        let addresses: Vec<u64> = objects.iter().map(address).collect();
        self.gather(&addresses, 8)
    }

    /// The lower half of the word at `offset` of each object.
    ///
    /// # Errors
    /// As [`KernelMemory::gather`].
    fn follow_u32(&mut self, objects: &[u64], offset: u64) -> Result<Vec<u32>, HostError> {
        let words = self.follow(objects, offset)?;
        Ok(words.into_iter().map(|word| word as u32).collect())
    }

    /// Texts of at most 255 bytes that end with a zero, safe to print; empty where unreadable.
    ///
    /// # Errors
    /// As [`KernelMemory::gather`].
    fn texts(&mut self, addresses: &[u64]) -> Result<Vec<String>, HostError> {
        const TEXT_BYTES: usize = 256;
        const SHORT_BYTES: usize = 64;
        let text = |words: &[u64]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let end = bytes.iter().position(|&byte| byte == 0);
            printable(&String::from_utf8_lossy(
                &bytes[..end.unwrap_or(bytes.len())],
            ))
        };
        let long = self.gather(addresses, TEXT_BYTES)?;
        let mut texts: Vec<String> = long.chunks(TEXT_BYTES / 8).map(text).collect();
        // A short text at the end of mapped memory cannot be read at full length.
        let short: Vec<usize> = (0..texts.len())
            .filter(|&at| texts[at].is_empty())
            .collect();
        let again: Vec<u64> = short.iter().map(|&at| addresses[at]).collect();
        let read = self.gather(&again, SHORT_BYTES)?;
        for (at, words) in short.into_iter().zip(read.chunks(SHORT_BYTES / 8)) {
            texts[at] = text(words);
        }
        Ok(texts)
    }
}

/// Frame whose `struct page` is at `address`, if it lies in the memory map.
pub fn frame_of_page(kernel: &dyn KernelMemory, address: u64) -> Option<u64> {
    const PAGE_BYTES: u64 = 64;
    const MOST_FRAMES: u64 = 1 << 40;
    let distance = address.checked_sub(kernel.memory_map())?;
    let frame = distance / PAGE_BYTES;
    (distance.is_multiple_of(PAGE_BYTES) && frame < MOST_FRAMES).then_some(frame)
}

/// Frame at an address of the direct map.
pub fn frame_of_address(kernel: &dyn KernelMemory, address: u64) -> Option<u64> {
    const DIRECT_MAP_BYTES: u64 = 1 << 46;
    let distance = address.checked_sub(kernel.direct_map())?;
    (distance < DIRECT_MAP_BYTES && address < kernel.memory_map()).then_some(distance / FRAME_BYTES)
}

/// Whether a word can be an address in the kernel's half.
pub fn is_kernel_address(word: u64) -> bool {
    word >> 56 == 0xff
}
