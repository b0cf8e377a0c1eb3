// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running jobs: those that can, at the same time, until all are done or an end was asked for.

use super::estimate::{Estimate, Rest};
use super::job::Job;
use super::schedule::{Budget, Item, next, too_large};
use super::store::{Key, Store, Stored};
use crate::experiment::Finished;
use anyhow::{Context, Result, anyhow};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How often a waiting coordinator looks at the stop flag and tells the progress.
const TICK: Duration = Duration::from_millis(100);

/// How to run.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Threads and memory for all jobs together.
    pub budget: Budget,
    /// Hash of the program: results of another program are not taken.
    pub program: Key,
    /// Run what is in the cache again.
    pub fresh: bool,
}

/// How a job ended.
#[derive(Debug)]
pub enum Ended {
    /// With a result, which is partial when an end was asked for.
    Result {
        /// In every form that the report needs.
        finished: Box<Finished>,
        /// It was in the cache.
        cached: bool,
        /// Wall time of the run that made it.
        seconds: f64,
    },
    /// It or something it depends on failed.
    Failed(String),
    /// This machine lacks what it needs.
    Missing(Vec<String>),
    /// The run ended before its turn.
    Interrupted,
}

/// A job after the run.
#[derive(Debug)]
pub struct Done {
    /// Experiment that it ran.
    pub id: String,
    /// How it ended.
    pub ended: Ended,
}

impl Done {
    /// Its whole or partial result.
    pub fn finished(&self) -> Option<&Finished> {
        match &self.ended {
            Ended::Result { finished, .. } => Some(finished),
            _ => None,
        }
    }
}

/// Is told what happens, from the thread that called [`run`].
pub trait Watcher {
    /// A job ended; so many of so many are done.
    fn ended(&self, _done: &Done, _count: usize, _of: usize) {}
    /// Now and then: the jobs that run with the share done of each, and how long the rest takes.
    fn tick(&self, _running: &[(&str, f64)], _left: Duration) {}
}

/// Runs jobs; their results in the order of the jobs.
///
/// # Errors
/// When a job is named twice, depends on one that is not there or on itself in a circle, or a
/// result cannot be stored: then the jobs that run are asked to end.
pub fn run(
    jobs: &[Job<'_>],
    store: &Store,
    limits: &Limits,
    watcher: &dyn Watcher,
) -> Result<Vec<Done>> {
    let keys = keys(jobs, &limits.program)?;
    let mut coordinator = Coordinator {
        jobs,
        keys,
        store,
        limits,
        watcher,
        waiting: (0..jobs.len()).collect(),
        running: Vec::new(),
        done: jobs.iter().map(|_| None).collect(),
        estimate: Estimate::default(),
        broken: None,
    };
    let shares: Vec<AtomicU64> = jobs.iter().map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        loop {
            while let Some(index) = coordinator.next() {
                let threads = limits.budget.threads_of(jobs[index].cost);
                let (job, share, sender) = (&jobs[index], &shares[index], sender.clone());
                scope.spawn(move || run_one(job, index, threads, share, &sender));
            }
            if coordinator.running.is_empty() {
                break;
            }
            match receiver.recv_timeout(TICK) {
                Ok((index, result)) => coordinator.ended(index, result),
                Err(RecvTimeoutError::Timeout) => coordinator.tick(&shares),
                Err(RecvTimeoutError::Disconnected) => unreachable!("a sender is held here"),
            }
        }
    });
    coordinator.finish()
}

/// The key of each job, which holds those of what it depends on.
fn keys(jobs: &[Job<'_>], program: &Key) -> Result<Vec<Key>> {
    let mut known: BTreeMap<&str, Key> = BTreeMap::new();
    for (at, job) in jobs.iter().enumerate() {
        let twice = jobs[..at].iter().any(|other| other.id() == job.id());
        anyhow::ensure!(!twice, "experiment {} is listed twice", job.id());
        for needed in &job.about.depends_on {
            let there = jobs.iter().any(|other| other.id() == needed);
            anyhow::ensure!(
                there,
                "{} depends on {needed}, which does not run",
                job.id()
            );
        }
    }
    while known.len() < jobs.len() {
        let before = known.len();
        for job in jobs {
            let needed = job.about.depends_on.iter();
            let needed: Option<Vec<&Key>> = needed.map(|id| known.get(id.as_str())).collect();
            let Some(needed) = needed.filter(|_| !known.contains_key(job.id())) else {
                continue;
            };
            let parameters = job.parameters.to_string();
            let mut parts = vec![program.as_str(), job.id(), &parameters];
            parts.extend(needed.iter().map(|key| key.as_str()));
            let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
            let key = Key::of(&parts);
            known.insert(job.id(), key);
        }
        anyhow::ensure!(
            known.len() > before,
            "experiments depend on each other in a circle"
        );
    }
    Ok(jobs.iter().map(|job| known[job.id()].clone()).collect())
}

type Outcome = (Result<Finished>, f64);

fn run_one(
    job: &Job<'_>,
    index: usize,
    threads: usize,
    share: &AtomicU64,
    sender: &Sender<(usize, Outcome)>,
) {
    let started = Instant::now();
    let told = |done: f64| share.store(done.to_bits(), Ordering::Relaxed);
    let in_pool = || -> Result<Finished> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().context("cannot start threads")?;
        pool.install(|| (job.run)(&told))
    };
    let result = catch_unwind(AssertUnwindSafe(in_pool));
    let result = result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        Err(anyhow!("it panicked: {}", text.unwrap_or_default()))
    });
    // The receiver is gone only when the coordinator panicked.
    let _ = sender.send((index, (result, started.elapsed().as_secs_f64())));
}

struct Running {
    item: Item,
    since: Instant,
}

