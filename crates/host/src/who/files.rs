// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open files of all processes: the pipes and sockets among them, and what the pipes hold.

use super::OwnerKind;
use super::claims::Claims;
use super::kernel::{KernelMemory, frame_of_page};
use super::owners::OwnerName;
use super::tasks::RunningProcess;
use crate::HostError;
use ample_pfn::{Pfn, PfnRange};
use std::collections::HashMap;

/// Descriptors of one process followed at most (`fs.nr_open` allows 1 Mi by default).
const MAX_DESCRIPTORS: u64 = 1 << 20;
/// Pointers in one frame.
const POINTERS: u64 = 512;
const FILE_KIND: u64 = 0xf000;
const FIFO: u64 = 0x1000;
const SOCKET: u64 = 0xc000;

/// Kernel objects behind open files, each with a process that has it open.
#[derive(Debug, Default)]
pub struct OpenFiles {
    /// `pipe_inode_info` and process.
    pub pipes: Vec<(u64, usize)>,
    /// `struct sock` and process.
    pub sockets: Vec<(u64, usize)>,
}

/// The owner for what a process holds.
pub fn owner_of(claims: &mut Claims, kind: OwnerKind, task: &RunningProcess) -> u32 {
    let owner = claims.id(OwnerName {
        kind,
        name: task.comm.clone(),
        cgroup: task.cgroup.clone(),
    });
    claims.list.age(owner, task.age_seconds);
    owner
}

/// Claims the frame behind the `struct page` at `page`, and those that follow it.
pub fn claim_pages(
    kernel: &dyn KernelMemory,
    claims: &mut Claims,
    (page, frames): (u64, u64),
    owner: u32,
) {
    if let Some(frame) = frame_of_page(kernel, page) {
        claims.add(PfnRange::new(Pfn(frame), Pfn(frame + frames)), owner);
    }
}

/// Pipes and sockets that processes have open.
///
/// # Errors
/// When the kernel lacks a field that this cannot do without.
pub fn open_files(
    kernel: &mut dyn KernelMemory,
    tasks: &[RunningProcess],
) -> Result<OpenFiles, HostError> {
    let files = files(kernel, tasks)?;
    let addresses: Vec<u64> = files.iter().map(|(file, _)| *file).collect();
    let at = kernel.field("file.f_inode")?;
    let inodes = kernel.follow(&addresses, at)?;
    let at = kernel.field("inode.i_mode")?;
    let modes = kernel.follow(&inodes, at)?;
    let pick = |kind: u64, from: &[u64]| -> (Vec<u64>, Vec<usize>) {
        (0..files.len())
            .filter(|&at| modes[at] & FILE_KIND == kind)
            .map(|at| (from[at], files[at].1))
            .unzip()
    };
    let (fifos, fifo_tasks) = pick(FIFO, &inodes);
    let (sockets, socket_tasks) = pick(SOCKET, &addresses);
    let at = kernel.field("inode.i_pipe")?;
    let pipes = kernel.follow(&fifos, at)?;
    let at = kernel.field("file.private_data")?;
    let sockets = kernel.follow(&sockets, at)?;
    let at = kernel.field("socket.sk")?;
    let sockets = kernel.follow(&sockets, at)?;
    Ok(OpenFiles {
        pipes: distinct(pipes, fifo_tasks),
        sockets: distinct(sockets, socket_tasks),
    })
}

/// Each object once, with the first process that has it.
fn distinct(objects: Vec<u64>, tasks: Vec<usize>) -> Vec<(u64, usize)> {
    let mut seen: Vec<(u64, usize)> = objects.into_iter().zip(tasks).collect();
    seen.retain(|(object, _)| *object != 0);
    seen.sort_unstable();
    seen.dedup_by_key(|(object, _)| *object);
    seen
}

