// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fleet that is drawn: servers whose size, load, uptime, kernel memory, restarts and deploys
//! come from distributions in a file, each simulated up to its uptime.
//!
//! What is drawn for a server depends on the seed and on its number alone. So the same fleet runs
//! under every policy, and any machine may simulate any part of it.

use super::{check_memory, side_by_side};
use crate::experiment::Progress;
use ample_kit::random::SplitMix64;
use ample_mm::{Config, PolicyKind, RunResult, Workload, run};
use anyhow::{Context, Result, ensure};
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
    /// Share of page-cache traffic that is simulated (see [`Config::event_ratio`]).
    #[serde(default = "one")]
    pub event_ratio: f64,
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

fn one() -> f64 {
    1.0
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
    fn draw(&self, random: &mut SplitMix64) -> f64 {
        // One number whatever the distribution, so that another field's does not move this one's.
        let unit = random.unit();
        match self {
            Drawn::Always(value) => *value,
            Drawn::Uniform([low, high]) => low + (high - low) * unit,
            Drawn::LogUniform([low, high]) => low * (high / low).powf(unit),
            Drawn::OneOf(values) => values[(unit * values.len() as f64) as usize],
        }
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

/// One server of the fleet, before it runs.
#[derive(Clone, Debug)]
pub struct DrawnServer {
    /// Its place in the fleet, from 0.
    pub number: u32,
    /// What it is for.
    pub role: String,
    /// Simulated hours.
    pub uptime_h: f64,
    config: Config,
    workload: Workload,
}

/// A fleet whose file has been checked.
pub struct DrawnFleet {
    spec: FleetSpec,
    workloads: Vec<Workload>,
}

impl DrawnFleet {
    /// Reads and checks the text of a fleet.
    ///
    /// # Errors
    /// Which line cannot be read, or which field is out of which range.
    pub fn parse(text: &str) -> Result<DrawnFleet> {
        let spec: FleetSpec = toml::from_str(text)?;
        DrawnFleet::new(spec)
    }

    fn new(spec: FleetSpec) -> Result<DrawnFleet> {
        ensure!(spec.servers > 0, "servers is 0; give at least one");
        ensure!(
            (1e-4..=1.0).contains(&spec.event_ratio),
            "event_ratio is {}, but must be from 0.0001 to 1",
            spec.event_ratio
        );
        ensure!(!spec.group.is_empty(), "no [[group]]; give at least one");
        let mut workloads = Vec::new();
        for group in &spec.group {
            let about = || format!("group {}", group.role);
            group.check().with_context(about)?;
            workloads.push(Workload::load(&group.workload).with_context(about)?);
        }
        let fleet = DrawnFleet { spec, workloads };
        // The largest that any of them may be, before the first one runs.
        for number in 0..fleet.spec.servers {
            let server = fleet.server(number);
            check_memory(server.config.memory_bytes)
                .with_context(|| format!("server {number}, role {}", server.role))?;
        }
        Ok(fleet)
    }

    /// Number of servers.
    pub fn servers(&self) -> u32 {
        self.spec.servers
    }

    /// The fleet under another policy: the same servers.
    pub fn under(self, policy: PolicyKind) -> DrawnFleet {
        DrawnFleet {
            spec: FleetSpec {
                policy,
                ..self.spec
            },
            ..self
        }
    }

    /// The memory manager that every server of the fleet runs.
    pub fn policy(&self) -> PolicyKind {
        self.spec.policy
    }

    /// Draws a server.
    ///
    /// # Panics
    /// When the fleet has no server of this number.
    pub fn server(&self, number: u32) -> DrawnServer {
        assert!(number < self.spec.servers, "no server {number}");
        let seed = self.spec.seed.wrapping_add(u64::from(number));
        let mut random = SplitMix64::scattered(seed);
        let all: f64 = self.spec.group.iter().map(|group| group.share).sum();
        let mut left = random.unit() * all;
        let chosen = self.spec.group.iter().position(|group| {
            left -= group.share;
            left < 0.0
        });
        let chosen = chosen.unwrap_or(self.spec.group.len() - 1);
        let group = &self.spec.group[chosen];
        let memory_gb = group.memory_gb.draw(&mut random);
        let uptime_h = group.uptime_h.draw(&mut random);
        let kernel_factor = group.kernel_factor.draw(&mut random);
        let restart_factor = group.restart_factor.draw(&mut random);
        let mut workload = self.workloads[chosen].clone();
        for source in &mut workload.kernel {
            source.level_ratio *= kernel_factor;
            source.boot_ratio *= kernel_factor;
            source.burst_ratio *= kernel_factor;
        }
        for process in &mut workload.process {
            process.restart_s *= restart_factor;
        }
        if let Some(every) = &group.deploy_every_h {
            workload.deploy.every_s = every.draw(&mut random) * 3600.0;
        }
        DrawnServer {
            number,
            role: group.role.clone(),
            uptime_h,
            config: Config {
                memory_bytes: ((memory_gb * 256.0).round() as u64) << 22,
                seed,
                event_ratio: self.spec.event_ratio,
                ..Config::new(self.spec.policy)
            },
            workload,
        }
    }
}

impl DrawnFleet {
    /// Runs some servers side by side and hands each to `done`. Says how many ran: fewer when an
    /// early end was asked for.
    ///
    /// # Errors
    /// The first of a run or of `done`.
    pub fn run(
        &self,
        servers: &[u32],
        progress: Progress<'_>,
        done: impl Fn(&DrawnServer, RunResult) -> Result<()> + Sync,
    ) -> Result<usize> {
        let one = |&number: &u32, told: &dyn Fn(f64)| {
            let server = self.server(number);
            done(&server, server.run(told)?)
        };
        let ran = side_by_side(servers, progress, one)?;
        Ok(ran.into_iter().flatten().count())
    }
}

impl FleetGroup {
    fn check(&self) -> Result<()> {
        ensure!(
            self.share > 0.0 && self.share.is_finite(),
            "share is {}; give a number above 0",
            self.share
        );
        self.memory_gb.check("memory_gb", 0.0625, 1024.0)?;
        self.uptime_h.check("uptime_h", 0.001, 2160.0)?;
        self.kernel_factor.check("kernel_factor", 0.0, 4.0)?;
        self.restart_factor.check("restart_factor", 0.001, 1000.0)?;
        if let Some(every) = &self.deploy_every_h {
            every.check("deploy_every_h", 0.0, 2160.0)?;
        }
        Ok(())
    }
}

impl DrawnServer {
    /// Simulates the server up to its uptime.
    ///
    /// # Errors
    /// When its memory is out of the model's range.
    pub fn run(&self, progress: &dyn Fn(f64)) -> Result<RunResult> {
        let seconds = self.uptime_h * 3600.0;
        Ok(run(
            &self.config,
            &self.workload,
            seconds,
            seconds,
            progress,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = r#"
servers = 200
seed = 3
[[group]]
role = "web"
share = 3
workload = "web"
memory_gb = { one_of = [0.25, 0.5] }
uptime_h = { log_uniform = [0.01, 0.05] }
kernel_factor = { uniform = [0.5, 1.5] }
[[group]]
role = "build"
share = 1
workload = "ci"
memory_gb = { always = 0.25 }
uptime_h = { always = 0.02 }
deploy_every_h = { always = 1 }
"#;

    #[test]
    fn servers_follow_their_distributions_whatever_the_policy() {
        let fleet = DrawnFleet::parse(SPEC).expect("valid");
        let servers: Vec<DrawnServer> = (0..200).map(|number| fleet.server(number)).collect();
        let web: Vec<_> = servers
            .iter()
            .filter(|server| server.role == "web")
            .collect();
        assert!((130..=170).contains(&web.len()), "{}", web.len());
        let large = web
            .iter()
            .filter(|s| s.config.memory_bytes == 512 << 20)
            .count();
        assert!((55..=95).contains(&large), "{large}");
        assert!(
            web.iter()
                .all(|server| (0.01..=0.05).contains(&server.uptime_h))
        );
        let own = |server: &DrawnServer| server.workload.kernel[0].level_ratio;
        assert!(web.iter().any(|server| own(server) != own(web[0])));
        let other = fleet.under(PolicyKind::Contiguitas);
        for server in &servers {
            let twin = other.server(server.number);
            assert_eq!(twin.workload, server.workload);
            assert_eq!(twin.uptime_h, server.uptime_h);
            assert_eq!(twin.config.seed, server.config.seed);
        }
        let run = servers[0].run(&|_| ()).expect("runs");
        assert_eq!(run.memory_bytes, servers[0].config.memory_bytes);
    }

    #[test]
    fn what_cannot_be_a_fleet_is_refused_by_field() {
        for (from, to, told) in [
            ("servers = 200", "servers = 0", "servers"),
            ("share = 3", "share = 0", "share"),
            ("workload = \"ci\"", "workload = \"nothing\"", "nothing"),
            ("[0.01, 0.05]", "[0.05, 0.01]", "lower end first"),
            ("[0.25, 0.5]", "[]", "one of nothing"),
            ("[0.5, 1.5]", "[0.5, 15]", "kernel_factor"),
            ("role = \"build\"", "role = \"build\"\nrank = 1", "rank"),
        ] {
            assert!(SPEC.contains(from), "{from}");
            let error = DrawnFleet::parse(&SPEC.replace(from, to)).err();
            let text = format!("{:#}", error.expect("refused"));
            assert!(text.contains(told), "{told}: {text}");
        }
    }
}
