// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is looked at, one function a subject.

use super::{Check, State};
use ample_host::Root;

/// Whether pages can be looked at, and every check.
pub fn all(root: &Root) -> (bool, Vec<Check>) {
    let (rights, flags, bpf) = (rights(root), page_flags(root), bpf(root));
    let is_ok = |check: &Check| check.state == State::Ok;
    let can_scan = is_ok(&flags) || is_ok(&bpf) && is_ok(&rights);
    let checks = vec![
        rights,
        flags,
        bpf,
        page_owner(root),
        page_events(root),
        transparent(root),
        gigantic(root),
        reserve(root),
        control_groups(root),
        contiguitas(root),
        allocator(root),
    ];
    (can_scan, checks)
}

fn check(
    name: &'static str,
    state: State,
    found: impl Into<String>,
    advice: impl Into<Option<&'static str>>,
) -> Check {
    Check {
        name,
        state,
        found: found.into(),
        advice: advice.into(),
    }
}

/// A file's text without the last newline; `None` where it is not there or may not be read.
fn read(root: &Root, path: &str) -> Option<String> {
    root.read(path).ok().map(|text| text.trim_end().to_string())
}

fn exists(root: &Root, path: &str) -> bool {
    root.path(path).exists()
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> &str {
    let inside = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(word, _)| word)
}

/// An option of the kernel's command line.
fn option(root: &Root, name: &str) -> Option<String> {
    let line = read(root, "proc/cmdline")?;
    let mut words = line.split_whitespace().rev();
    words.find_map(|word| match word.split_once('=') {
        Some((key, value)) if key == name => Some(value.to_string()),
        _ => (word == name).then(String::new),
    })
}

/// What this process may do, from its own status: the page flags are a file of root, whose pages
/// anyone may read who passes by permissions of files; the BPF reader takes CAP_SYS_ADMIN.
fn rights(root: &Root) -> Check {
    const NAME: &str = "rights";
    const DAC_OVERRIDE: u32 = 1;
    const DAC_READ_SEARCH: u32 = 2;
    const SYS_ADMIN: u32 = 21;
    let status = read(root, "proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next())
    };
    let is_root = field("Uid:") == Some("0");
    let Some(may) = field("CapEff:").and_then(|set| u64::from_str_radix(set, 16).ok()) else {
        return check(NAME, State::Unknown, "no /proc/self/status", None);
    };
    let has = |capability: u32| may >> capability & 1 == 1;
    let reads = is_root || has(DAC_READ_SEARCH) || has(DAC_OVERRIDE);
    match (reads, has(SYS_ADMIN)) {
        (true, true) if is_root => check(NAME, State::Ok, "root", None),
        (true, true) => check(
            NAME,
            State::Ok,
            "page flags and cap_sys_admin, not root",
            None,
        ),
        (true, false) => {
            let advice = "page flags can be read; the BPF reader takes cap_sys_admin, which a \
                          container has to be given";
            let found = match is_root {
                true => "root without cap_sys_admin, as in a container",
                false => "cap_dac_read_search without cap_sys_admin",
            };
            check(NAME, State::Ok, found, advice)
        }
        (false, true) => {
            let advice = "the BPF reader works; without it add cap_dac_read_search";
            check(NAME, State::Ok, "cap_sys_admin, not root", advice)
        }
        (false, false) => {
            let advice = "run as root, or give the binary cap_sys_admin for the BPF reader, \
                          cap_dac_read_search for /proc/kpageflags";
            check(
                NAME,
                State::Missing,
                "neither root nor a capability",
                advice,
            )
        }
    }
}

fn page_events(root: &Root) -> Check {
    const NAME: &str = "page events";
    const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];
    let event = |place: &&&str| exists(root, &format!("{place}/events/kmem/mm_page_alloc"));
    if let Some(place) = PLACES.iter().find(event) {
        let found = format!("/{place}: ample replay can have a recording");
        return check(NAME, State::Ok, found, None);
    }
    let advice = "mount -t tracefs none /sys/kernel/tracing, as root: scripts/record-pages.sh \
                  records for ample replay";
    check(NAME, State::Unknown, "not seen", advice)
}

