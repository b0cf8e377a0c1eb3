// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose page tables a root is. Linux keeps its tasks in a list that begins at `init_task`; each
//! has its name, and its memory descriptor the root of its page tables. Where in these structures
//! the fields lie differs from build to build, and kernels without debug information do not say.
//! They are found by what they must hold: the name of `init_task`, a list that comes back to where
//! it began, and roots that CPUs have really loaded.
//!
//! The guest runs on while its memory is read. A name is a label, and no figure hangs on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where the kernel's image and all memory are mapped without KASLR (Documentation/arch/x86/
/// x86_64/mm.rst).
const IMAGE: u64 = 0xffff_ffff_8000_0000;
const DIRECT: u64 = 0xffff_8880_0000_0000;
const DIRECT_BYTES: u64 = 1 << 46;
const IMAGE_BYTES: u64 = 1 << 30;
/// Bytes of a task and of a memory descriptor that are looked at.
const TASK_BYTES: usize = 16 << 10;
const DESCRIPTOR_BYTES: usize = 1 << 10;
const NAME_BYTES: usize = 16;
/// Tasks that are looked at.
const MOST_TASKS: usize = 1 << 16;
/// Names that a root keeps: frames of ended processes become roots of others.
const MOST_NAMES: usize = 3;

/// The guest's physical memory, as the emulator's file has it.
pub struct GuestMemory {
    file: File,
    low_bytes: u64,
}

impl GuestMemory {
    /// Opens it; `low_bytes` of it lie below 4 GB, the rest from there.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(path: &Path, low_bytes: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(GuestMemory { file, low_bytes })
    }

    fn read_physical(&self, pa: u64, to: &mut [u8]) -> Option<()> {
        let at = match pa {
            pa if pa < self.low_bytes => pa,
            pa => pa.checked_sub(1 << 32)?.checked_add(self.low_bytes)?,
        };
        self.file.read_exact_at(to, at).ok()
    }
}

/// What memory is read through: a guest's, or a test's.
pub trait ReadableKernel {
    /// Reads kernel memory at a virtual address; None if there is none.
    fn read(&self, va: u64, to: &mut [u8]) -> Option<()>;

    /// The word at an address.
    fn word(&self, va: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(va, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }
}

impl ReadableKernel for GuestMemory {
    fn read(&self, va: u64, to: &mut [u8]) -> Option<()> {
        self.read_physical(physical(va)?, to)
    }
}

/// Where the kernel's linear mappings put an address.
fn physical(va: u64) -> Option<u64> {
    match va {
        va if (IMAGE..IMAGE + IMAGE_BYTES).contains(&va) => Some(va - IMAGE),
        va if (DIRECT..DIRECT + DIRECT_BYTES).contains(&va) => Some(va - DIRECT),
        _ => None,
    }
}

/// The address of `init_task` in the text of a System.map.
pub fn init_task(map: &str) -> Option<u64> {
    let line = map.lines().find(|line| line.ends_with(" init_task"))?;
    u64::from_str_radix(line.split(' ').next()?, 16).ok()
}

/// Offsets of fields, found once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Of the name in a task.
    name: usize,
    /// Of the list of all tasks.
    list: usize,
    /// Of the pointer to the memory descriptor in a task.
    descriptor: usize,
    /// Of the pointer to the root table in the memory descriptor.
    root: usize,
}

/// Names of processes, gathered while a guest runs.
#[derive(Clone, Debug, Default)]
pub struct Names {
    init_task: u64,
    layout: Option<Layout>,
    found: BTreeMap<u64, Vec<String>>,
}

impl Names {
    /// For a kernel whose `init_task` lies at this address.
    pub fn new(init_task: u64) -> Self {
        Names {
            init_task,
            ..Names::default()
        }
    }

    /// Looks at the tasks that there are now; `roots` are the root frames that CPUs have loaded.
    pub fn look(&mut self, kernel: &impl ReadableKernel, roots: &BTreeSet<u64>) {
        if self.layout.is_none() {
            self.layout = find(kernel, self.init_task, roots);
        }
        let Some(layout) = self.layout else {
            return;
        };
        for task in tasks(kernel, self.init_task, layout.list) {
            let root = root_of(kernel, task, layout.descriptor, layout.root);
            let Some(root) = root.filter(|root| roots.contains(root)) else {
                continue;
            };
            let Some(name) = name_of(kernel, task, layout.name) else {
                continue;
            };
            let names = self.found.entry(root).or_default();
            if names.len() < MOST_NAMES && !names.contains(&name) {
                names.push(name);
            }
        }
    }

    /// The name of a root's process; of several that had the frame one after the other, all.
    pub fn of(&self, root_frame: u64) -> Option<String> {
        self.found.get(&root_frame).map(|names| names.join("/"))
    }
}

