// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fleet that is drawn: servers whose size, load, uptime, kernel memory, restarts and deploys
//! come from distributions in a file, each simulated up to its uptime.
//!
//! What is drawn for a server depends on the seed and on its number alone. So the same fleet runs
//! under every policy, and any machine may simulate any part of it.
//!
//! Several servers may be looks at one history, each after an uptime of its own
//! ([`FleetSpec::looks`]): every one of them is what it would be if it ran alone, and only their
//! independence is lost.

use super::{check_memory, side_by_side};
use crate::experiment::Progress;
use ample_fleet::{FleetRow, rows_of};
use ample_kit::files::read_text;
use ample_kit::random::SplitMix64;
use ample_mm::{Config, PolicyKind, Workload, looks};
use ample_pfn::GroupMetrics;
use anyhow::{Context, Result, bail, ensure};
use std::borrow::Cow;
use std::path::Path;

mod spec;

pub use spec::{Drawn, FleetGroup, FleetSpec};

/// A larger fleet takes centuries of processor time: its file has a mistake.
const MOST_SERVERS: u32 = 1_000_000;
/// Most servers of one history: more of them would tell little.
const MOST_LOOKS: u32 = 64;
/// Largest file of a fleet.
const MOST_SPEC_BYTES: u64 = 1 << 20;
/// The shipped fleets: name and text.
const SHIPPED: [(&str, &str); 2] = [
    (
        "calibrated",
        include_str!("../../../../../experiments/fleets/calibrated.toml"),
    ),
    (
        "mixed",
        include_str!("../../../../../experiments/fleets/mixed.toml"),
    ),
];
/// Time of every scan of a simulated fleet, in seconds since 1970: 2026-11-01.
pub const SIMULATED_AT: i64 = 1_793_491_200;