/// Every open `struct file`, with the first process that has it.
fn files(
    kernel: &mut dyn KernelMemory,
    tasks: &[RunningProcess],
) -> Result<Vec<(u64, usize)>, HostError> {
    let mut owners: HashMap<u64, usize> = HashMap::new();
    for (index, task) in tasks.iter().enumerate().filter(|(_, task)| task.files != 0) {
        owners.entry(task.files).or_insert(index);
    }
    let mut owners: Vec<(u64, usize)> = owners.into_iter().collect();
    owners.sort_unstable_by_key(|&(_, task)| task);
    let tables: Vec<u64> = owners.iter().map(|(files, _)| *files).collect();
    let at = kernel.field("files_struct.fdt")?;
    let tables = kernel.follow(&tables, at)?;
    let at = kernel.field("fdtable.max_fds")?;
    let counts = kernel.follow_u32(&tables, at)?;
    let at = kernel.field("fdtable.fd")?;
    let arrays = kernel.follow(&tables, at)?;
    let (mut objects, mut holders) = (Vec::new(), Vec::new());
    for ((array, count), (_, task)) in arrays.into_iter().zip(counts).zip(&owners) {
        let count = u64::from(count).min(MAX_DESCRIPTORS);
        let (whole, rest) = (count / POINTERS, count % POINTERS);
        let parts: Vec<u64> = (0..whole).map(|part| array + part * POINTERS * 8).collect();
        let mut found = kernel.gather(&parts, 4096)?;
        if rest > 0 {
            found.extend(kernel.gather(&[array + whole * POINTERS * 8], rest as usize * 8)?);
        }
        found.retain(|&file| file != 0);
        holders.extend(std::iter::repeat_n(*task, found.len()));
        objects.extend(found);
    }
    Ok(distinct(objects, holders))
}

/// Claims the pages that pipes hold.
///
/// # Errors
/// When the kernel lacks a field that this cannot do without.
pub fn claim_pipes(
    kernel: &mut dyn KernelMemory,
    claims: &mut Claims,
    tasks: &[RunningProcess],
    pipes: &[(u64, usize)],
) -> Result<(), HostError> {
    /// Slots of one pipe at most: `F_SETPIPE_SZ` of 4 GB.
    const MAX_SLOTS: u32 = 1 << 20;
    let objects: Vec<u64> = pipes.iter().map(|(pipe, _)| *pipe).collect();
    let mut field = |path| -> Result<Vec<u64>, HostError> {
        let at = kernel.field(path)?;
        kernel.follow(&objects, at)
    };
    let (heads, tails) = (
        field("pipe_inode_info.head")?,
        field("pipe_inode_info.tail")?,
    );
    let (sizes, buffers) = (
        field("pipe_inode_info.ring_size")?,
        field("pipe_inode_info.bufs")?,
    );
    let spare = field("pipe_inode_info.tmp_page")?;
    let (size, page) = (
        kernel.size("pipe_buffer").unwrap_or(40),
        kernel.field("pipe_buffer.page")?,
    );
    let (mut slots, mut holders) = (Vec::new(), Vec::new());
    for (at, (_, task)) in pipes.iter().enumerate() {
        let owner = owner_of(claims, OwnerKind::Pipe, &tasks[*task]);
        claim_pages(kernel, claims, (spare[at], 1), owner);
        let (head, tail, ring) = (heads[at] as u32, tails[at] as u32, sizes[at] as u32);
        let held = head.wrapping_sub(tail);
        if !ring.is_power_of_two() || ring > MAX_SLOTS || held > ring {
            continue;
        }
        for slot in 0..held {
            let slot = tail.wrapping_add(slot) & (ring - 1);
            slots.push(buffers[at] + u64::from(slot) * size + page);
            holders.push(owner);
        }
    }
    let pages = kernel.gather(&slots, 8)?;
    for (page, owner) in pages.into_iter().zip(holders) {
        claim_pages(kernel, claims, (page, 1), owner);
    }
    Ok(())
}
