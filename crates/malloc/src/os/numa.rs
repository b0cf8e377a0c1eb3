// SPDX-License-Identifier: MIT OR Apache-2.0
//! NUMA nodes. With more than one, each has central free lists and a page heap of its own, whose
//! memory the kernel takes from that node; a CPU's slab is filled from its node, and what it gives
//! back goes to the node where it lies. An object of another node that is freed on a CPU passes
//! through its slab once, which bounds what is remote to the size of a slab.
//!
//! Off unless the options ask for it: with one node nothing here costs more than one load.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// CPU numbers that the tables by CPU have room for: no kernel has more, and 16 bits.
pub const MAX_CPUS: usize = 1 << 16;
/// Nodes with heaps of their own; CPUs of further nodes share them in turn.
pub const MAX_NODES: usize = 8;
/// Nodes are looked for under these numbers: `MAX_NUMNODES` of the usual configurations.
const KERNEL_NODES: usize = 1024;
const LIST_BYTES: usize = 4096;

/// How the heap looks at nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As one.
    Off,
    /// As the kernel describes them.
    System,
    /// As so many, to which CPUs belong in turn, and whose memory lies anywhere: for tests.
    Pretended(u8),
}

static NODES: AtomicUsize = AtomicUsize::new(1);
static NODE_OF_CPU: [AtomicU8; MAX_CPUS] = [const { AtomicU8::new(0) }; MAX_CPUS];
/// The kernel's number of each node plus one; 0 where memory is not bound.
static KERNEL_NODE: [AtomicU32; MAX_NODES] = [const { AtomicU32::new(0) }; MAX_NODES];
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Finds the nodes. Before the first allocation.
pub fn start(mode: Mode) {
    match mode {
        Mode::Off => {}
        Mode::System => find_nodes(),
        Mode::Pretended(nodes) => {
            let nodes = usize::from(nodes).clamp(1, MAX_NODES);
            for (cpu, node) in NODE_OF_CPU.iter().enumerate() {
                node.store((cpu % nodes) as u8, Ordering::Relaxed);
            }
            NODES.store(nodes, Ordering::Release);
        }
    }
}

/// Nodes that have heaps of their own.
#[inline(always)]
pub fn nodes() -> usize {
    NODES.load(Ordering::Relaxed)
}

/// The node of a CPU, below [`nodes`].
#[inline]
pub fn of_cpu(cpu: usize) -> usize {
    NODE_OF_CPU
        .get(cpu)
        .map_or(0, |node| node.load(Ordering::Relaxed).into())
}

/// The node that the calling thread runs on, or ran on a moment ago.
#[inline]
pub fn current() -> usize {
    if nodes() == 1 {
        return 0;
    }
    of_cpu(cpu())
}

/// The CPU that the calling thread runs on, or ran on a moment ago; 0 where the system call is
/// missing.
#[inline]
pub fn cpu() -> usize {
    // The threads of a model are coroutines of one thread.
    #[cfg(feature = "models")]
    if crate::os::model::running() {
        return crate::os::model::thread();
    }
    // SAFETY: no preconditions.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Asks for memory of the node where the range is touched first. The kernel takes other memory
/// when the node has none.
pub fn bind(address: usize, bytes: usize, node: usize) {
    let kernel_node = KERNEL_NODE[node].load(Ordering::Relaxed);
    if kernel_node != 0 && !crate::os::sys::prefer_node(address, bytes, kernel_node - 1) {
        REFUSED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Ranges that the kernel refused to bind to a node.
pub fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// The node of the kernel that a node of ours stands for; `None` for pretended ones, and where
/// there is only one.
pub fn kernel_node(node: usize) -> Option<u32> {
    KERNEL_NODE[node].load(Ordering::Relaxed).checked_sub(1)
}

fn find_nodes() {
    let mut found = 0;
    for kernel_node in 0..KERNEL_NODES {
        let mut text = [0; LIST_BYTES];
        let Some(list) = read_cpus(kernel_node, &mut text) else {
            continue;
        };
        let node = found % MAX_NODES;
        // Nodes without processors, such as memory behind CXL, are not where anybody allocates.
        if for_each_cpu(list, |cpu| {
            if let Some(entry) = NODE_OF_CPU.get(cpu) {
                entry.store(node as u8, Ordering::Relaxed);
            }
        }) {
            if found < MAX_NODES {
                KERNEL_NODE[node].store(kernel_node as u32 + 1, Ordering::Relaxed);
            }
            found += 1;
        }
    }
    if found > 1 {
        NODES.store(found.min(MAX_NODES), Ordering::Release);
    } else {
        KERNEL_NODE[0].store(0, Ordering::Relaxed);
    }
}

/// The list of CPUs of a node, as `/sys` has it.
fn read_cpus(kernel_node: usize, text: &mut [u8; LIST_BYTES]) -> Option<&str> {
    use core::fmt::Write;
    let mut name = crate::os::report::Line::new();
    let _ = write!(name, "/sys/devices/system/node/node{kernel_node}/cpulist\0");
    let name = core::ffi::CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
    crate::os::sys::read_file(name, text)
}

/// Calls `visit` with each CPU of a list like `0-3,8`; whether there is any. What is not a number
/// is passed over.
fn for_each_cpu(list: &str, mut visit: impl FnMut(usize)) -> bool {
    let mut any = false;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else {
            continue;
        };
        for cpu in first..=last.min(MAX_CPUS) {
            visit(cpu);
            any = true;
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        let read = |list: &str| {
            let mut cpus = Vec::new();
            let any = for_each_cpu(list, |cpu| cpus.push(cpu));
            assert_eq!(any, !cpus.is_empty());
            cpus
        };
        assert_eq!(read("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(read("5"), [5]);
        assert_eq!(read("\n"), []);
        assert_eq!(read("x,2-,7-6,1"), [1]);
    }

    #[test]
    fn cpus_beyond_the_table_are_of_the_first_node() {
        assert_eq!(of_cpu(MAX_CPUS), 0);
        assert_eq!(of_cpu(usize::MAX), 0);
    }
}