/// One server of the fleet, before it runs.
#[derive(Clone, Debug)]
pub struct DrawnServer {
    /// Its place in the fleet, from 0.
    pub number: u32,
    /// The history that it is a look at, from 0.
    pub history: u32,
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

/// The text of a shipped fleet by its name, or of a file.
///
/// # Errors
/// When there is no such name, or the file cannot be read.
pub fn fleet_text(name_or_path: &str) -> Result<Cow<'static, str>> {
    if let Some((_, text)) = SHIPPED.iter().find(|(name, _)| *name == name_or_path) {
        return Ok(Cow::Borrowed(text));
    }
    if !name_or_path.contains(['/', '.']) && !Path::new(name_or_path).exists() {
        let known = SHIPPED.map(|(name, _)| name).join(", ");
        bail!("no fleet {name_or_path:?}: shipped are {known}; or give the path of a .toml file");
    }
    let text = read_text(Path::new(name_or_path), MOST_SPEC_BYTES);
    Ok(Cow::Owned(text.with_context(|| name_or_path.to_string())?))
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
            spec.servers <= MOST_SERVERS,
            "servers is {}; give at most {MOST_SERVERS}",
            spec.servers
        );
        ensure!(
            (1e-4..=1.0).contains(&spec.event_ratio),
            "event_ratio is {}, but must be from 0.0001 to 1",
            spec.event_ratio
        );
        ensure!(
            (1..=MOST_LOOKS).contains(&spec.looks),
            "looks is {}, but must be from 1 to {MOST_LOOKS}",
            spec.looks
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

    /// The fleet with servers of another size.
    ///
    /// # Errors
    /// When a server would be smaller or larger than the model goes.
    pub fn scaled(mut self, memory_ratio: f64) -> Result<DrawnFleet> {
        for group in &mut self.spec.group {
            group.memory_gb.scale(memory_ratio);
        }
        DrawnFleet::new(self.spec)
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
        let history = number / self.spec.looks;
        let seed = self.spec.seed.wrapping_add(u64::from(history));
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
        let mut uptime_h = group.uptime_h.draw(&mut random);
        let kernel_factor = group.kernel_factor.draw(&mut random);
        let restart_factor = group.restart_factor.draw(&mut random);
        let mut workload = self.workloads[chosen]
            .clone()
            .with_kernel(kernel_factor, 1.0);
        for process in &mut workload.process {
            process.restart_s *= restart_factor;
        }
        if let Some(ratio) = &group.cache_drop_ratio {
            let cache = &mut workload.cache;
            let read_per_hour = cache.read_per_hour * (1.0 - cache.reuse_ratio);
            cache.drop_per_hour = read_per_hour * ratio.draw(&mut random);
        }
        if let Some(every) = &group.deploy_every_h {
            workload.deploy.every_s = every.draw(&mut random) * 3600.0;
        }
        if let Some(ratio) = &group.cache_boot_ratio {
            workload.cache.boot_ratio = ratio.draw(&mut random);
        }
        if let Some(factor) = &group.burst_factor {
            workload = workload.with_kernel(1.0, factor.draw(&mut random));
        }
        for _ in 0..number % self.spec.looks {
            uptime_h = group.uptime_h.draw(&mut random);
        }
        DrawnServer {
            number,
            history,
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
    /// Runs some servers side by side, hands each to `done` with what was found, and gives what
    /// `done` made of them, in the order of `servers`: of fewer when an early end was asked for.
    ///
    /// # Errors
    /// The first of a run or of `done`.
    pub fn run<R: Send>(
        &self,
        servers: &[u32],
        progress: Progress<'_>,
        done: impl Fn(&DrawnServer, &GroupMetrics) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let drawn: Vec<DrawnServer> = servers.iter().map(|&n| self.server(n)).collect();
        let histories: Vec<&[DrawnServer]> =
            drawn.chunk_by(|a, b| a.history == b.history).collect();
        let one = |history: &&[DrawnServer], told: &dyn Fn(f64)| {
            let first = &history[0];
            let at_s: Vec<u64> = history.iter().map(DrawnServer::uptime_s).collect();
            let found = looks(&first.config, &first.workload, &at_s, told)?;
            let servers = history.iter().zip(&found);
            servers
                .map(|(server, metrics)| done(server, metrics))
                .collect::<Result<Vec<R>>>()
        };
        let ran = side_by_side(&histories, progress, one)?;
        Ok(ran.into_iter().flatten().flatten().collect())
    }
}

impl DrawnServer {
    /// Simulated seconds.
    pub fn uptime_s(&self) -> u64 {
        (self.uptime_h * 3600.0).round() as u64
    }

    /// Its scan as rows of the table of a fleet. Names and times tell that it is simulated.
    pub fn rows(&self, found: &GroupMetrics) -> Vec<FleetRow> {
        let about = FleetRow {
            host: Some(format!("simulated{:06}", self.number)),
            kernel: Some(format!("6.12 (model, {})", self.config.policy.kind.name())),
            role: Some(self.role.clone()),
            reader: Some("model".into()),
            unix_time_seconds: Some(SIMULATED_AT),
            uptime_seconds: Some(self.uptime_s() as i64),
            ..FleetRow::default()
        };
        rows_of(&about, found)
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
cache_boot_ratio = { uniform = [0.2, 0.4] }
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
        let builds = servers.iter().filter(|server| server.role == "build");
        let mut at_boot = builds.map(|server| server.workload.cache.boot_ratio);
        assert!(at_boot.all(|ratio| (0.2..=0.4).contains(&ratio)));
        let own = |server: &DrawnServer| server.workload.kernel[0].level_ratio;
        assert!(web.iter().any(|server| own(server) != own(web[0])));
        let other = fleet.under(PolicyKind::Contiguitas);
        for server in &servers {
            let twin = other.server(server.number);
            assert_eq!(twin.workload, server.workload);
            assert_eq!(twin.uptime_h, server.uptime_h);
            assert_eq!(twin.config.seed, server.config.seed);
        }
    }

    /// Every server of a history has the digits of a run that nothing looked at before.
    #[test]
    fn a_look_at_a_history_is_a_server_that_ran_alone() {
        for seed in 1..=5 {
            let text = SPEC.replace("seed = 3", &format!("seed = {seed}\nlooks = 4"));
            let fleet = DrawnFleet::parse(&text).expect("valid");
            let servers: Vec<u32> = (0..8).collect();
            let scan = |server: &DrawnServer, metrics: &GroupMetrics| Ok(server.rows(metrics));
            let found = fleet.run(&servers, &|_| (), scan).expect("runs");
            assert_eq!(found.len(), 8);
            for (number, rows) in servers.into_iter().zip(found) {
                let server = fleet.server(number);
                assert_eq!(server.history, number / 4);
                let seconds = server.uptime_s() as f64;
                let run = ample_mm::run(&server.config, &server.workload, seconds, 7.0, &|_| ());
                let alone = server.rows(&run.expect("runs").metrics.total);
                assert_eq!(rows, alone, "seed {seed}, server {number}");
            }
        }
    }

    /// The mean uptime of many looks is that of the distribution: (b - a) / ln(b / a).
    #[test]
    fn looks_have_the_uptimes_of_the_distribution() {
        let text = SPEC.replace("servers = 200", "servers = 20000\nlooks = 8");
        let fleet = DrawnFleet::parse(&text).expect("valid");
        let servers = (0..20_000).map(|number| fleet.server(number));
        let web: Vec<f64> = servers
            .filter(|s| s.role == "web")
            .map(|s| s.uptime_h)
            .collect();
        let mean = web.iter().sum::<f64>() / web.len() as f64;
        let wanted = (0.05 - 0.01) / (0.05f64 / 0.01).ln();
        assert!(
            (mean / wanted - 1.0).abs() < 0.02,
            "{mean}, wanted {wanted}"
        );
        assert_eq!(fleet.server(9).workload, fleet.server(15).workload);
        assert_ne!(fleet.server(9).uptime_h, fleet.server(15).uptime_h);
    }

    #[test]
    fn every_file_of_a_fleet_is_shipped() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/fleets");
        let files = std::fs::read_dir(folder).expect("shipped");
        let mut names: Vec<String> = files
            .map(|file| {
                file.expect("listed")
                    .file_name()
                    .into_string()
                    .expect("ASCII")
            })
            .collect();
        names.sort();
        assert_eq!(names, SHIPPED.map(|(name, _)| format!("{name}.toml")));
        for (name, text) in SHIPPED {
            assert_eq!(fleet_text(name).expect("shipped"), text);
            let fleet = DrawnFleet::parse(text).expect("a fleet");
            assert!(fleet.servers() >= 200, "{name}");
            let path = format!("{folder}/{name}.toml");
            assert_eq!(fleet_text(&path).expect("a file"), text);
        }
        let told = fleet_text("calibrate").expect_err("no name").to_string();
        assert!(told.contains("calibrated, mixed"), "{told}");
    }

    #[test]
    fn a_scaled_fleet_differs_in_size_alone() {
        let fleet = DrawnFleet::parse(SPEC).expect("valid");
        let half = DrawnFleet::parse(SPEC)
            .expect("valid")
            .scaled(0.5)
            .expect("valid");
        for number in 0..20 {
            let (server, small) = (fleet.server(number), half.server(number));
            assert_eq!(small.config.memory_bytes * 2, server.config.memory_bytes);
            assert_eq!(small.workload, server.workload);
            assert_eq!(small.uptime_h, server.uptime_h);
        }
        assert!(half.scaled(0.01).is_err());
    }

    #[test]
    fn what_cannot_be_a_fleet_is_refused_by_field() {
        for (from, to, told) in [
            ("servers = 200", "servers = 0", "servers"),
            ("servers = 200", "servers = 4000000000", "at most 1000000"),
            ("share = 3", "share = 0", "share"),
            ("seed = 3", "looks = 0", "looks"),
            ("workload = \"ci\"", "workload = \"nothing\"", "nothing"),
            ("[0.01, 0.05]", "[0.05, 0.01]", "lower end first"),
            ("[0.25, 0.5]", "[]", "one of nothing"),
            ("[0.5, 1.5]", "[0.5, 15]", "kernel_factor"),
            ("role = \"build\"", "role = \"build\"\nrank = 1", "rank"),
            ("[0.2, 0.4]", "[0.2, 1.4]", "cache_boot_ratio"),
        ] {
            assert!(SPEC.contains(from), "{from}");
            let error = DrawnFleet::parse(&SPEC.replace(from, to)).err();
            let text = format!("{:#}", error.expect("refused"));
            assert!(text.contains(told), "{told}: {text}");
        }
    }
}