fn page_flags(root: &Root) -> Check {
    use std::io::Read;
    const FILE: &str = "proc/kpageflags";
    const NAME: &str = "page flags";
    if !exists(root, FILE) {
        let advice = "boot a kernel with CONFIG_PROC_PAGE_MONITOR (every distribution's has it)";
        return check(NAME, State::Missing, "no /proc/kpageflags", advice);
    }
    let first = root.open(FILE).and_then(|mut file| {
        let mut word = [0; 8];
        file.read_exact(&mut word)
            .map_err(|error| ample_host::HostError::io(&root.path(FILE), error))
    });
    match first {
        Ok(()) => check(NAME, State::Ok, "/proc/kpageflags can be read", None),
        Err(error) if error.is_permission() => {
            let advice =
                "run as root, or give the binary cap_dac_read_search; the BPF reader does without";
            check(NAME, State::Missing, "not permitted", advice)
        }
        Err(error) => check(NAME, State::Missing, error.to_string(), None),
    }
}

fn bpf(root: &Root) -> Check {
    const NAME: &str = "BPF reader";
    let lockdown = read(root, "sys/kernel/security/lockdown").unwrap_or_default();
    if !cfg!(feature = "bpf") {
        let advice = "make setup && make ample: scans are several times faster, and --who, watch \
                      and whatif --record need it";
        return check(NAME, State::Missing, "not in this build", advice);
    }
    if !exists(root, "sys/kernel/btf/vmlinux") {
        let advice = "boot a kernel with CONFIG_DEBUG_INFO_BTF; --owners works without it";
        return check(
            NAME,
            State::Missing,
            "the kernel has no type information",
            advice,
        );
    }
    if chosen(&lockdown) == "confidentiality" {
        let advice = "lockdown=integrity allows it; until then --reader procfs is used";
        return check(NAME, State::Missing, "forbidden by lockdown", advice);
    }
    check(
        NAME,
        State::Ok,
        "in this build, and the kernel has type information",
        None,
    )
}

fn page_owner(root: &Root) -> Check {
    const NAME: &str = "page_owner";
    let asked = option(root, "page_owner").is_some_and(|value| value == "on");
    if exists(root, "sys/kernel/debug/page_owner") {
        let found = "records who asked for each page: --owners, definition O";
        return check(NAME, State::Ok, found, None);
    }
    if asked {
        let advice = "mount -t debugfs none /sys/kernel/debug, and run as root";
        return check(NAME, State::Unknown, "asked for at boot, not seen", advice);
    }
    let advice = "boot with page_owner=on where definition O is wanted (CONFIG_PAGE_OWNER; costs \
                  16 to 64 bytes a page)";
    check(NAME, State::Off, "not asked for at boot", advice)
}

fn transparent(root: &Root) -> Check {
    const NAME: &str = "huge pages";
    const FOLDER: &str = "sys/kernel/mm/transparent_hugepage";
    let Some(enabled) = read(root, &format!("{FOLDER}/enabled")) else {
        let advice = "boot a kernel with CONFIG_TRANSPARENT_HUGEPAGE";
        return check(NAME, State::Missing, "the kernel has none", advice);
    };
    let defrag = read(root, &format!("{FOLDER}/defrag")).unwrap_or_default();
    let found = format!("enabled: {}, defrag: {}", chosen(&enabled), chosen(&defrag));
    match chosen(&enabled) {
        "never" => {
            let advice = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; ample \
                          whatif says what it is worth";
            check(NAME, State::Off, found, advice)
        }
        _ => check(NAME, State::Ok, found, None),
    }
}

