// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample agent`: scans one host of a fleet for as long as it runs.

mod clock;
mod contiguitas;
mod delivery;
mod round;

use self::clock::now;
use self::delivery::Delivery;
use self::round::{Agent, Counts};
use super::Verdict;
use super::exposition::Exposition;
use super::output::printed;
use super::watch::time;
use ample_fleet::agent::{Exporter, Schedule, Served, Spool, rest};
use ample_fleet::{LONGEST_TEXT_BYTES, Labels};
use ample_host::{Root, ScanOptions};
use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Scan this host again and again, for ample fleet and for a metrics collector.
///
/// Each scan becomes one small Parquet file in a spool of bounded size; a crash at any byte costs
/// at most the scan that was being written. Each host scans at a moment of its own within the
/// period, and waits longer where a scan took more than a hundredth of the period's processor
/// time. Nothing is served, and nothing leaves the spool, until it is asked for. Needs root or
/// CAP_SYS_ADMIN for the pages, and no other privilege; with CAP_BPF and CAP_PERFMON beside it, it
/// gives CAP_SYS_ADMIN up before the first scan.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct AgentArgs {
    /// Where scans wait; made if it does not exist. One agent has it at a time.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/ample/spool")]
    spool: PathBuf,
    /// The spool's size in MiB; scans of the future go first, then the oldest.
    #[arg(long, value_name = "MIB", default_value_t = 64,
          value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    spool_mib: u64,
    /// Period of the scans.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = period)]
    every: Duration,
    /// Scan once and end: for a timer.
    #[arg(long, conflicts_with_all = ["every", "listen"])]
    once: bool,
    /// Move the scans into this directory, which hosts may share, or to an object store:
    /// s3://BUCKET/KEY, with AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and so on in the
    /// environment. What cannot be moved waits in the spool, which the directory may not be or lie
    /// in.
    #[arg(long, value_name = "PLACE")]
    deliver: Option<PathBuf>,
    /// Serve OpenMetrics at http://ADDRESS/metrics; a port alone stands for 127.0.0.1.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Write the metrics to this file after each scan, in Prometheus's text format: for a collector
    /// of text files.
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
    /// What this host is for: web, cache, build.
    #[arg(long, value_name = "TEXT", value_parser = label)]
    role: Option<String>,
    /// Where this host stands.
    #[arg(long, value_name = "TEXT", value_parser = label)]
    rack: Option<String>,
    /// Scan a saved tree (DIR/proc/kpageflags, …) instead of the running system.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  ample agent --listen 9105                   scan each hour, metrics on loopback
  ample agent --deliver /mnt/scans --role web --rack r07
  ample agent --deliver s3://scans/2026
  ample agent --once --textfile /var/lib/prometheus/node-exporter/ample.prom
  ample fleet report /mnt/scans               the study of what was delivered

Exit codes: 0 after --once; 2 the pages cannot be read, the spool not be used, the address not be
listened at, or, after --once, a scan not be delivered.";

fn period(text: &str) -> Result<Duration, String> {
    let every = time(text)?;
    match every.as_secs() {
        0 => Err("give a period of a second or more".into()),
        _ => Ok(every),
    }
}

fn label(text: &str) -> Result<String, String> {
    match text.len() <= LONGEST_TEXT_BYTES {
        true => Ok(text.into()),
        false => Err(format!("give at most {LONGEST_TEXT_BYTES} bytes")),
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok((IpAddr::V4(Ipv4Addr::LOCALHOST), port).into()),
        Err(_) => text
            .parse()
            .map_err(|_| "give a port, or an address and a port, as 127.0.0.1:9105".into()),
    }
}

