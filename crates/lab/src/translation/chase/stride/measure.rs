// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measured side: rounds over all curves, the least of many short runs at each point.

use super::super::frames::Scatter;
use super::geometry::Strided;
use super::shapes::{StrideCurve, StrideParams, StridePoint, StrideShape};
use crate::stop;
use ample_host::{PageBacking, TestMemory};
use ample_kit::random::mix64;
use anyhow::{Context, Result, ensure};

impl StrideShape {
    /// # Errors
    /// If there is nothing to load, or a line twice.
    fn check(&self) -> Result<()> {
        let sizes = self.nodes.iter().chain(&self.stride_pages);
        let sound = sizes.clone().all(|&size| (1..=1 << 20).contains(&size));
        ensure!(
            sound && !self.nodes.is_empty() && !self.stride_pages.is_empty(),
            "curve {}: nodes and stride_pages must list numbers from 1 to 1048576",
            self.name
        );
        ensure!(
            self.lines.is_power_of_two() && self.lines <= 64,
            "curve {}: lines is {}, but must be a power of two up to 64",
            self.name,
            self.lines
        );
        Ok(())
    }

    fn empty(&self) -> StrideCurve {
        StrideCurve {
            shape: self.clone(),
            scatters: Vec::new(),
            points: Vec::new(),
            mean_error_percent: None,
        }
    }

    /// Stride and nodes of each chain.
    fn places(&self) -> impl Iterator<Item = (u64, u64)> {
        let strides = self.stride_pages.iter();
        strides.flat_map(|&stride| self.nodes.iter().map(move |&nodes| (stride, nodes)))
    }

    /// The curve of a machine that takes no time.
    #[cfg(test)]
    pub(super) fn made_up(&self) -> StrideCurve {
        StrideCurve {
            points: self.places().map(|place| point(place, vec![0.0])).collect(),
            ..self.empty()
        }
    }
}

/// Measures all curves, round by round.
///
/// # Errors
/// If a curve has nothing to load, or the kernel gives too little memory.
pub(super) fn curves(params: &StrideParams) -> Result<Vec<StrideCurve>> {
    params.curves.iter().try_for_each(StrideShape::check)?;
    ensure!(
        params.rounds > 0 && params.tries > 0 && params.hops > 0 && params.laps > 0,
        "rounds, tries, hops and laps must be at least 1"
    );
    let mut curves: Vec<StrideCurve> = params.curves.iter().map(StrideShape::empty).collect();
    let mut times: Vec<Vec<Vec<f64>>> = vec![Vec::new(); curves.len()];
    for round in 0..params.rounds {
        for (curve, times) in curves.iter_mut().zip(&mut times) {
            let mut at = 0;
            for stride_at in 0..curve.shape.stride_pages.len() {
                if stop::requested() {
                    return Ok(Vec::new());
                }
                for time in stride(params, curve, stride_at, round)? {
                    match times.get_mut(at) {
                        Some(rounds) => rounds.push(time),
                        None => times.push(vec![time]),
                    }
                    at += 1;
                }
            }
        }
    }
    for (curve, times) in curves.iter_mut().zip(times) {
        let points = curve.shape.places().zip(times);
        curve.points = points.map(|(place, times)| point(place, times)).collect();
    }
    Ok(curves)
}

fn point((stride_pages, nodes): (u64, u64), mut rounds: Vec<f64>) -> StridePoint {
    rounds.sort_by(f64::total_cmp);
    StridePoint {
        nodes,
        stride_pages,
        measured_ns: rounds[0],
        measured_median_ns: rounds[rounds.len() / 2],
        measured_max_ns: rounds[rounds.len() - 1],
        model_ns: None,
        error_percent: None,
    }
}

/// One round of one stride: the least of some runs for each number of nodes, ns a load.
fn stride(
    params: &StrideParams,
    curve: &mut StrideCurve,
    stride_at: usize,
    round: u32,
) -> Result<Vec<f64>> {
    let shape = &curve.shape;
    let stride_pages = shape.stride_pages[stride_at];
    let strided = |nodes| Strided {
        nodes,
        stride_pages,
        lines: shape.lines,
    };
    let most = shape.nodes.iter().copied().max().unwrap_or(1);
    let (bytes, places) = (strided(most).bytes(), strided(most).places());
    let mut memory = TestMemory::sparse(bytes.next_multiple_of(2 << 20), shape.backing, &places)
        .context("measuring this machine")?;
    let mut times = Vec::new();
    for &nodes in &shape.nodes {
        let chain = strided(nodes).chain(params.seed ^ mix64(u64::from(round) << 32 | nodes));
        memory.link(&chain);
        let lap = chain.len() as u64;
        let hops = params.hops.next_multiple_of(lap).max(2 * lap);
        let run = |_| {
            memory.ns_per_link(chain[0], 2 * lap);
            memory.ns_per_link(chain[0], hops)
        };
        times.push((0..params.tries).map(run).fold(f64::INFINITY, f64::min));
    }
    // All rounds find much the same memory: one tells where pages lie.
    if shape.backing == PageBacking::Small && round == 0 {
        let frames = memory.frames_at(&places);
        let sizes: Vec<u64> = shape.nodes.iter().map(|nodes| 4096 * nodes).collect();
        curve
            .scatters
            .push(frames.map(|frames| Scatter::of(&frames, &sizes)));
    }
    Ok(times)
}
