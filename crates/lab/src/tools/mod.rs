// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments that other programs of the project do: the allocator's, the model checker, the
//! synthesis of the metadata table, guests with the kernel. Each declares what it needs and how to
//! get it, runs the program, and reads what it wrote into a typed result.

pub mod kernel;
pub mod model_check;
pub mod rtl;
pub mod temeraire;

use crate::stop;
use anyhow::{Context, Result, bail};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How often an early end is looked for.
const POLL: Duration = Duration::from_millis(100);

/// Runs a command to its end; its standard output, whatever the exit code, or `None` when it was
/// ended early. Exit codes above `most` are errors.
///
/// # Errors
/// When it cannot be started or fails: with the last lines of its standard error.
pub(crate) fn output(command: &mut Command, most: i32) -> Result<Option<String>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let read = |pipe: &mut Option<_>| -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // What was read before an error is what there is.
            let _ = Read::read_to_end(pipe, &mut bytes);
        }
        bytes
    };
    let (code, out, err) = std::thread::scope(|scope| {
        let out = scope.spawn(|| read(&mut out));
        let err = scope.spawn(|| {
            let mut bytes = Vec::new();
            if let Some(pipe) = &mut err {
                let _ = pipe.read_to_end(&mut bytes);
            }
            bytes
        });
        let code = wait(&mut child);
        (code, out.join().unwrap_or_default(), err.join().unwrap_or_default())
    });
    let Some(code) = code? else {
        return Ok(None);
    };
    if code < 0 || code > most {
        let err = String::from_utf8_lossy(&err);
        let last: Vec<&str> = err.trim_end().lines().rev().take(3).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        bail!("{name} ended with code {code}: {}", last.join(" | "));
    }
    Ok(Some(String::from_utf8_lossy(&out).into_owned()))
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
