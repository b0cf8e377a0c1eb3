// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of the heap as the options give them: see [`limit`].

use crate::heap::limit;
use crate::os::report::Line;
use crate::os::sys;
use core::ffi::CStr;
use core::fmt::Write;

/// A limit as an option gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// In bytes; 0 for none.
    Bytes(usize),
    /// In percent of what the control group may use, or the machine has if that is less.
    Percent(usize),
}

impl Limit {
    /// Bytes; 0 for none.
    fn bytes(self) -> usize {
        match self {
            Limit::Bytes(bytes) => bytes,
            Limit::Percent(percent) => available_bytes() / 100 * percent,
        }
    }
}

/// Applies the options.
pub fn configure(soft: Limit, hard: Limit) {
    limit::set(soft.bytes(), hard.bytes());
}

/// Memory that this process may use, in bytes: the least of the limits of its control group and the
/// groups above it, and of the machine's memory.
fn available_bytes() -> usize {
    // SAFETY: zero is valid for a structure of integers, which the call fills.
    let machine = unsafe {
        let mut info: libc::sysinfo = core::mem::zeroed();
        libc::sysinfo(&raw mut info);
        (info.totalram as usize).saturating_mul(info.mem_unit as usize)
    };
    let mut text = [0; 4096];
    let groups = sys::read_file(c"/proc/self/cgroup", &mut text).unwrap_or("");
    group_bytes(groups, |file| {
        let mut text = [0; 32];
        sys::read_file(file, &mut text)?.trim().parse().ok()
    })
    .map_or(machine, |limit| limit.min(machine))
}

/// The least limit of the groups that `/proc/self/cgroup` names, by what `read` finds in the files.
/// `None` without any.
fn group_bytes(groups: &str, read: impl Fn(&CStr) -> Option<usize>) -> Option<usize> {
    let mut least: Option<usize> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(mut path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (mount, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        loop {
            path = path.trim_end_matches('/');
            let mut name = Line::new();
            // A name too long for the buffer is cut and without its end: no such file.
            let _ = write!(name, "{mount}{path}/{file}\0");
            let limit = CStr::from_bytes_with_nul(name.as_bytes())
                .ok()
                .and_then(&read);
            least = limit.map_or(least, |limit| {
                Some(least.map_or(limit, |least| least.min(limit)))
            });
            match path.rfind('/') {
                Some(end) => path = &path[..end],
                None => break,
            }
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn least(groups: &str, files: &[(&str, usize)]) -> Option<usize> {
        group_bytes(groups, |name| {
            let name = name.to_str().unwrap();
            files
                .iter()
                .find_map(|&(file, limit)| (file == name).then_some(limit))
        })
    }

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let files = [
            ("/sys/fs/cgroup/a/b/memory.max", 300),
            ("/sys/fs/cgroup/a/memory.max", 200),
            ("/sys/fs/cgroup/memory.max", 400),
            ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", 100),
        ];
        assert_eq!(least("0::/a/b\n", &files), Some(200));
        assert_eq!(least("0::/\n", &files), Some(400));
        assert_eq!(least("4:memory:/x/y\n3:cpu:/a/b\n", &files), Some(100));
        assert_eq!(least("", &files), None);
        assert_eq!(least("nonsense\n0::/c", &[]), None);
        let long = format!("0::/{}\n", "d/".repeat(400));
        assert_eq!(least(&long, &files), Some(400));
    }
}
