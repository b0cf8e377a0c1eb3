// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model check as an experiment: all configurations of a suite, and all planted faults.

use super::config::CheckConfig;
use super::{Transition, full, liveness, quick, safety, with_faults};
use crate::protocol::{Design, FAULTS, PlantedFault};
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// What to check.
#[derive(Clone, Debug)]
pub struct Params {
    /// The large suite instead of the one for every test run.
    pub full: bool,
    /// Only the configuration of this name.
    pub only: Option<String>,
    /// Only the planted error of this name, and no configuration.
    pub fault: Option<String>,
    /// End at the first configuration that does not hold, and plant no errors.
    pub stop: bool,
    /// Only so many machines, the first ones of the suite.
    pub first: Option<usize>,
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
    /// Steps in which a slice sent a request on to another one; of this and the next four, what
    /// was explored within the limit on states.
    pub forwards: u64,
    /// Steps in which a line, or its ownership, went to another slice.
    pub cross_slice_copies: u64,
    /// Steps in which a core was refused a cacheable copy.
    pub nacks: u64,
    /// Distinct kinds of steps.
    pub transitions: usize,
    /// Of these, kinds that no machine of its design before it in the list takes.
    pub new_transitions: usize,
    /// Whether every state can still reach the end; absent when the graph was too large.
    pub everything_can_end: Option<bool>,
    /// The broken property, if any.
    pub broken: Option<&'static str>,
    /// The events that lead there.
    pub events: Vec<String>,
}

impl Checked {
    fn holds(&self) -> bool {
        self.broken.is_none() && self.everything_can_end != Some(false)
    }
}

/// One planted fault.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What was planted.
    pub fault: PlantedFault,
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
        self.configurations.iter().all(Checked::holds)
            && self.faults.iter().all(|f| f.found_by.is_some())
    }
}

/// Name of the property of the whole graph.
pub(super) const CAN_END: &str = "every access and every migration can end";
/// The two explorers were written apart.
const SAME_COUNT: &str = "both explorers count the same states";

/// Checks one machine; the steps that it takes are added to those that its design has `met` before.
fn check_one(config: &CheckConfig, params: &Params, met: &mut HashSet<Transition>) -> Checked {
    let safety = safety(config, params.threads);
    let liveness = liveness(config, params.liveness_states);
    let stuck = liveness.stuck.clone();
    let differ = !liveness.truncated && liveness.states != safety.states;
    let coverage = &liveness.coverage;
    let known = met.len();
    met.extend(coverage.transitions.iter().cloned());
    let (broken, events) = match (safety.broken, stuck) {
        (Some(found), _) => (Some(found.property), found.events),
        (None, Some(events)) => (Some(CAN_END), events),
        (None, None) if differ => (Some(SAME_COUNT), Vec::new()),
        (None, None) => (None, Vec::new()),
    };
    Checked {
        name: config.name,
        states: safety.states,
        depth: safety.depth,
        seconds: safety.seconds,
        forwards: coverage.forwards(),
        cross_slice_copies: coverage.cross_slice_copies(),
        nacks: coverage.nacks(),
        transitions: coverage.transitions.len(),
        new_transitions: met.len() - known,
        everything_can_end: (!liveness.truncated).then_some(liveness.stuck.is_none()),
        broken,
        events,
    }
}

/// Looks for a planted fault: in the states, and only if they all seem right in the whole graph.
fn find(fault: PlantedFault, config: &CheckConfig, params: &Params) -> Finding {
    // By one thread, whose first run that breaks a property is the shortest: the same every time.
    let broken = safety(config, 1).broken;
    let broken = broken.map(|found| (found.property, found.events));
    let stuck = || {
        liveness(config, params.liveness_states)
            .stuck
            .map(|events| (CAN_END, events))
    };
    let found = broken.or_else(stuck);
    Finding {
        fault,
        design: config.rules.design,
        found_by: found.as_ref().map(|(property, _)| *property),
        events: found.map(|(_, events)| events).unwrap_or_default(),
    }
}

/// The planted faults, or those of one name.
fn chosen_faults(name: Option<&str>) -> Result<Vec<(PlantedFault, CheckConfig)>, String> {
    let mut all = with_faults();
    let Some(name) = name else { return Ok(all) };
    let named = |fault: PlantedFault| format!("{fault:?}");
    all.retain(|(fault, _)| named(*fault) == name);
    if all.is_empty() {
        let names = FAULTS.map(named).join(", ");
        return Err(format!("no planted error {name:?}; there are: {names}"));
    }
    Ok(all)
}

/// Checks a suite; `progress` is told the name of each configuration before it starts.
///
/// # Errors
/// When `only` names no configuration, or `fault` no error: the message lists the names.
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
    if params.fault.is_some() {
        suite.clear();
    }
    suite.truncate(params.first.unwrap_or(suite.len()));
    let mut met: HashMap<Design, HashSet<Transition>> = HashMap::new();
    let mut configurations = Vec::new();
    for config in &suite {
        progress(config.name);
        configurations.push(check_one(
            config,
            params,
            met.entry(config.rules.design).or_default(),
        ));
        if params.stop && !configurations.last().is_some_and(Checked::holds) {
            break;
        }
    }
    let faults = match params.only.is_some() || params.stop {
        true => Vec::new(),
        false => chosen_faults(params.fault.as_deref())?,
    };
    let faults = faults
        .into_iter()
        .map(|(fault, config)| {
            progress(&format!("planted fault {fault:?}"));
            find(fault, &config, params)
        })
        .collect();
    Ok(Report {
        schema: "ample.model-check/1",
        configurations,
        faults,
    })
}
