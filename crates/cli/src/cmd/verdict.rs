// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a command ends.

use std::process::ExitCode;

/// What a command that ran to its end has to say through its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Exit code 0.
    Ok,
    /// A threshold was crossed or the answer is no: exit code 1.
    Negative,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> ExitCode {
        match verdict {
            Verdict::Ok => ExitCode::SUCCESS,
            Verdict::Negative => ExitCode::from(1),
        }
    }
}