/// The name of a task.
fn name_of(kernel: &impl ReadableKernel, task: u64, offset: usize) -> Option<String> {
    let mut bytes = [0; NAME_BYTES];
    kernel.read(task + offset as u64, &mut bytes)?;
    let end = bytes.iter().position(|&byte| byte == 0)?;
    let name = &bytes[..end];
    let printable = !name.is_empty() && name.iter().all(|byte| (b' '..=b'~').contains(byte));
    printable.then(|| String::from_utf8_lossy(name).into_owned())
}

/// Root frame of a task's page tables; None of a kernel thread.
fn root_of(kernel: &impl ReadableKernel, task: u64, descriptor: usize, root: usize) -> Option<u64> {
    let descriptor = kernel.word(task + descriptor as u64)?;
    physical(descriptor)?;
    let root = kernel.word(descriptor + root as u64)?;
    physical(root).map(|pa| pa >> 12)
}

/// The tasks that the list at `offset` of `first` leads to, without `first`; none if it does not
/// come back.
fn tasks(kernel: &impl ReadableKernel, first: u64, offset: usize) -> Vec<u64> {
    let offset = offset as u64;
    let head = first + offset;
    let mut found = Vec::new();
    let mut at = head;
    while found.len() < MOST_TASKS {
        let Some(next) = kernel.word(at).filter(|&next| physical(next).is_some()) else {
            return Vec::new();
        };
        if next == head {
            return found;
        }
        if kernel.word(next + 8) != Some(at) {
            return Vec::new();
        }
        found.push(next - offset);
        at = next;
    }
    Vec::new()
}

/// Finds the fields.
fn find(kernel: &impl ReadableKernel, init_task: u64, roots: &BTreeSet<u64>) -> Option<Layout> {
    let mut init = vec![0; TASK_BYTES];
    kernel.read(init_task, &mut init)?;
    let name = init.windows(7).position(|bytes| bytes == b"swapper")?;
    // Of the lists through named tasks the longest: others are of a group's or a session's.
    let lists = (0..TASK_BYTES).step_by(8).map(|offset| {
        let tasks = tasks(kernel, init_task, offset);
        let named = tasks
            .iter()
            .all(|&task| name_of(kernel, task, name).is_some());
        (if named { tasks.len() } else { 0 }, offset, tasks)
    });
    let (_, list, tasks) =
        lists.max_by_key(|(length, offset, _)| (*length, std::cmp::Reverse(*offset)))?;
    // `mm` stands before `active_mm`, which a kernel thread borrows from whoever ran before it.
    let mut best: Option<(usize, Layout)> = None;
    for descriptor in (0..TASK_BYTES).step_by(8) {
        let Some(pointed) = descriptors(kernel, &tasks, descriptor) else {
            continue;
        };
        let some = pointed.iter().flat_map(|&at| roots_in(kernel, at, roots));
        for root in some.collect::<BTreeSet<usize>>() {
            let Some(covered) = covered(kernel, &pointed, root, roots) else {
                continue;
            };
            let found = Layout {
                name,
                list,
                descriptor,
                root,
            };
            if best.is_none_or(|(most, _)| covered > most) {
                best = Some((covered, found));
            }
        }
    }
    best.map(|(_, layout)| layout)
}

/// What tasks point to at an offset, the pointers that are not null; None if one is no pointer.
fn descriptors(
    kernel: &impl ReadableKernel,
    tasks: &[u64],
    offset: usize,
) -> Option<BTreeSet<u64>> {
    let words = tasks.iter().map(|task| kernel.word(task + offset as u64));
    let pointer = |va: Option<u64>| va.filter(|&va| va == 0 || physical(va).is_some());
    let mut pointers = words.map(pointer).collect::<Option<BTreeSet<u64>>>()?;
    pointers.remove(&0);
    Some(pointers)
}

/// Where in a structure roots stand that have been loaded.
fn roots_in(kernel: &impl ReadableKernel, at: u64, roots: &BTreeSet<u64>) -> Vec<usize> {
    let mut bytes = vec![0; DESCRIPTOR_BYTES];
    if kernel.read(at, &mut bytes).is_none() {
        return Vec::new();
    }
    let words = bytes.chunks_exact(8).enumerate();
    let found = words.filter_map(|(at, word)| {
        let va = u64::from_le_bytes(word.try_into().expect("8 bytes"));
        let frame = table(va)? >> 12;
        roots.contains(&frame).then_some(8 * at)
    });
    found.collect()
}

/// The physical address of a table of pages.
fn table(va: u64) -> Option<u64> {
    physical(va).filter(|pa| pa & 0xfff == 0)
}

