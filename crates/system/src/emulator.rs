// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU as a process of ours, and the plugins that are built for it.

use crate::guest::{Guest, GuestError, RAM};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

const EMULATOR: &str = "qemu-system-x86_64";
/// What the emulator itself says.
const LOG: &str = "emulator.log";

/// An emulator that runs; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct EmulatorProcess {
    child: Child,
    log: PathBuf,
    console: PathBuf,
}

/// Builds a plugin from its sources, names and texts, of which the first includes the others;
/// returns its path.
pub(crate) fn compile(
    directory: &Path,
    sources: &[(&str, &str)],
    library: &str,
) -> Result<PathBuf, GuestError> {
    let tool = |what: &str, source: io::Error| GuestError::Tool {
        what: what.to_owned(),
        source,
        hint: "a whole machine needs gcc (on Debian: apt-get install gcc libc6-dev)",
    };
    for (name, text) in sources {
        std::fs::write(directory.join(name), text).map_err(|e| tool("writing the plugin", e))?;
    }
    let library = directory.join(library);
    let status = Command::new("gcc")
        .args(["-O2", "-fPIC", "-shared", "-pthread"])
        .args(["-fvisibility=hidden", "-o"])
        .arg(&library)
        .arg(directory.join(sources[0].0))
        .status()
        .map_err(|e| tool("building the plugin", e))?;
    match status.success() {
        true => Ok(library),
        false => Err(tool(
            "building the plugin",
            io::Error::other(format!("gcc: {status}")),
        )),
    }
}

/// The emulator's major version; 0 where it does not say.
pub(crate) fn version() -> Result<u32, GuestError> {
    let told = Command::new(EMULATOR).arg("--version").output();
    let told = told.map_err(|e| GuestError::tool("starting qemu-system-x86_64", e))?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let number = told.split("version ").nth(1).unwrap_or_default();
    let major = number.split('.').next().unwrap_or_default();
    Ok(major.parse().unwrap_or(0))
}

impl EmulatorProcess {
    /// Makes the guest's memory in `directory` and starts the emulator; the arguments let the guest
    /// write its console to `console`.
    pub(crate) fn start(
        guest: &Guest,
        directory: &Path,
        console: PathBuf,
        arguments: &[String],
    ) -> Result<Self, GuestError> {
        let made = |e| GuestError::tool("making the guest's memory", e);
        let ram = File::create_new(directory.join(RAM)).map_err(made)?;
        ram.set_len(guest.memory_bytes).map_err(made)?;
        let path = directory.join(LOG);
        let log = File::create(&path).map_err(made)?;
        let child = Command::new(EMULATOR)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(made)?)
            .stderr(log)
            .spawn()
            .map_err(|e| GuestError::tool("starting qemu-system-x86_64", e))?;
        Ok(EmulatorProcess {
            child,
            log: path,
            console,
        })
    }

    /// How it has ended; None while it runs.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// What the emulator itself has said.
    pub(crate) fn said(&self) -> String {
        let said = std::fs::read_to_string(&self.log);
        said.unwrap_or_default().trim().to_owned()
    }

    /// What the guest has written on its console.
    pub(crate) fn console(&self) -> String {
        let bytes = std::fs::read(&self.console).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\r', "")
    }
}

impl Drop for EmulatorProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
