// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes, their control groups, and who is charged for a page.

use super::kernel::{KernelMemory, is_kernel_address};
use crate::{HostError, printable};
use std::collections::HashMap;

/// Processes followed at most: the largest `pid_max` of Linux.
const MAX_TASKS: usize = 1 << 22;
/// Control groups nest no deeper here.
const MAX_DEPTH: usize = 64;

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningProcess {
    /// Name of its program.
    pub comm: String,
    /// `mm_struct`; 0 for kernel threads.
    pub mm: u64,
    /// `files_struct`.
    pub files: u64,
    /// Page of data that it is about to send, as a `struct page`.
    pub frag_page: u64,
    /// Seconds since it began.
    pub age_seconds: u64,
    /// Control group of its memory.
    pub cgroup: Option<String>,
}

/// All processes, from the one at `current` (any thread of it).
///
/// # Errors
/// When the kernel lacks a field that this cannot do without.
pub fn tasks(
    kernel: &mut dyn KernelMemory,
    current: u64,
    memory_controller: Option<u64>,
    uptime_seconds: u64,
) -> Result<Vec<RunningProcess>, HostError> {
    let leaders = leaders(kernel, current)?;
    let comm = kernel.field("task_struct.comm")?;
    let names = kernel.gather(&leaders.iter().map(|t| t + comm).collect::<Vec<_>>(), 16)?;
    let name = |words: &[u64]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let text = String::from_utf8_lossy(&bytes);
        printable(text.split('\0').next().unwrap_or_default())
    };
    let mut field = |path| -> Result<Vec<u64>, HostError> {
        let at = kernel.field(path)?;
        kernel.follow(&leaders, at)
    };
    let (mm, files) = (field("task_struct.mm")?, field("task_struct.files")?);
    let started = field("task_struct.start_boottime")?;
    let frag_page = field("task_struct.task_frag.page")?;
    let sets = field("task_struct.cgroups")?;
    let cgroups = cgroups_of(kernel, &sets, memory_controller)?;
    let task = |at: usize| RunningProcess {
        comm: name(&names[2 * at..2 * at + 2]),
        mm: mm[at],
        files: files[at],
        frag_page: frag_page[at],
        age_seconds: uptime_seconds.saturating_sub(started[at] / 1_000_000_000),
        cgroup: cgroups[at].clone(),
    };
    Ok((0..leaders.len()).map(task).collect())
}

/// Addresses of the first thread of every process.
fn leaders(kernel: &mut dyn KernelMemory, current: u64) -> Result<Vec<u64>, HostError> {
    let (leader, list) = (
        kernel.field("task_struct.group_leader")?,
        kernel.field("task_struct.tasks")?,
    );
    let first = kernel.follow(&[current], leader)?[0];
    let (mut leaders, mut task) = (Vec::new(), first);
    while is_kernel_address(task) && leaders.len() < MAX_TASKS {
        leaders.push(task);
        task = kernel.follow(&[task], list)?[0].wrapping_sub(list);
        if task == first {
            break;
        }
    }
    Ok(leaders)
}

/// Paths of the control groups of the memory controller in these sets.
fn cgroups_of(
    kernel: &mut dyn KernelMemory,
    sets: &[u64],
    memory_controller: Option<u64>,
) -> Result<Vec<Option<String>>, HostError> {
    let (Some(controller), Some(subsystems)) = (memory_controller, kernel.offset("css_set.subsys"))
    else {
        return Ok(vec![None; sets.len()]);
    };
    let states = kernel.follow(sets, subsystems + 8 * controller)?;
    let paths = paths(kernel, &states)?;
    Ok(states
        .iter()
        .map(|state| paths.get(state).cloned())
        .collect())
}

/// Paths of the control groups of some `cgroup_subsys_state`s, the root left out.
fn paths(kernel: &mut dyn KernelMemory, states: &[u64]) -> Result<HashMap<u64, String>, HostError> {
    let mut distinct: Vec<u64> = states.iter().copied().filter(|&state| state != 0).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let (group, node) = (
        kernel.field("cgroup_subsys_state.cgroup")?,
        kernel.field("cgroup.kn")?,
    );
    let name = kernel.field("kernfs_node.name")?;
    let parent = match kernel.offset("kernfs_node.__parent") {
        Some(offset) => offset,
        None => kernel.field("kernfs_node.parent")?,
    };
    let groups = kernel.follow(&distinct, group)?;
    let mut nodes = kernel.follow(&groups, node)?;
    let mut paths = vec![String::new(); distinct.len()];
    for _ in 0..MAX_DEPTH {
        let texts = kernel.follow(&nodes, name)?;
        let texts = kernel.texts(&texts)?;
        for (path, text) in paths
            .iter_mut()
            .zip(texts)
            .filter(|(_, text)| !text.is_empty())
        {
            *path = format!("/{text}{path}");
        }
        nodes = kernel.follow(&nodes, parent)?;
        if nodes.iter().all(|&node| node == 0) {
            break;
        }
    }
    let named = distinct
        .into_iter()
        .zip(paths)
        .filter(|(_, path)| !path.is_empty());
    Ok(named.collect())
}

/// Control groups by the `memcg_data` of pages that are charged to them.
///
/// # Errors
/// When the kernel lacks a field that this cannot do without.
pub fn charges(
    kernel: &mut dyn KernelMemory,
    charges: impl Iterator<Item = u64>,
) -> Result<HashMap<u64, String>, HostError> {
    /// Bits of `memcg_data` that are not the address, and the one that says object group.
    const FLAGS: u64 = 7;
    const OBJECTS: u64 = 2;
    let mut distinct: Vec<u64> = charges.filter(|&charge| charge != 0).collect();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.is_empty() {
        return Ok(HashMap::new());
    }
    let (memcg, state) = (
        kernel.field("obj_cgroup.memcg")?,
        kernel.field("mem_cgroup.css")?,
    );
    let addresses: Vec<u64> = distinct.iter().map(|charge| charge & !FLAGS).collect();
    let groups = kernel.follow(&addresses, memcg)?;
    let states: Vec<u64> = distinct
        .iter()
        .zip(addresses.iter().zip(groups))
        .map(|(charge, (&direct, group))| if charge & OBJECTS != 0 { group } else { direct })
        .map(|group| if group == 0 { 0 } else { group + state })
        .collect();
    let paths = paths(kernel, &states)?;
    let named = distinct.iter().zip(&states);
    Ok(named
        .filter_map(|(charge, state)| Some((*charge, paths.get(state)?.clone())))
        .collect())
}