/// How many of `roots` the structures have at an offset; None if one has no table there.
fn covered(
    kernel: &impl ReadableKernel,
    structures: &BTreeSet<u64>,
    offset: usize,
    roots: &BTreeSet<u64>,
) -> Option<usize> {
    let root = |at: &u64| table(kernel.word(at + offset as u64)?).map(|pa| pa >> 12);
    let all = structures
        .iter()
        .map(root)
        .collect::<Option<BTreeSet<u64>>>()?;
    Some(all.intersection(roots).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernel memory as a table of words.
    #[derive(Default)]
    struct Words(BTreeMap<u64, u64>);

    impl ReadableKernel for Words {
        fn read(&self, va: u64, to: &mut [u8]) -> Option<()> {
            physical(va)?;
            for (at, byte) in to.iter_mut().enumerate() {
                let va = va + at as u64;
                let word = self.0.get(&(va & !7)).copied().unwrap_or(0);
                *byte = (word >> (8 * (va & 7))) as u8;
            }
            Some(())
        }
    }

    const INIT: u64 = IMAGE + 0x0140_0000;
    const NAME: u64 = 0xb90;
    const LIST: u64 = 0x8a0;
    const MM: u64 = 0x8f0;

    fn task(at: u64) -> u64 {
        DIRECT + 0x20_0000 + at * 0x4000
    }

    fn named(words: &mut Words, task: u64, name: &str) {
        let mut bytes = [0; NAME_BYTES];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        for (at, word) in bytes.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().unwrap());
            words.0.insert(task + NAME + 8 * at as u64, word);
        }
    }

    /// `init_task`, a kernel thread that has borrowed the memory of the first program, and two
    /// programs.
    fn machine() -> (Words, BTreeSet<u64>) {
        let mut words = Words::default();
        let all = [INIT, task(1), task(2), task(3)];
        let names = ["swapper/0", "kthreadd", "redis-server", "sh"];
        for (at, (&one, name)) in all.iter().zip(names).enumerate() {
            named(&mut words, one, name);
            let next = all[(at + 1) % all.len()];
            words.0.insert(one + LIST, next + LIST);
            words.0.insert(next + LIST + 8, one + LIST);
        }
        for (program, root) in [(2, 0x1234), (3, 0x777)] {
            let mm = DIRECT + 0x100_0000 + program * 0x1000;
            words.0.insert(task(program) + MM, mm);
            words.0.insert(task(program) + MM + 8, mm);
            words.0.insert(mm + 0x80, DIRECT + (root << 12));
        }
        words.0.insert(task(1) + MM + 8, DIRECT + 0x100_2000);
        // Something else of every task, in one of which a root's frame happens to be named.
        for program in 1..4 {
            words
                .0
                .insert(task(program) + 0x40, DIRECT + 0x300_0000 + program * 0x1000);
        }
        for (at, frame) in [(0x18, 0x1234), (0x20, 0x777)] {
            words
                .0
                .insert(DIRECT + 0x300_2000 + at, DIRECT + (frame << 12));
        }
        words.0.insert(DIRECT + 0x300_1000 + 0x18, 7);
        words.0.insert(DIRECT + 0x300_1000 + 0x20, 7);
        (words, BTreeSet::from([0x1234, 0x777]))
    }

    #[test]
    fn programs_are_named_by_their_roots() {
        let (words, roots) = machine();
        let mut names = Names::new(INIT);
        names.look(&words, &roots);
        assert_eq!(names.of(0x1234).as_deref(), Some("redis-server"));
        assert_eq!(names.of(0x777).as_deref(), Some("sh"));
        assert_eq!(names.of(0x778), None);
        let layout = names.layout.unwrap();
        let expected = [NAME, LIST, MM, 0x80].map(|offset| offset as usize);
        let found = [layout.name, layout.list, layout.descriptor, layout.root];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_frame_that_served_two_programs_has_both_names() {
        let (mut words, roots) = machine();
        let mut names = Names::new(INIT);
        names.look(&words, &roots);
        named(&mut words, task(3), "tcc");
        names.look(&words, &roots);
        assert_eq!(names.of(0x777).as_deref(), Some("sh/tcc"));
    }

    #[test]
    fn memory_that_holds_no_kernel_has_no_names() {
        let roots = BTreeSet::from([0x1234]);
        for (words, init) in [
            (Words::default(), INIT),
            (machine().0, INIT + 0x10_0000),
            (machine().0, 0),
        ] {
            let mut names = Names::new(init);
            names.look(&words, &roots);
            assert_eq!(names.of(0x1234), None);
        }
    }

    #[test]
    fn a_list_cut_off_while_it_is_read_gives_no_tasks() {
        let (mut words, _) = machine();
        words.0.insert(task(2) + LIST, 0);
        assert!(tasks(&words, INIT, LIST as usize).is_empty());
        // A list that runs in a circle without its head.
        words.0.insert(task(2) + LIST, task(1) + LIST);
        words.0.insert(task(1) + LIST + 8, task(2) + LIST);
        assert!(tasks(&words, INIT, LIST as usize).is_empty());
    }

    #[test]
    fn the_symbol_is_found_in_a_map() {
        let map = "ffffffff81000000 T _text\nffffffff82a0f940 D init_task\n";
        assert_eq!(init_task(map), Some(0xffff_ffff_82a0_f940));
        assert_eq!(init_task("ffffffff81000000 T _text\n"), None);
        assert_eq!(init_task("zz D init_task\n"), None);
    }
}
