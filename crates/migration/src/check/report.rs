// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model check as an experiment: all configurations of a suite, and all planted faults.

use super::config::CheckConfig;
use super::{Liveness, full, liveness, quick, safety, with_faults};
use serde::Serialize;

/// What to check.
#[derive(Clone, Debug)]
pub struct Params {
    /// The large suite instead of the one for every test run.
    pub full: bool,
    /// Only the configuration of this name.
    pub only: Option<String>,
    /// Threads for the safety check; the result does not depend on them.
    pub threads: usize,
    /// States up to which the graph is also checked for "everything can end".
    pub liveness_states: usize,
}

/// One configuration.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// Name of the configuration.
    pub name: &'static str,
    /// Distinct states.
    pub states: usize,
    /// Steps to the farthest state.
    pub depth: usize,
    /// Wall time of the safety check.
    pub seconds: f64,
    /// Whether every state can still reach the end; absent when the graph was too large.
    pub everything_can_end: Option<bool>,
    /// The broken property, if any.
    pub broken: Option<&'static str>,
    /// The events that lead there.
    pub events: Vec<String>,
}

/// One planted fault.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What was planted.
    pub fault: crate::protocol::PlantedFault,
    /// The design it was planted in.
    pub design: crate::protocol::Design,
    /// The property that noticed it; absent when none did.
    pub found_by: Option<&'static str>,
    /// The events that lead there, the shortest such run.
    pub events: Vec<String>,
}

/// Results of [`run`].
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Format of this object.
    pub schema: &'static str,
    /// Configurations without a fault.
    pub configurations: Vec<Checked>,
    /// Planted faults.
    pub faults: Vec<Finding>,
}

impl Report {
    /// Whether no property is broken and every planted fault was found.
    pub fn is_good(&self) -> bool {
        let holds = |c: &Checked| c.broken.is_none() && c.everything_can_end != Some(false);
        self.configurations.iter().all(holds) && self.faults.iter().all(|f| f.found_by.is_some())
    }
}

/// Name of the property of the whole graph.
const CAN_END: &str = "every access and every migration can end";
/// The two explorers were written apart.
const SAME_COUNT: &str = "both explorers count the same states";

fn check_one(config: &CheckConfig, params: &Params) -> Checked {
    let safety = safety(config, params.threads);
    let small = safety.states <= params.liveness_states;
    let liveness = small.then(|| liveness(config, params.liveness_states));
    let stuck = liveness.as_ref().and_then(|l| l.stuck.clone());
    let differ = |l: &Liveness| !l.truncated && l.states != safety.states;
    let (broken, events) = match (safety.broken, stuck) {
        (Some(found), _) => (Some(found.property), found.events),
        (None, Some(events)) => (Some(CAN_END), events),
        (None, None) if liveness.as_ref().is_some_and(differ) => (Some(SAME_COUNT), Vec::new()),
        (None, None) => (None, Vec::new()),
    };
    Checked {
        name: config.name,
        states: safety.states,
        depth: safety.depth,
        seconds: safety.seconds,
        everything_can_end: liveness.filter(|l| !l.truncated).map(|l| l.stuck.is_none()),
        broken,
        events,
    }
}

/// Checks a suite; `progress` is told the name of each configuration before it starts.
///
/// # Errors
/// When `only` names no configuration: the message lists the names.
pub fn run(params: &Params, mut progress: impl FnMut(&str)) -> Result<Report, String> {
    let mut suite = if params.full { full() } else { quick() };
    if let Some(only) = &params.only {
        let names: Vec<&str> = suite.iter().map(|c| c.name).collect();
        let names = names.join(", ");
        suite.retain(|c| c.name == only);
        if suite.is_empty() {
            return Err(format!("no configuration {only:?}; there are: {names}"));
        }
    }
    let configurations = suite
        .iter()
        .map(|config| {
            progress(config.name);
            check_one(config, params)
        })
        .collect();
    let faults = match params.only {
        Some(_) => Vec::new(),
        None => with_faults(),
    };
    let faults = faults
        .into_iter()
        .map(|(fault, config)| {
            progress(&format!("planted fault {fault:?}"));
            let checked = check_one(&config, params);
            Finding {
                fault,
                design: config.rules.design,
                found_by: checked.broken,
                events: checked.events,
            }
        })
        .collect();
    Ok(Report {
        schema: "ample.model-check/1",
        configurations,
        faults,
    })
}
