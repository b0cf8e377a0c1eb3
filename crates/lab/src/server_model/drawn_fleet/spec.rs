// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of a fleet that is drawn: kinds of servers and distributions.

use ample_kit::random::SplitMix64;
use ample_mm::PolicyKind;
use anyhow::{Result, ensure};
use serde::Deserialize;

/// A fleet, as its file describes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetSpec {
    /// Number of servers.
    pub servers: u32,
    /// Seed of everything that is drawn.
    #[serde(default = "one_u64")]
    pub seed: u64,
    /// Memory manager of every server.
    #[serde(default = "linux")]
    pub policy: PolicyKind,
    /// Share of page-cache traffic that is simulated (see [`ample_mm::Config::event_ratio`]).
    #[serde(default = "super::super::one")]
    pub event_ratio: f64,
    /// Servers that share a history: all that is drawn for them but their uptime. A history runs
    /// once, up to the longest of these.
    #[serde(default = "one_u32")]
    pub looks: u32,
    /// Kinds of servers.
    pub group: Vec<FleetGroup>,
}

/// Servers of one kind.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetGroup {
    /// What they are for.
    pub role: String,
    /// Share of the fleet, relative to the other groups.
    pub share: f64,
    /// A shipped workload or the path of one.
    pub workload: String,
    /// Memory, GB; rounded to whole 4 MB.
    pub memory_gb: Drawn,
    /// Uptime when it is looked at, hours.
    pub uptime_h: Drawn,
    /// Factor of all kernel memory of the workload.
    #[serde(default = "always_one")]
    pub kernel_factor: Drawn,
    /// Factor of the time between restarts of each process.
    #[serde(default = "always_one")]
    pub restart_factor: Drawn,
    /// Cached files that are deleted ÷ files read into the cache. Where it is 1 or more the cache
    /// does not grow and memory stays free, as where containers are held to a limit. The workload's
    /// without it.
    #[serde(default)]
    pub cache_drop_ratio: Option<Drawn>,
    /// Page cache that the boot leaves behind ÷ memory: images that are unpacked,
    /// data that is copied. The workload's without it.
    #[serde(default)]
    pub cache_boot_ratio: Option<Drawn>,
    /// How many times higher and rarer bursts of kernel memory are than in the workload: the mean
    /// stays, the peak rises. The workload's without it.
    #[serde(default)]
    pub burst_factor: Option<Drawn>,
    /// Hours between deploys; 0: none. The workload's without it.
    #[serde(default)]
    pub deploy_every_h: Option<Drawn>,
}

/// How a quantity is spread over the servers of a group, and within which limits.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Drawn {
    /// The same value for every server.
    Always(f64),
    /// Evenly between two values.
    Uniform([f64; 2]),
    /// Evenly between the logarithms of two values.
    LogUniform([f64; 2]),
    /// One of these.
    OneOf(Vec<f64>),
}

fn one_u32() -> u32 {
    1
}

fn one_u64() -> u64 {
    1
}

fn linux() -> PolicyKind {
    PolicyKind::Linux
}

fn always_one() -> Drawn {
    Drawn::Always(1.0)
}

impl Drawn {
    pub(super) fn draw(&self, random: &mut SplitMix64) -> f64 {
        // One number whatever the distribution, so that another field's does not move this one's.
        let unit = random.unit();
        match self {
            Drawn::Always(value) => *value,
            Drawn::Uniform([low, high]) => low + (high - low) * unit,
            Drawn::LogUniform([low, high]) => low * (high / low).powf(unit),
            Drawn::OneOf(values) => values[(unit * values.len() as f64) as usize],
        }
    }

    /// All values times `factor`.
    pub(super) fn scale(&mut self, factor: f64) {
        let values = match self {
            Drawn::Always(value) => std::slice::from_mut(value),
            Drawn::Uniform(ends) | Drawn::LogUniform(ends) => ends,
            Drawn::OneOf(values) => values,
        };
        values.iter_mut().for_each(|value| *value *= factor);
    }

    /// Refuses values outside a range, and distributions of nothing.
    fn check(&self, field: &str, least: f64, most: f64) -> Result<()> {
        let values = match self {
            Drawn::Always(value) => std::slice::from_ref(value),
            Drawn::Uniform(ends) | Drawn::LogUniform(ends) => {
                ensure!(
                    ends[0] <= ends[1],
                    "{field} goes from {ends:?}: name the lower end first"
                );
                ends
            }
            Drawn::OneOf(values) => values,
        };
        ensure!(!values.is_empty(), "{field} is one of nothing");
        for value in values {
            ensure!(
                (least..=most).contains(value),
                "{field} may be {value}, but must be from {least} to {most}"
            );
        }
        ensure!(
            !matches!(self, Drawn::LogUniform(ends) if ends[0] <= 0.0),
            "{field} has no logarithm at 0"
        );
        Ok(())
    }
}

impl FleetGroup {
    /// Refuses a share or a distribution that means nothing.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(
            self.share > 0.0 && self.share.is_finite(),
            "share is {}; give a number above 0",
            self.share
        );
        self.memory_gb.check("memory_gb", 0.0625, 1024.0)?;
        self.uptime_h.check("uptime_h", 0.001, 2160.0)?;
        self.kernel_factor.check("kernel_factor", 0.0, 4.0)?;
        self.restart_factor.check("restart_factor", 0.001, 1000.0)?;
        if let Some(ratio) = &self.cache_drop_ratio {
            ratio.check("cache_drop_ratio", 0.0, 100.0)?;
        }
        if let Some(ratio) = &self.cache_boot_ratio {
            ratio.check("cache_boot_ratio", 0.0, 1.0)?;
        }
        if let Some(factor) = &self.burst_factor {
            factor.check("burst_factor", 0.01, 1000.0)?;
        }
        if let Some(every) = &self.deploy_every_h {
            every.check("deploy_every_h", 0.0, 2160.0)?;
        }
        Ok(())
    }
}
