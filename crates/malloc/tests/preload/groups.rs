// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits that are shares of what a control group may use.

use super::{expect_ok, program};
use std::path::{Path, PathBuf};

/// A control group of version 1 that this test may make below its own, of 256 MiB.
struct Group(PathBuf);

impl Group {
    fn make() -> Option<Group> {
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let (_, rest) = own.split_once(":memory:")?;
        let name = format!("ample-test-{}", std::process::id());
        let folder = format!("/sys/fs/cgroup/memory{}", rest.lines().next()?);
        let group = Group(Path::new(&folder).join(name));
        std::fs::create_dir(&group.0).ok()?;
        let limit = std::fs::write(group.0.join("memory.limit_in_bytes"), "268435456");
        limit.is_ok().then_some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// What the machine has is more than that share of the group.
#[test]
fn a_limit_may_be_a_share_of_the_control_group() {
    let binary = program("limits.c");
    let Some(group) = Group::make() else {
        eprintln!("not run: no control group may be made here");
        return;
    };
    let script = |kind: &str| {
        let tasks = group.0.join("tasks");
        format!(
            "echo $$ > {} && exec {} {kind}",
            tasks.display(),
            binary.display()
        )
    };
    for (kind, options) in [("hard", "limit=25%"), ("soft", "soft_limit=25%")] {
        expect_ok(Path::new("/bin/sh"), &["-c", &script(kind)], options);
    }
}