/// Runs the command.
///
/// # Errors
/// When the pages cannot be read at the start, the spool cannot be made or is in use, scans are to
/// be delivered into it, or the address is taken.
pub fn run(args: &AgentArgs) -> Result<Verdict> {
    // Whoever is in the way of a program loses; a refusal costs nobody anything.
    let _ = rustix::process::nice(19);
    bound_memory().context("cannot bound the memory of this process")?;
    #[cfg(feature = "bpf")]
    if args.root.is_none() && !args.once {
        narrow();
    }
    let mut agent = agent(args)?;
    // A place that cannot be is said before the first scan, and a collector finds somebody there
    // while the agent rests.
    if let Some(address) = args.listen {
        agent.publish()?;
        let exporter = Exporter::start(address, &agent.page)?;
        tell!("metrics at http://{}/metrics", exporter.address());
    }
    if let Some(left) = agent.left(now()?) {
        tell!(
            "the last scan used its share of a processor: the next one begins in {:.0} s",
            left.as_secs_f64().ceil()
        );
        wait(&mut agent)?;
    }
    let first = agent.round()?;
    if let Some(error) = first.failed {
        return Err(error);
    }
    warn(&first.delayed);
    if args.once {
        ensure!(first.delayed.is_empty(), "the scan was kept, and no more");
        return Ok(Verdict::Ok);
    }
    follow(&mut agent)
}

/// The agent that was asked for, before its first scan; one that goes on rests first where the last
/// scan, perhaps one that a crash ended, has used its share of a processor.
fn agent(args: &AgentArgs) -> Result<Agent> {
    let root = args.root.as_deref().map_or_else(Root::live, Root::offline);
    let host = root.read("proc/sys/kernel/hostname").unwrap_or_default();
    let spool = Spool::open(&args.spool, args.spool_mib << 20)?;
    let deliver = (args.deliver.as_deref()).map(Delivery::parse).transpose()?;
    if let Some(deliver) = &deliver {
        deliver.apart_from(&spool)?;
    }
    let (now, last) = (now()?, spool.last());
    let mut counts = Counts::default();
    if !args.once {
        counts.next_scan = Some(now + rest(now, last));
    }
    Ok(Agent {
        options: ScanOptions {
            root,
            ..ScanOptions::default()
        },
        labels: Labels {
            role: args.role.clone(),
            rack: args.rack.clone(),
        },
        spool,
        deliver,
        textfile: args.textfile.clone(),
        schedule: (!args.once).then(|| Schedule::new(args.every, host.trim())),
        last,
        told: HashSet::new(),
        page: Served::default(),
        scan: Exposition::default(),
        counts,
    })
}

/// Gives CAP_SYS_ADMIN up where scans go on without it. Where BPF cannot be used the first scan
/// says what is read instead, or why nothing can be.
#[cfg(feature = "bpf")]
fn narrow() {
    if let Ok(true) = ample_host::give_up_sys_admin() {
        tell!("CAP_SYS_ADMIN is given up: CAP_BPF and CAP_PERFMON are enough from now on");
    }
}

/// Memory that the process may write to: with the code that it uses that stays below 64 MB. A scan
/// needs a tenth, also of a terabyte; where it asks for more, the process ends, and the host goes
/// on.
const MEMORY_BYTES: u64 = 48 << 20;

fn bound_memory() -> Result<()> {
    let old = getrlimit(Resource::Data);
    let own = |old: Option<u64>| Some(old.map_or(MEMORY_BYTES, |old| old.min(MEMORY_BYTES)));
    let new = Rlimit {
        current: own(old.current),
        maximum: own(old.maximum),
    };
    Ok(setrlimit(Resource::Data, new)?)
}

/// Scans by the schedule until the process is ended. Every file is whole at any time, so a signal
/// needs no handler.
fn follow(agent: &mut Agent) -> Result<Verdict> {
    loop {
        wait(agent)?;
        let round = agent.round()?;
        warn(&round.failed);
        warn(&round.delayed);
    }
}

fn wait(agent: &mut Agent) -> Result<()> {
    clock::wait(agent, &now, &std::thread::sleep)
}

fn warn<'a>(errors: impl IntoIterator<Item = &'a anyhow::Error>) {
    for error in errors {
        tell!("ample: {}", printed(error));
    }
}
