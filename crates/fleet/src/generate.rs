// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fleets that do not exist, for trying a study at size: real scans, perturbed.

use crate::batch;
use crate::digest::RowDigest;
use crate::merged::Merged;
use crate::row::FleetRow;
use ample_kit::random::SplitMix64;
use anyhow::{Result, ensure};
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// What to make.
#[derive(Clone, Copy, Debug)]
pub struct Generated {
    /// How many machines.
    pub hosts: u64,
    /// How many scans of each machine.
    pub scans: u64,
    /// Seconds between two scans of a machine.
    pub every_seconds: i64,
    /// Time of the first scan, in seconds since 1970.
    pub from_seconds: i64,
    /// Seed of everything that is drawn.
    pub seed: u64,
}

/// Machines that one thread makes before it hands over its rows.
const HOSTS_A_TASK: u64 = 256;
const ROLES: [&str; 5] = ["web", "cache", "ads", "build", "storage"];
const KERNELS: [&str; 3] = ["6.1.0", "6.12.38", "6.18.2"];

impl Generated {
    /// Writes the fleet into files in `folder`: each machine is one of the `real` scans with its
    /// unmovable and free memory multiplied by factors that it draws once, and that wander from
    /// scan to scan. Same seed, same rows.
    ///
    /// # Errors
    /// When there is no real scan, or a file cannot be written.
    pub fn write(
        &self,
        real: &[Vec<FleetRow>],
        folder: &Path,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Vec<PathBuf>> {
        ensure!(!real.is_empty(), "no scan to begin with");
        let mut writer = Merged::new(folder);
        let starts: Vec<u64> = (0..self.hosts).step_by(HOSTS_A_TASK as usize).collect();
        let at_once = 2 * rayon::current_num_threads();
        for (round, tasks) in starts.chunks(at_once).enumerate() {
            let made = tasks.par_iter().map(|&first| {
                let hosts = first..(first + HOSTS_A_TASK).min(self.hosts);
                let rows: Vec<_> = hosts.flat_map(|host| self.host(real, host)).collect();
                batch::of_rows(&rows).map(|batch| (batch, RowDigest::of(&rows)))
            });
            for made in made.collect::<Vec<_>>() {
                let (batch, digest) = made?;
                writer.push(&batch, digest)?;
            }
            progress(((round + 1) * at_once).min(starts.len()), starts.len());
        }
        writer.finish()
    }

    /// All scans of one machine.
    fn host(&self, real: &[Vec<FleetRow>], host: u64) -> Vec<FleetRow> {
        let mut random = SplitMix64::scattered(self.seed.wrapping_add(host));
        let template = &real[random.below(real.len() as u64) as usize];
        let name = format!("host{host:06}");
        let role = ROLES[random.below(ROLES.len() as u64) as usize];
        let kernel = KERNELS[random.below(KERNELS.len() as u64) as usize];
        let rack = format!("rack{:04}", host / 40);
        let mut held = 0.25 + 3.0 * random.unit();
        let mut free = 0.2 + 1.6 * random.unit();
        let mut uptime = random.below(90 * 86_400) as i64;
        let mut rows = Vec::with_capacity(template.len() * self.scans as usize);
        for scan in 0..self.scans as i64 {
            held = (held * (0.95 + 0.1 * random.unit())).clamp(0.05, 12.0);
            free = (free * (0.9 + 0.2 * random.unit())).clamp(0.0, 3.0);
            uptime = if random.below(200) == 0 {
                60
            } else {
                uptime + self.every_seconds
            };
            let machine = template.iter().find(|row| row.free_bytes.is_some());
            let memory_bytes = machine.and_then(|row| row.memory_bytes);
            let free_bytes = machine.and_then(|row| scaled(row.free_bytes, free, memory_bytes));
            rows.extend(template.iter().map(|row| {
                let mut row = perturbed(row, held, free, [memory_bytes, free_bytes]);
                row.host = Some(name.clone());
                row.role = Some(role.into());
                row.rack = Some(rack.clone());
                row.kernel = Some(kernel.into());
                row.unix_time_seconds = Some(self.from_seconds + scan * self.every_seconds);
                row.uptime_seconds = Some(uptime);
                row
            }));
        }
        rows
    }
}

fn scaled(value: Option<i64>, factor: f64, most: Option<i64>) -> Option<i64> {
    let value = (value? as f64 * factor).round() as i64;
    Some(most.map_or(value, |most| value.min(most)))
}

/// The row with unmovable memory times `held` and free memory times `free`, within what can be on
/// a machine of so many bytes, so many of them free.
fn perturbed(row: &FleetRow, held: f64, free: f64, machine: [Option<i64>; 2]) -> FleetRow {
    let [whole_blocks, blocks_of_free] =
        machine.map(|bytes| bytes.zip(row.size_bytes).map(|(bytes, size)| bytes / size));
    let high = scaled(row.unmovable_blocks_high, held, row.blocks);
    let low = scaled(row.unmovable_blocks_low, held, high);
    let potential = |value: Option<i64>, before: Option<i64>, now: Option<i64>| {
        let most = (row.blocks? - now?).min(whole_blocks.unwrap_or(i64::MAX));
        Some((value? + before? - now?).clamp(0, most))
    };
    let potential_low = potential(row.potential_blocks_low, row.unmovable_blocks_high, high);
    let potential_high = potential(row.potential_blocks_high, row.unmovable_blocks_low, low);
    let most_free = potential_low.or(row.blocks);
    let most_free = [most_free, blocks_of_free].into_iter().flatten().min();
    FleetRow {
        free_bytes: scaled(row.free_bytes, free, row.memory_bytes),
        free_blocks: scaled(row.free_blocks, free, most_free),
        unmovable_blocks_low: low,
        unmovable_blocks_high: high,
        potential_blocks_low: potential_low,
        potential_blocks_high: potential_high.max(potential_low),
        source_pages: scaled(row.source_pages, held, None),
        source_blocks_2m: scaled(row.source_blocks_2m, held, None),
        ..row.clone()
    }
}
