// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a kernel with Contiguitas says of its border (kernel/src/Documentation/ABI); nothing on
//! other kernels.

use crate::cmd::exposition::Exposition;
use ample_host::Root;
use ample_pfn::BASE_PAGE_BYTES;

const FOLDER: &str = "sys/kernel/mm/contiguitas";

/// Gauges of a node: file, name, factor, side, help.
const GAUGES: [(&str, &str, f64, Option<&str>, &str); 7] = [
    (
        "border_pfn",
        "border_bytes",
        BASE_PAGE_BYTES as f64,
        None,
        "Physical address of the border of a node.",
    ),
    (
        "unmovable_bytes",
        "unmovable_bytes",
        1.0,
        None,
        "Size of the unmovable region of a node.",
    ),
    (
        "unmovable_free_bytes",
        "unmovable_free_bytes",
        1.0,
        None,
        "What of it is free.",
    ),
    (
        "min_bytes",
        "min_bytes",
        1.0,
        None,
        "The region does not become smaller.",
    ),
    (
        "max_bytes",
        "max_bytes",
        1.0,
        None,
        "The region does not become larger in advance.",
    ),
    (
        "pressure_unmovable_bp",
        "pressure_ratio",
        1e-4,
        Some("unmovable"),
        "Share of the last 10 s in which a task waited for memory of a side.",
    ),
    (
        "pressure_movable_bp",
        "pressure_ratio",
        1e-4,
        Some("movable"),
        "",
    ),
];

/// Border, sizes and pressure of each node, and the counts of what the border did.
pub(super) fn families(root: &Root, out: &mut Exposition) {
    let nodes = nodes(root);
    if nodes.is_empty() {
        return;
    }
    for (file, name, factor, side, help) in GAUGES {
        if !help.is_empty() {
            out.gauge(&format!("contiguitas_{name}"), help);
        }
        for node in &nodes {
            let text = root.read(&format!("{FOLDER}/node{node}/{file}"));
            let value = text.ok().and_then(|text| text.trim().parse::<f64>().ok());
            let mut labels = vec![("node", node.to_string())];
            labels.extend(side.map(|side| ("side", side.to_string())));
            out.sample(&labels, value.map(|value| value * factor));
        }
    }
    out.counter(
        "contiguitas_events",
        "What the border did, by the name in /proc/vmstat.",
    );
    let counters = root.read("proc/vmstat").unwrap_or_default();
    for line in counters.lines() {
        let event = line
            .strip_prefix("contiguitas_")
            .and_then(|rest| rest.split_once(' '));
        if let Some((event, count)) = event {
            out.sample(&[("event", event.to_string())], count.parse().ok());
        }
    }
}

/// Numbers of the nodes that have a border.
pub(super) fn nodes(root: &Root) -> Vec<u32> {
    let entries = std::fs::read_dir(root.path(FOLDER)).into_iter().flatten();
    let mut nodes: Vec<u32> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.strip_prefix("node")?.parse().ok()
        })
        .collect();
    nodes.sort_unstable();
    nodes
}
