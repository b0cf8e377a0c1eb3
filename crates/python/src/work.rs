// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long work: without the lock of the interpreter, ended by Ctrl-C, with errors as exceptions.

use ample_lab::stop;
use anyhow::Result;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyPermissionError};
use pyo3::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

pyo3::create_exception!(
    ample,
    AmpleError,
    PyException,
    "What went wrong, where, and what to do about it."
);

/// How often one who waits looks for Ctrl-C.
const TICK: Duration = Duration::from_millis(50);
/// How long work that was asked to end is waited for.
const PATIENCE_TICKS: u32 = 40;

/// Jobs that run now. The flag that ends them is one for the process, so it is taken back when the
/// last of them has ended.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// The process whose threads the jobs run in; 0 before the first.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Set by the system when Ctrl-C is pressed; the interpreter tells it to its main thread alone.
static PRESSED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

struct Job;

impl Job {
    fn begin() -> PyResult<Job> {
        let own = std::process::id();
        let first = PROCESS.compare_exchange(0, own, Ordering::SeqCst, Ordering::SeqCst);
        if first.is_err_and(|first| first != own) {
            return Err(AmpleError::new_err(
                "this process was forked from one that had used Ample, and threads do not survive \
                 a fork; start processes by \"spawn\" or \"forkserver\"",
            ));
        }
        let pressed = PRESSED.get_or_init(|| {
            let pressed = Arc::new(AtomicBool::new(false));
            // The handler of the interpreter is called as before. Without ours only the main
            // thread hears of Ctrl-C.
            let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, pressed.clone());
            pressed
        });
        if RUNNING.fetch_add(1, Ordering::SeqCst) == 0 {
            pressed.store(false, Ordering::SeqCst);
        }
        Ok(Job)
    }
}

/// What Ctrl-C raises in a thread that the interpreter does not tell of it; nothing where the
/// program has a handler of its own.
fn interrupted(py: Python<'_>) -> PyResult<()> {
    let pressed = PRESSED.get().is_some_and(|own| own.load(Ordering::SeqCst));
    if !pressed {
        return Ok(());
    }
    let signal = py.import("signal")?;
    let handler = signal.call_method1("getsignal", (signal_hook::consts::SIGINT,))?;
    match handler.is(&signal.getattr("default_int_handler")?) {
        true => Err(PyKeyboardInterrupt::new_err(())),
        false => Ok(()),
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if RUNNING.fetch_sub(1, Ordering::SeqCst) == 1 {
            stop::flag().store(false, Ordering::SeqCst);
        }
    }
}

/// Told the share done, from any thread.
pub type Told = Arc<dyn Fn(f64) + Send + Sync>;

/// The exception for an error: the whole chain of what was done when it happened.
pub fn exception(error: &anyhow::Error) -> PyErr {
    let text = format!("{error:#}");
    let refused = |host: &ample_host::HostError| host.is_permission();
    match error.downcast_ref().is_some_and(refused) {
        true => PyPermissionError::new_err(text),
        false => AmpleError::new_err(text),
    }
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    format!(
        "a fault of Ample itself, please report it with what was called: {}",
        text.unwrap_or("no text")
    )
}

/// Runs a job in a thread of its own. `progress` is called here with the share done.
///
/// # Errors
/// The job's as [`AmpleError`]; what Ctrl-C or `progress` raise, after the job was asked to end; a
/// panic as [`AmpleError`].
pub fn work<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(&Told) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let share = Arc::new(AtomicU64::new(0));
    let own = share.clone();
    let told: Told =
        Arc::new(move |done: f64| own.store((done * 1000.0) as u64, Ordering::Relaxed));
    let (sender, receiver) = mpsc::channel();
    let running = Job::begin()?;
    std::thread::spawn(move || {
        let done = catch_unwind(AssertUnwindSafe(|| job(&told)));
        let ended_early = stop::requested();
        drop(running);
        // Nobody listens any more if it was given up.
        let _ = sender.send((done, ended_early));
    });
    // The interpreter's lock is let go only around what may be shared.
    let receiver = Mutex::new(receiver);
    let wait = |time| match receiver.lock() {
        Ok(receiver) => receiver.recv_timeout(time),
        Err(_) => Err(RecvTimeoutError::Disconnected),
    };
    let mut shown = 0;
    let (done, ended_early) = loop {
        match py.detach(|| wait(TICK)) {
            Ok(done) => break done,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(AmpleError::new_err("the thread of the job is gone"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = share.load(Ordering::Relaxed);
        let mut asked = py.check_signals().and_then(|()| interrupted(py));
        if let Some(progress) = progress.filter(|_| now != shown) {
            shown = now;
            let called = progress.call1((now as f64 / 1000.0,)).map(drop);
            // The flag would end the jobs of other threads too: this one goes on unheard.
            match called {
                Err(raised) if RUNNING.load(Ordering::SeqCst) > 1 => return Err(raised),
                called => asked = asked.and(called),
            }
        }
        if let Err(raised) = asked {
            stop::flag().store(true, Ordering::SeqCst);
            py.detach(|| wait(TICK * PATIENCE_TICKS)).ok();
            return Err(raised);
        }
    };
    if let (Some(progress), true) = (progress, shown < 1000) {
        progress.call1((1.0,))?;
    }
    match done {
        Err(panic) => Err(AmpleError::new_err(panic_text(panic.as_ref()))),
        Ok(_) if ended_early => Err(AmpleError::new_err(
            "ended early: other work of this process was interrupted; run it again",
        )),
        Ok(done) => done.map_err(|error| exception(&error)),
    }
}
