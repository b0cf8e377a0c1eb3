// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loaded BPF programs: one method per question to the kernel.

use crate::HostError;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{ProgramInput, ProgramMut};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unsafe_op_in_unsafe_fn,
    unreachable_pub
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/pages.skel.rs"));
}

pub use skeleton::types;

const BASE_PAGE_BYTES: usize = 4096;
/// Longest piece that one address of [`BpfPrograms::gather`] stands for.
const MAX_STRIDE: usize = 4096;
/// Bits 0–54 of a pagemap entry: the frame number (`Documentation/admin-guide/mm/pagemap.rst`).
const PAGEMAP_PFN: u64 = (1 << 55) - 1;

/// The programs and their shared memory.
pub struct BpfPrograms {
    skeleton: skeleton::PagesSkel<'static>,
}

impl BpfPrograms {
    /// Loads the programs into the running kernel.
    pub fn load() -> Result<BpfPrograms, HostError> {
        if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
            let what = "the kernel has no type information (CONFIG_DEBUG_INFO_BTF)";
            return Err(HostError::Bpf(what.into()));
        }
        // Verifier logs are of no use to a user; the error carries the reason.
        libbpf_rs::set_print(None);
        // The skeleton borrows this pointer-sized slot for its whole life and frees what it
        // points to; only the slot stays behind.
        let slot = Box::leak(Box::new(MaybeUninit::uninit()));
        let refused = |error: libbpf_rs::Error| {
            HostError::Bpf(format!(
                "the kernel refused the program: {error}; it needs root"
            ))
        };
        let open = skeleton::PagesSkelBuilder::default()
            .open(slot)
            .map_err(refused)?;
        let mut kernel = BpfPrograms {
            skeleton: open.load().map_err(refused)?,
        };
        kernel.run(|progs| &progs.describe)?;
        Ok(kernel)
    }

    fn run(
        &mut self,
        pick: for<'a> fn(&'a skeleton::PagesProgs<'static>) -> &'a ProgramMut<'static>,
    ) -> Result<bool, HostError> {
        let output = pick(&self.skeleton.progs)
            .test_run(ProgramInput::default())
            .map_err(|error| HostError::Bpf(format!("cannot run the program: {error}")))?;
        Ok(output.return_value == 0)
    }

    fn shared(&mut self) -> &mut types::bss {
        self.skeleton
            .maps
            .bss_data
            .as_deref_mut()
            .expect("mapped when loaded")
    }

    /// Offsets and numbers in the running kernel.
    pub fn layout(&mut self) -> types::layout {
        self.shared().layout
    }

    /// What [`BpfPrograms::copy`] copied last.
    pub fn buffer(&self) -> &[u64] {
        &self
            .skeleton
            .maps
            .bss_data
            .as_deref()
            .expect("mapped when loaded")
            .buffer
    }

    /// Copies kernel memory into the buffer; `false` when a part of it is not mapped.
    pub fn copy(&mut self, address: u64, bytes: u64) -> Result<bool, HostError> {
        let shared = self.shared();
        shared.address = address;
        shared.bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.run(|progs| &progs.copy)
    }

    /// The `bytes` at each address, one after the other; zeros where memory is not mapped.
    pub fn gather(&mut self, addresses: &[u64], bytes: usize) -> Result<Vec<u64>, HostError> {
        assert!(bytes.is_multiple_of(8) && (8..=MAX_STRIDE).contains(&bytes));
        let shared = self.shared();
        let (most, room) = (shared.addresses.len(), 8 * shared.buffer.len() - MAX_STRIDE);
        let mut words = Vec::with_capacity(addresses.len() * bytes / 8);
        for part in addresses.chunks(most.min(room / bytes)) {
            let shared = self.shared();
            shared.addresses[..part.len()].copy_from_slice(part);
            shared.address_count = part.len() as u32;
            shared.stride = bytes as u32;
            if !self.run(|progs| &progs.gather)? {
                return Err(HostError::Bpf("the kernel has no bounded loop".into()));
            }
            words.extend_from_slice(&self.buffer()[..part.len() * bytes / 8]);
        }
        Ok(words)
    }

    /// Whether the slab cache at `address` is accounted reclaimable; `None` if unreadable.
    pub fn cache_is_reclaimable(&mut self, address: u64) -> Option<bool> {
        let layout = self.layout();
        let shared = self.shared();
        shared.address = address.wrapping_add(u64::from(layout.cache_flags));
        if !self.run(|progs| &progs.peek).ok()? {
            return None;
        }
        Some(self.shared().peeked >> layout.slab_reclaim_bit & 1 == 1)
    }

    /// Address of the current task's `task_struct`.
    pub fn task(&mut self) -> Result<u64, HostError> {
        self.run(|progs| &progs.find_task)?;
        Ok(self.shared().found)
    }

    /// Address of the `struct page` of frame 0, from a page of our own whose frame number the
    /// kernel tells us. Asked twice with different pages; the answers must agree. It is that until
    /// the next boot, so a process asks once.
    pub fn memory_map_base(&mut self) -> Result<u64, HostError> {
        static BASE: OnceLock<u64> = OnceLock::new();
        if let Some(&base) = BASE.get() {
            return Ok(base);
        }
        let (first, second) = (self.probe_base()?, self.probe_base()?);
        if first != second {
            let what = "the memory map is not one array (CONFIG_SPARSEMEM_VMEMMAP)";
            return Err(HostError::Bpf(what.into()));
        }
        Ok(*BASE.get_or_init(|| first))
    }

    fn probe_base(&mut self) -> Result<u64, HostError> {
        let fail =
            |what: &str, error: &dyn std::fmt::Display| HostError::Bpf(format!("{what}: {error}"));
        let file = memfd_create("ample-probe", MemfdFlags::CLOEXEC)
            .map_err(|error| fail("cannot make a memory file", &error))?;
        ftruncate(&file, BASE_PAGE_BYTES as u64)
            .map_err(|error| fail("cannot size the memory file", &error))?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a fresh shared mapping of one page at an address of the kernel's choice
        // overlaps nothing.
        let map = unsafe {
            mmap(
                std::ptr::null_mut(),
                BASE_PAGE_BYTES,
                protection,
                flags,
                &file,
                0,
            )
        }
        .map_err(|error| fail("cannot map the memory file", &error))?;
        // SAFETY: the mapping is writable, one page long and used by nobody else.
        unsafe { map.cast::<u8>().write_volatile(1) };
        let answer = self.find_page(map as u64, file.as_raw_fd());
        // SAFETY: the mapping made above; nothing refers to it any more.
        let _ = unsafe { munmap(map, BASE_PAGE_BYTES) };
        let (pfn, page) = answer?;
        Ok(page.wrapping_sub(pfn.wrapping_mul(64)))
    }

    /// Frame number and `struct page` of the page at `address`, the first of file `descriptor`.
    fn find_page(&mut self, address: u64, descriptor: i32) -> Result<(u64, u64), HostError> {
        let path = std::path::Path::new("/proc/self/pagemap");
        let mut entry = [0; 8];
        std::fs::File::open(path)
            .and_then(|file| file.read_exact_at(&mut entry, address / BASE_PAGE_BYTES as u64 * 8))
            .map_err(|error| HostError::io(path, error))?;
        let pfn = u64::from_ne_bytes(entry) & PAGEMAP_PFN;
        self.shared().descriptor = descriptor as u32;
        let found = self.run(|progs| &progs.find_page)?;
        match (pfn, self.shared().found) {
            (pfn, page) if found && pfn > 0 && page > 0 => Ok((pfn, page)),
            (0, _) => Err(HostError::Bpf(
                "pagemap hides frame numbers; run as root".into(),
            )),
            _ => Err(HostError::Bpf(
                "cannot find the memory map through a memory file".into(),
            )),
        }
    }
}
