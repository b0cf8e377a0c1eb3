// SPDX-License-Identifier: MIT OR Apache-2.0
//! The progress bar of commands that run for minutes.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of 1000 steps on standard error, drawn only if that is a terminal.
pub(super) fn progress_bar(what: &str) -> ProgressBar {
    let bar = ProgressBar::new(1000);
    let template = "{msg} {bar:40} {percent:>3} %  {elapsed} of about {duration}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what.to_string());
    // The time goes on where a part takes minutes.
    bar.enable_steady_tick(std::time::Duration::from_millis(500));
    bar
}
