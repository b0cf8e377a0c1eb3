// SPDX-License-Identifier: MIT OR Apache-2.0
//! What to boot, for every command that boots: kernels by their tree, the project's own plans by
//! their name.

use ample_kit::names::known;
use ample_pfn::parse_bytes;
use ample_system::guest::Guest;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

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

/// What to boot.
#[derive(Debug, clap::Args)]
pub(super) struct BootArgs {
    /// A bzImage, or the tree of Linux in which one was built.
    #[arg(long, value_name = "FILE|TREE")]
    kernel: PathBuf,
    /// What the kernel unpacks as its first file system.
    #[arg(long, value_name = "FILE", conflicts_with = "plan")]
    initrd: Option<PathBuf>,
    /// A plan of kernel/guest/plans, run by the project's own initramfs (in its source tree).
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
    /// Further words for the kernel's command line.
    #[arg(long, value_name = "WORDS", default_value = "")]
    append: String,
    /// Memory of the guest.
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = parse_bytes)]
    memory: u64,
    /// Virtual CPUs.
    #[arg(long, value_name = "N", default_value_t = 2)]
    cpus: usize,
    /// Most wall time, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    limit: u64,
    /// Further arguments of the emulator, after --.
    #[arg(last = true, value_name = "ARGUMENTS")]
    emulator: Vec<String>,
}

impl BootArgs {
    /// The guest; the initramfs of a plan is built in `scratch`.
    pub(super) fn guest(&self, scratch: &Scratch) -> anyhow::Result<Guest> {
        let mut append = self.append.split_whitespace().collect::<Vec<_>>().join(" ");
        let initrd = match &self.plan {
            Some(plan) => {
                append = format!("ample.plan={plan} {append}");
                Some(initramfs(plan, &self.kernel, &append, scratch)?)
            }
            None => self.initrd.clone(),
        };
        Ok(Guest {
            kernel: image(&self.kernel),
            initrd,
            symbols: None,
            append,
            memory_bytes: self.memory,
            cpus: self.cpus,
            verify: false,
            emulator: self.emulator.clone(),
        })
    }

    /// The System.map in a kernel's tree.
    pub(super) fn symbols(&self) -> Option<PathBuf> {
        Some(self.kernel.join("System.map")).filter(|path| path.is_file())
    }

    /// Most wall time.
    pub(super) fn limit(&self) -> Duration {
        Duration::from_secs(self.limit)
    }
}

/// The image of a kernel that is named by its file or its tree.
fn image(kernel: &Path) -> PathBuf {
    match kernel.is_dir() {
        true => kernel.join("arch/x86/boot/bzImage"),
        false => kernel.to_owned(),
    }
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
        let mut plans: Vec<String> = names.filter_map(name).collect();
        plans.sort();
        bail!("there is no plan '{plan}'; {}", known(plan, &plans));
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
