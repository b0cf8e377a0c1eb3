// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records a program: `record OUT LIMIT CMD ARGUMENTS...`; OUT `-` only counts.

use ample_trace::capture::{Capture, build_plugin};
use ample_trace::{Access, TraceHeader, TraceWriter};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [out, limit, command @ ..] = arguments.as_slice() else {
        return Err("usage: record OUT LIMIT CMD ARGUMENTS...".into());
    };
    let limit: u64 = limit.parse()?;
    let directory = std::env::temp_dir().join(format!("ample-record-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let plugin = build_plugin(&directory)?;
    let start = Instant::now();
    let mut capture = Capture::start(command, &plugin, &directory)?;
    let mut bytes = 0;
    let accesses = if out == "-" {
        capture.run(&mut |_: &[Access]| true, limit)?
    } else {
        let header = TraceHeader {
            program: command.join(" "),
            regions: Vec::new(),
        };
        let file = std::io::BufWriter::new(std::fs::File::create(out)?);
        let mut writer = TraceWriter::new(file, &header)?;
        let accesses = capture.run(&mut writer, limit)?;
        bytes = writer.finish()?.1;
        accesses
    };
    let seconds = start.elapsed().as_secs_f64();
    let mapped: u64 = capture.regions().iter().map(|r| r.bytes).sum();
    capture.finish(true);
    std::fs::remove_dir_all(&directory)?;
    println!(
        "{accesses} accesses in {seconds:.1} s ({:.1} M/s), {mapped} bytes mapped, {:.2} bytes an \
         access on disk",
        accesses as f64 / seconds / 1e6,
        bytes as f64 / accesses.max(1) as f64
    );
    Ok(())
}
