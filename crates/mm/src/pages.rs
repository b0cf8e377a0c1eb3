// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs for models that build on this one: the pages of a server at the end of a run, frame by
//! frame, and a run on a server that another workload has worn in.

use crate::config::Config;
use crate::run::{RunResult, run_on};
use crate::server::{Server, ServerError};
use crate::workload::{Driver, Workload};
use ample_pfn::{PageClass, PageSource};

/// Runs `workload` on a fresh server for `duration_s` simulated seconds and gives the use of each
/// frame, from the first frame of memory on.
///
/// # Errors
/// [`ServerError`] when the memory size is out of range.
pub fn pages_after(
    config: &Config,
    workload: &Workload,
    duration_s: f64,
) -> Result<Vec<PageClass>, ServerError> {
    let mut server = Server::new(config)?;
    let mut driver = Driver::new(&mut server, workload, config.event_ratio);
    for _ in 0..duration_s.max(0.0).round() as u64 {
        driver.second(&mut server);
    }
    let mut pages = Vec::with_capacity(server.frames() as usize);
    let Ok(()) = server.for_each_chunk(&mut |_, classes| pages.extend_from_slice(classes));
    Ok(pages)
}

/// Runs `workload` for `duration_s` simulated seconds; `before`: another workload has run on the
/// server for so many seconds, its processes have ended, what the kernel keeps of it stays.
///
/// # Errors
/// [`ServerError`] when the memory size is out of range.
pub fn run_after(
    config: &Config,
    before: Option<(&Workload, f64)>,
    workload: &Workload,
    duration_s: f64,
) -> Result<RunResult, ServerError> {
    let mut server = Server::new(config)?;
    if let Some((first, first_s)) = before {
        let mut driver = Driver::new(&mut server, first, config.event_ratio);
        for _ in 0..first_s.max(0.0).round() as u64 {
            driver.second(&mut server);
        }
        driver.stop_processes(&mut server);
    }
    let once = duration_s;
    Ok(run_on(server, config, workload, duration_s, once, &|_| {}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicyKind;

    #[test]
    fn what_a_fragmenter_pins_stays_after_it() {
        let config = Config {
            memory_bytes: 512 << 20,
            ..Config::new(PolicyKind::Linux)
        };
        let load = |name: &str| Workload::load(name).unwrap();
        let (web, fragmenter) = (load("web"), load("fragmenter-full"));
        let fresh = run_after(&config, None, &web, 60.0).unwrap();
        let worn = run_after(&config, Some((&fragmenter, 600.0)), &web, 60.0).unwrap();
        let unmovable = |run: &RunResult| run.samples[0].unmovable_2m_ratio;
        let (worn, fresh) = (unmovable(&worn), unmovable(&fresh));
        assert!(worn > 2.0 * fresh, "{worn} and {fresh}");
    }

    #[test]
    fn every_frame_is_there_and_the_same_seed_gives_the_same_pages() {
        let config = Config {
            memory_bytes: 256 << 20,
            ..Config::new(PolicyKind::Linux)
        };
        let workload = Workload::load("web").unwrap();
        let pages = pages_after(&config, &workload, 60.0).unwrap();
        assert_eq!(pages.len(), 65_536);
        assert!(pages.contains(&PageClass::Anon) && pages.contains(&PageClass::Network));
        assert_eq!(pages_after(&config, &workload, 60.0).unwrap(), pages);
    }
}
