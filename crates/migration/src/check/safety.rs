// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checker stateright explores all states and finds a shortest way to one that breaks a
//! property.

use super::config::CheckConfig;
use super::events::{Action, actions};
use super::properties::CHECKS;
use super::state::State;
use super::step::apply;
use stateright::{Checker, HasDiscoveries, Model, Path, Property};
use std::time::Instant;

impl Model for CheckConfig {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::initial(self)]
    }

    fn actions(&self, state: &State, all: &mut Vec<Action>) {
        actions(self, state, all);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        apply(self, last, &action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let property = |&(name, holds)| Property::always(name, holds);
        CHECKS.iter().map(property).collect()
    }
}

/// A shortest run that breaks a property.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// Name of the property that broke.
    pub property: &'static str,
    /// The events, in order.
    pub events: Vec<String>,
    /// What the last step reported, if anything.
    pub error: Option<&'static str>,
}

/// Result of the exploration.
#[derive(Debug)]
pub struct Safety {
    /// Distinct states.
    pub states: usize,
    /// Length of the longest shortest path.
    pub depth: usize,
    /// Wall time.
    pub seconds: f64,
    /// The first broken property found, if any.
    pub broken: Option<Counterexample>,
}

/// Explores everything, or until a property is broken.
pub fn check(config: &CheckConfig, threads: usize) -> Safety {
    let started = Instant::now();
    let checker = config
        .clone()
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::Any)
        .spawn_bfs()
        .join();
    let counterexample = |(property, path): (&'static str, Path<State, Action>)| {
        let error = path.last_state().error;
        let actions = path.into_actions();
        Counterexample {
            property,
            events: actions.iter().map(|a| format!("{a:?}")).collect(),
            error,
        }
    };
    let found = checker.discoveries().into_iter().map(counterexample);
    // A step may break several: the shortest run, and the first property of the list.
    let place = |name| CHECKS.iter().position(|(property, _)| *property == name);
    let broken = found.min_by_key(|c| (c.events.len(), place(c.property)));
    Safety {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        seconds: started.elapsed().as_secs_f64(),
        broken,
    }
}
