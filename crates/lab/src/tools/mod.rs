// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments that other programs of the project do: the allocator's, the model checker, the
//! synthesis of the metadata table, guests with the kernel. Each declares what it needs and how to
//! get it, runs the program, and reads what it wrote into a typed result.

pub mod drops;
pub mod guests;
pub mod heaps;
pub mod kernel;
pub mod layers;
pub mod lifetime;
pub mod model_check;
pub mod rtl;
pub mod slice;
pub mod temeraire;

use crate::needs::built;
use crate::stop;
use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How often an early end is looked for.
const POLL: Duration = Duration::from_millis(100);

/// What a command left.
pub(crate) struct Ended {
    /// Exit code; -1 for a signal.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

/// Runs a command to its end, or `None` when an early end was asked for.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn finished(command: &mut Command) -> Result<Option<Ended>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let command = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let out = scope.spawn(|| all_of(out));
        let err = scope.spawn(|| all_of(err));
        let code = wait(&mut child)?;
        let (out, err) = (
            out.join().unwrap_or_default(),
            err.join().unwrap_or_default(),
        );
        Ok(code.map(|code| Ended { code, out, err }))
    })
}

/// What a pipe gives until it ends or breaks.
fn all_of(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What was read before an error is what there is.
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The standard output of a command whose exit code is at most `most`, or `None` when it was
/// ended early.
///
/// # Errors
/// When it cannot be started or fails: with the last lines of its standard error.
pub(crate) fn output(command: &mut Command, most: i32) -> Result<Option<String>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let Some(ended) = finished(command)? else {
        return Ok(None);
    };
    if ended.code < 0 || ended.code > most {
        let lines: Vec<&str> = ended.err.trim_end().lines().collect();
        let last = lines[lines.len().saturating_sub(3)..].join(" | ");
        bail!("{name} ended with code {}: {last}", ended.code);
    }
    Ok(Some(ended.out))
}

/// The exit code (-1 for a signal); `None` when an early end was asked for, which ends the child.
fn wait(child: &mut Child) -> Result<Option<i32>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code().unwrap_or(-1)));
        }
        if stop::requested() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

/// What a program of this project writes as JSON; the default after an early end.
///
/// # Errors
/// As [`output`]; when the program is not built, or what it wrote is something else.
pub(crate) fn written_by<T: DeserializeOwned + Default>(
    program: &str,
    args: &[&str],
    most: i32,
) -> Result<T> {
    let path = built(program).with_context(|| format!("{program} is not built"))?;
    let Some(text) = output(Command::new(path).args(args), most)? else {
        return Ok(T::default());
    };
    let told = || format!("reading what {program} wrote; if it is an old one, build it anew");
    serde_json::from_str(&text).with_context(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_errors_of_a_command() {
        let shell = |text: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", text]);
            output(&mut command, 1)
        };
        assert_eq!(shell("echo a; exit 1").unwrap().as_deref(), Some("a\n"));
        let error = shell("echo why >&2; exit 2").unwrap_err().to_string();
        assert!(error.contains("code 2: why"), "{error}");
        assert!(output(&mut Command::new("no-such-program"), 0).is_err());
    }
}
