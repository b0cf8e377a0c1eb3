// SPDX-License-Identifier: MIT OR Apache-2.0
//! The project's own guests: kernels by their tree, plans by their name.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the initramfs is built, below the root of the source tree.
const BUILDER: &str = "kernel/scripts/initramfs.sh";

/// A directory of this process's own that goes when it is dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("ample-plan-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The image of a kernel that is named by its file or its tree.
pub(super) fn image(kernel: &Path) -> PathBuf {
    match kernel.is_dir() {
        true => kernel.join("arch/x86/boot/bzImage"),
        false => kernel.to_owned(),
    }
}

/// The System.map in a kernel's tree.
pub(super) fn symbols(kernel: &Path) -> Option<PathBuf> {
    Some(kernel.join("System.map")).filter(|path| path.is_file())
}

/// The words for the kernel's command line, and the initramfs of a plan if there is one.
pub(super) fn boot(
    plan: Option<&str>,
    kernel: &Path,
    append: &str,
    scratch: &Scratch,
) -> anyhow::Result<(String, Option<PathBuf>)> {
    let append = append.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some(plan) = plan else {
        return Ok((append, None));
    };
    let append = format!("ample.plan={plan} {append}");
    let initrd = initramfs(plan, kernel, &append, scratch)?;
    Ok((append, Some(initrd)))
}

/// Builds the initramfs that runs `plan` with `parameters`, words of the kernel's command line, on
/// the kernel of a tree; returns its path.
fn initramfs(
    plan: &str,
    kernel: &Path,
    parameters: &str,
    scratch: &Scratch,
) -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().context("finding the working directory")?;
    let root = here.ancestors().find(|path| path.join(BUILDER).is_file());
    let Some(root) = root else {
        bail!("--plan needs the source tree: there is no {BUILDER} here or above; give --initrd");
    };
    let plans = root.join("kernel/guest/plans");
    if !plans.join(format!("{plan}.sh")).is_file() {
        let names = std::fs::read_dir(&plans).into_iter().flatten().flatten();
        let name = |entry: std::fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_suffix(".sh").map(str::to_owned)
        };
        let mut known: Vec<String> = names.filter_map(name).collect();
        known.sort();
        bail!("there is no plan '{plan}'; known: {}", known.join(", "));
    }
    let out = scratch.0.join("initramfs.gz");
    let mut builder = Command::new(root.join(BUILDER));
    builder.arg(&out);
    // The plan's kernel module comes from the tree; without one the plan does without.
    if kernel.is_dir() {
        builder.arg(kernel.canonicalize()?).args([plan, parameters]);
    }
    let status = builder
        .status()
        .with_context(|| format!("running {BUILDER}"))?;
    if !status.success() {
        bail!("{BUILDER} ended with {status}; make kernel-setup installs what it needs");
    }
    Ok(out)
}
