// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample trace schemes`: what there is to choose from.

use crate::cmd::sim;
use ample_translate::schemes::{REGISTRY, SchemeEntry, SchemeParameter};
use serde_json::{Value, json};

/// List the translation schemes and the parameters that they take.
#[derive(Debug, clap::Args)]
#[command(after_help = SCHEMES_EXAMPLES)]
pub(super) struct Schemes {
    /// Print one object, schema ample.trace.schemes/1.
    #[arg(long)]
    json: bool,
}

const SCHEMES_EXAMPLES: &str = "Examples:
  ample trace schemes
  ample trace run redis.trace --scheme rmm:ranges=64
  ample sweep redis.trace --over scheme=paging,rmm:ranges=8,rmm:ranges=64";

/// The list in the form that is asked for.
///
/// # Errors
/// When it cannot be made into JSON.
pub(super) fn listed(args: &Schemes) -> anyhow::Result<String> {
    match args.json {
        true => sim::object(&as_value(), true),
        false => Ok(as_text()),
    }
}

/// The schemes, each with a line for each of its parameters.
fn as_text() -> String {
    let mut text = String::from("Schemes (NAME, or NAME:PARAMETER=VALUE):\n");
    for scheme in REGISTRY {
        text += &format!("  {:<22} {}\n", scheme.name, scheme.what);
        for own in scheme.parameters {
            let (least, most) = (own.range.start(), own.range.end());
            let name = format!("  :{}={}", own.name, own.default);
            text += &format!("  {name:<22} {}, from {least} to {most}\n", own.what);
        }
    }
    text
}

fn as_value() -> Value {
    let parameter = |own: &SchemeParameter| {
        json!({
            "name": own.name,
            "what": own.what,
            "default": own.default,
            "least": own.range.start(),
            "most": own.range.end(),
        })
    };
    let scheme = |entry: &SchemeEntry| {
        let parameters: Vec<Value> = entry.parameters.iter().map(parameter).collect();
        json!({ "name": entry.name, "what": entry.what, "parameters": parameters })
    };
    let schemes: Vec<Value> = REGISTRY.iter().map(scheme).collect();
    json!({ "schema": "ample.trace.schemes/1", "schemes": schemes })
}