fn gigantic(root: &Root) -> Check {
    const NAME: &str = "1 GB pages";
    let info = read(root, "proc/cpuinfo").unwrap_or_default();
    let x86 = info.lines().find(|line| line.starts_with("flags"));
    if x86.is_some_and(|flags| !flags.split_whitespace().any(|flag| flag == "pdpe1gb")) {
        return check(NAME, State::Missing, "this processor has none", None);
    }
    let pool = "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";
    match read(root, pool).and_then(|text| text.parse::<u64>().ok()) {
        None => check(
            NAME,
            State::Missing,
            "the kernel has no pool for them",
            None,
        ),
        Some(0) => {
            let advice = "ample scan shows how many could be formed; echo N > \
                          /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages asks";
            check(NAME, State::Off, "none in the pool", advice)
        }
        Some(pages) => check(NAME, State::Ok, format!("{pages} in the pool"), None),
    }
}

fn reserve(root: &Root) -> Check {
    const NAME: &str = "reserves";
    let names = ["kernelcore", "movablecore", "hugetlb_cma", "cma"];
    let mut found: Vec<String> = (names.iter())
        .filter_map(|name| Some(format!("{name}={}", option(root, name)?)))
        .collect();
    if read(root, "proc/sys/vm/defrag_mode").is_some_and(|value| value == "1") {
        found.push("vm.defrag_mode=1".into());
    }
    if found.is_empty() {
        let advice = "ample whatif compares what each would give this machine";
        return check(NAME, State::Off, "no memory is kept apart at boot", advice);
    }
    check(NAME, State::Ok, found.join(", "), None)
}

fn control_groups(root: &Root) -> Check {
    const NAME: &str = "control groups";
    let controllers = read(root, "sys/fs/cgroup/cgroup.controllers");
    match controllers {
        Some(list) if list.split_whitespace().any(|name| name == "memory") => {
            check(NAME, State::Ok, "pages are charged: --cgroup works", None)
        }
        Some(_) => {
            let advice = "boot without cgroup_disable=memory for --cgroup and names of groups";
            check(NAME, State::Off, "no memory controller", advice)
        }
        None => {
            let advice = "mount control groups of version 2 for --cgroup";
            check(NAME, State::Missing, "none of version 2", advice)
        }
    }
}

fn contiguitas(root: &Root) -> Check {
    const NAME: &str = "Contiguitas";
    const FOLDER: &str = "sys/kernel/mm/contiguitas";
    if !exists(root, FOLDER) {
        let advice = "make kernel builds a kernel with it: docs/kernel.md";
        return check(NAME, State::Missing, "not in this kernel", advice);
    }
    let mib = |node: &str, file: &str| {
        let bytes = read(root, &format!("{FOLDER}/{node}/{file}"))?;
        Some(bytes.parse::<u64>().ok()? >> 20)
    };
    // What was there when it was turned on; only root may read it.
    let above = |node: &str| match mib(node, "unmovable_above_bytes") {
        Some(above) if above > 0 => format!(" and {above} MiB above the border"),
        _ => String::new(),
    };
    let mut nodes: Vec<String> = std::fs::read_dir(root.path(FOLDER))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("node"))
        .collect();
    nodes.sort();
    let regions: Vec<String> = (nodes.iter())
        .filter_map(|node| {
            let region = mib(node, "unmovable_bytes")?;
            Some(format!("{node}: {region} MiB unmovable{}", above(node)))
        })
        .collect();
    match regions.is_empty() {
        true => {
            let advice = "boot with contiguitas=on, or turn it on at run time: \
                          echo 1 > /sys/kernel/mm/contiguitas/enabled";
            check(NAME, State::Off, "in this kernel, and off", advice)
        }
        false => check(NAME, State::Ok, regions.join(", "), None),
    }
}

fn allocator(root: &Root) -> Check {
    const NAME: &str = "allocator";
    let own = std::env::current_exe().ok();
    let library = own.and_then(|own| ample_kit::places::preload_library(own.parent()?));
    let overcommit = read(root, "proc/sys/vm/overcommit_memory").unwrap_or_default();
    match library {
        Some(library) => {
            let found = format!("{}, overcommit {overcommit}", library.display());
            check(NAME, State::Ok, found, None)
        }
        None => {
            let advice = "the package libample-malloc has the library that ample malloc run \
                          preloads, and make build makes it";
            check(NAME, State::Missing, "not built and not installed", advice)
        }
    }
}
