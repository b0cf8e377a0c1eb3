// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans with fewer rights. The BPF reader loads and reads with CAP_BPF and CAP_PERFMON (Linux 5.8
//! and newer). Two things beside it take CAP_SYS_ADMIN: the frame number of one page, which tells
//! where the memory map lies, and the addresses in `/proc/iomem`. The first stays as it is until
//! the next boot; for the second there is the firmware's map. So a process that goes on scanning
//! asks once, and gives the right up.

use crate::bpf::resolve_memory_map;
use crate::proc::firmware_ram;
use crate::{HostError, Root, System};
use ample_pfn::PfnRange;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// Finds out what takes CAP_SYS_ADMIN, then gives it up for the calling thread and those that it
/// starts: to be called before others are there. False where the right is needed for as long as the
/// process scans: it has not both of the others, or the firmware's map does not name the same
/// memory.
///
/// # Errors
/// When the BPF reader cannot be used, or the kernel refuses.
pub fn give_up_sys_admin() -> Result<bool, HostError> {
    let mut held = capabilities(None).map_err(refused)?;
    let enough = CapabilitySet::BPF | CapabilitySet::PERFMON;
    if !held.effective.contains(enough | CapabilitySet::SYS_ADMIN) {
        return Ok(false);
    }
    let root = Root::live();
    if !same_memory(&System::read(&root)?.ram, &firmware_ram(&root)?) {
        return Ok(false);
    }
    resolve_memory_map()?;
    for set in [
        &mut held.effective,
        &mut held.permitted,
        &mut held.inheritable,
    ] {
        set.remove(CapabilitySet::SYS_ADMIN);
    }
    set_capabilities(None, held).map_err(refused)?;
    Ok(true)
}

fn refused(error: rustix::io::Errno) -> HostError {
    HostError::Bpf(format!("capabilities of this process: {error}"))
}

/// Whether two lists name the same frames.
fn same_memory(one: &[PfnRange], other: &[PfnRange]) -> bool {
    let joined = |ranges: &[PfnRange]| {
        let mut joined: Vec<PfnRange> = Vec::new();
        for &range in ranges {
            match joined.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => joined.push(range),
            }
        }
        joined
    };
    joined(one) == joined(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_pfn::Pfn;

    #[test]
    fn neighbours_are_one_range() {
        let range = |start, end| PfnRange::new(Pfn(start), Pfn(end));
        let whole = [range(1, 9), range(16, 20)];
        assert!(same_memory(
            &whole,
            &[range(1, 4), range(4, 9), range(16, 20)]
        ));
        assert!(!same_memory(&whole, &[range(1, 9), range(16, 21)]));
        assert!(!same_memory(&whole, &[]));
    }
}