struct Coordinator<'a> {
    jobs: &'a [Job<'a>],
    keys: Vec<Key>,
    store: &'a Store,
    limits: &'a Limits,
    watcher: &'a dyn Watcher,
    waiting: Vec<usize>,
    running: Vec<Running>,
    done: Vec<Option<Done>>,
    estimate: Estimate,
    /// The first result that could not be stored.
    broken: Option<anyhow::Error>,
}

impl Coordinator<'_> {
    /// The next job to start; those that need no run end here.
    fn next(&mut self) -> Option<usize> {
        while self.broken.is_none() && !crate::stop::requested() {
            let ready = self.ready();
            if let Some((index, ended)) = ready.iter().find_map(|&at| Some((at, self.at_once(at)?)))
            {
                self.end(index, ended);
                continue;
            }
            let items: Vec<Item> = ready.iter().map(|&index| self.item(index)).collect();
            let running: Vec<Item> = self.running.iter().map(|running| running.item).collect();
            let index = next(&self.limits.budget, &running, &items)?;
            self.waiting.retain(|&waiting| waiting != index);
            self.running.push(Running {
                item: self.item(index),
                since: Instant::now(),
            });
            return Some(index);
        }
        None
    }

    fn item(&self, index: usize) -> Item {
        Item {
            index,
            cost: self.jobs[index].cost,
            measures: self.jobs[index].about.measured,
        }
    }

    fn outcome_of(&self, id: &str) -> Option<&Done> {
        self.done.iter().flatten().find(|done| done.id == id)
    }

    /// Waiting jobs whose dependencies have ended.
    fn ready(&self) -> Vec<usize> {
        let ended = |index: &usize| {
            let needed = &self.jobs[*index].about.depends_on;
            needed.iter().all(|id| self.outcome_of(id).is_some())
        };
        self.waiting.iter().copied().filter(ended).collect()
    }

    /// How a ready job ends without a run: from the cache, or because it cannot run.
    fn at_once(&self, index: usize) -> Option<Ended> {
        let job = &self.jobs[index];
        let without = job.about.depends_on.iter().find(|id| {
            self.outcome_of(id)
                .is_none_or(|done| done.finished().is_none())
        });
        if let Some(without) = without {
            return Some(Ended::Failed(format!(
                "it reads {without}, which has no result"
            )));
        }
        if !self.limits.fresh
            && let Some(stored) = self.store.load(job.id(), &self.keys[index])
            && let Ok(finished) = (job.read_back)(&stored.json)
        {
            return Some(Ended::Result {
                finished: Box::new(finished),
                cached: true,
                seconds: stored.seconds,
            });
        }
        if !job.missing.is_empty() {
            return Some(Ended::Missing(job.missing.clone()));
        }
        too_large(&self.limits.budget, job.cost).then(|| {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            Ended::Failed(format!(
                "it needs {:.1} GB of memory and may use {:.1} GB; --memory changes that",
                gib(job.cost.memory_bytes),
                gib(self.limits.budget.memory_bytes)
            ))
        })
    }

    /// A job that ran has ended.
    fn ended(&mut self, index: usize, (result, seconds): Outcome) {
        self.running.retain(|running| running.item.index != index);
        let job = &self.jobs[index];
        let ended = match result {
            Err(error) => Ended::Failed(format!("{error:#}")),
            Ok(finished) => {
                if !finished.partial {
                    self.estimate.finished(job.cost.seconds, seconds);
                    let json = finished.json.clone();
                    let (id, key, parameters) = (job.id(), &self.keys[index], &job.parameters);
                    let stored = Stored { json, seconds };
                    if let Err(error) = self.store.save(id, key, parameters, &stored) {
                        // Nothing more can be kept: end the others.
                        crate::stop::flag().store(true, Ordering::Relaxed);
                        self.broken.get_or_insert(error);
                    }
                }
                Ended::Result {
                    finished: Box::new(finished),
                    cached: false,
                    seconds,
                }
            }
        };
        self.end(index, ended);
    }

    fn end(&mut self, index: usize, ended: Ended) {
        debug_assert!(self.done[index].is_none(), "a job ends once");
        self.waiting.retain(|&waiting| waiting != index);
        let id = self.jobs[index].id().to_string();
        let done = self.done[index].insert(Done { id, ended });
        let done: &Done = done;
        let count = self.jobs.len() - self.waiting.len() - self.running.len();
        self.watcher.ended(done, count, self.jobs.len());
    }

    fn tick(&self, shares: &[AtomicU64]) {
        let share = |index: usize| f64::from_bits(shares[index].load(Ordering::Relaxed));
        let rest = |index: usize, running| Rest {
            declared_s: self.jobs[index].cost.seconds,
            threads: self.limits.budget.threads_of(self.jobs[index].cost),
            running,
        };
        let running = self.running.iter().map(|running| {
            let index = running.item.index;
            rest(
                index,
                Some((running.since.elapsed().as_secs_f64(), share(index))),
            )
        });
        let waiting = self.waiting.iter().map(|&index| rest(index, None));
        let all: Vec<Rest> = running.chain(waiting).collect();
        let left = self.estimate.left(&all, self.limits.budget.threads);
        let names = self.running.iter().map(|running| {
            let index = running.item.index;
            (self.jobs[index].id(), share(index))
        });
        self.watcher.tick(&names.collect::<Vec<_>>(), left);
    }

    fn finish(self) -> Result<Vec<Done>> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let jobs = self.jobs;
        let done = self.done.into_iter().zip(jobs).map(|(done, job)| {
            done.unwrap_or_else(|| Done {
                id: job.id().to_string(),
                ended: Ended::Interrupted,
            })
        });
        Ok(done.collect())
    }
}
