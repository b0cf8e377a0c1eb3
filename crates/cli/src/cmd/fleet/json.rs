// SPDX-License-Identifier: MIT OR Apache-2.0
//! A study for machines: schema `ample.fleet/2`.

use super::text::reason;
use ample_fleet::dates::date;
use ample_fleet::study::{Bounds, Share, SizeKey, Study};
use ample_fleet::{FleetEngine, Parameters, QUERIES};
use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// One object; absent data is `null`.
pub fn json(study: &Study) -> Value {
    let unusable = |own: &ample_fleet::Unusable| {
        let file = own.file.display().to_string();
        json!({ "file": file, "reason": own.reason })
    };
    json!({
        "schema": "ample.fleet/2",
        "scans": study.scans,
        "skipped_files": study.unusable.iter().map(unusable).collect::<Vec<_>>(),
        "problems": study.problems,
        "hosts_with_copies": study.hosts_with_copies,
        "boots_go_back": study.boots_go_back,
        "silent": study.silent,
        "memory_mib": of_map(&study.memory_mib, |mib, hosts| {
            json!({ "memory_mib": mib, "hosts": hosts })
        }),
        "free_contiguity": of_map(&study.free_contiguity, |size_bytes, spread| {
            let without = study.without_free.get(size_bytes).and_then(|share| share.ratio());
            let size = json!({ "size_bytes": size_bytes, "hosts_without_ratio": without });
            merged(size, spread)
        }),
        "unmovable": of_map(&study.unmovable, |key, bounds| by_key(key, bounds, None)),
        "potential": of_map(&study.potential, |key, bounds| {
            by_key(key, bounds, study.without_potential.get(key))
        }),
        "internal_free": of_map(&study.internal_free, |definition, spread| {
            merged(json!({ "definition": definition }), spread)
        }),
        "source_pages": study.sources,
        "source_shares": of_map(&study.source_shares, |source, spread| {
            merged(json!({ "source": source }), spread)
        }),
        "correlation_with_uptime": study.correlation,
        "explained": study.explained,
        "groups": of_map(&study.groups, |(dimension, name), spread| {
            merged(json!({ "dimension": dimension, "name": name }), spread)
        }),
        "worst": study.worst.iter().map(|host| {
            merged(json!({ "reason": reason(host) }), host)
        }).collect::<Vec<_>>(),
        "days": of_map(&study.days, |&day, own| merged(json!({ "date": date(day) }), own)),
        "drift": study.drift,
    })
}

/// The results of the queries that are not steps to others, and the parameters.
///
/// # Errors
/// When a query has not been run.
pub fn tables(engine: &FleetEngine, parameters: &Parameters) -> Result<String> {
    let mut results = Map::new();
    let steps = [
        "each_scan",
        "machines",
        "sizes",
        "several",
        "blocks",
        "host_sources",
    ];
    for query in QUERIES
        .iter()
        .filter(|query| !query.view && !steps.contains(&query.name))
    {
        results.insert(query.name.into(), Value::Array(engine.rows(query.name)?));
    }
    let parameters: Map<_, _> = (parameters.columns().into_iter())
        .map(|(name, value)| (name.to_string(), value.into()))
        .collect();
    let tables = json!({ "parameters": parameters, "results": results });
    Ok(serde_json::to_string_pretty(&tables)? + "\n")
}

fn of_map<K: Ord, V>(map: &BTreeMap<K, V>, row: impl Fn(&K, &V) -> Value) -> Vec<Value> {
    map.iter().map(|(key, value)| row(key, value)).collect()
}

fn by_key((size_bytes, definition): &SizeKey, bounds: &Bounds, without: Option<&Share>) -> Value {
    let mut row = json!({ "size_bytes": size_bytes, "definition": definition });
    if let Some(share) = without {
        row["hosts_without_ratio"] = json!(share.ratio());
    }
    merged(row, bounds)
}

/// An object with the fields of another.
fn merged(mut object: Value, fields: impl Serialize) -> Value {
    let fields = serde_json::to_value(fields).unwrap_or_default();
    let fields = fields.as_object().cloned().unwrap_or_else(Map::new);
    if let Some(object) = object.as_object_mut() {
        object.extend(fields);
    }
    object
}
