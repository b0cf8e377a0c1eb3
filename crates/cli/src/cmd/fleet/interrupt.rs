// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a command keeps on the disk while it runs goes also where Ctrl-C or SIGTERM ends it.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How often the signal is looked for, and how long whoever is about to make a file has for it.
const TICK: Duration = Duration::from_millis(50);
/// So often a folder is emptied in which somebody makes files meanwhile.
const TRIES: usize = 20;

/// The signal that ends the process; 0 before it.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);
/// What goes then; while there is none, nobody waits for a signal.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn folders() -> MutexGuard<'static, Vec<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on SIGINT and SIGTERM remove the folder, which may not exist yet, before they end the
/// process as they would have.
///
/// # Errors
/// When the signals cannot be listened for.
pub(super) fn remove_at_end(folder: &Path) -> Result<()> {
    let mut folders = folders();
    folders.push(folder.to_path_buf());
    if folders.len() > 1 {
        return Ok(());
    }
    let about = "cannot listen for Ctrl-C";
    for signal in [SIGINT, SIGTERM] {
        flag::register_usize(signal, SIGNAL.clone(), signal as usize).context(about)?;
    }
    thread::Builder::new().spawn(watch).context(about)?;
    Ok(())
}

/// Stops the thread that calls it where the process is about to end: what it would write is in
/// nobody's way then, and what it would say nobody asked for.
pub(super) fn checkpoint() {
    while SIGNAL.load(Ordering::Relaxed) != 0 {
        thread::park();
    }
}

fn watch() {
    let signal = loop {
        match SIGNAL.load(Ordering::Relaxed) {
            0 => thread::sleep(TICK),
            signal => break signal,
        }
    };
    thread::sleep(TICK);
    for folder in folders().iter() {
        let gone = |_: &usize| fs::remove_dir_all(folder).is_ok() || !folder.exists();
        let _ = (0..TRIES).find(gone);
    }
    let _ = low_level::emulate_default_handler(signal as i32);
}
