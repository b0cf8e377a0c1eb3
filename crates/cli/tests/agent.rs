// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample agent` on a saved tree: what it keeps, delivers, serves and survives.

mod common;

use common::{ample, save};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SLAB: u64 = 1 << 7;

/// A host of four 2 MB blocks, one of which holds slab pages, with a border at 2 MB.
fn host() -> tempfile::TempDir {
    let mut flags = vec![0u64; 4 * 512];
    flags[..100].fill(SLAB);
    let flags: Vec<u8> = flags.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let zoneinfo: &[u8] = b"Node 0, zone Normal\n  pages free 0\n min 1\n low 2\n high 3\n \
        spanned 2048\n present 2048\n managed 2048\n pagesets\n cpu: 0\n count: 0\n start_pfn: 0\n";
    let directory = tempfile::tempdir().unwrap();
    save(
        &directory.path().join("root"),
        &[
            ("proc/iomem", b"00000000-007fffff : System RAM\n"),
            ("proc/zoneinfo", zoneinfo),
            (
                "proc/buddyinfo",
                b"Node 0, zone Normal 0 0 0 0 0 0 0 0 0 0 0\n",
            ),
            ("proc/meminfo", b"MemTotal: 8192 kB\nMemFree: 0 kB\n"),
            ("proc/uptime", b"60.00 1.00\n"),
            ("proc/vmstat", b"nr_free_pages 5\ncontiguitas_claim 7\n"),
            ("proc/sys/kernel/osrelease", b"6.12.1\n"),
            ("proc/sys/kernel/hostname", b"web1\n"),
            ("proc/kpageflags", &flags),
            ("sys/kernel/mm/contiguitas/node0/border_pfn", b"512\n"),
            (
                "sys/kernel/mm/contiguitas/node0/unmovable_bytes",
                b"2097152\n",
            ),
            (
                "sys/kernel/mm/contiguitas/node0/pressure_movable_bp",
                b"250\n",
            ),
        ],
    );
    directory
}

fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_scan_is_kept_delivered_and_shown() {
    let host = host();
    let at = host.path();
    let once = ["agent", "--once", "--root", "root", "--spool", "spool"];
    let kept = ample(at, &[&once[..], &["--textfile", "ample.prom"]].concat());
    assert!(kept.status.success(), "{kept:?}");
    let spool = files(&at.join("spool"));
    assert_eq!(spool.len(), 2, "{spool:?}");
    assert_eq!(spool[0], ".last-scan");
    assert!(spool[1].starts_with("scan-web1-"), "{spool:?}");
    let metrics = std::fs::read_to_string(at.join("ample.prom")).unwrap();
    for line in [
        "ample_memory_bytes 8388608",
        "ample_agent_scans_total 1",
        "ample_agent_spool_files 1",
        "ample_contiguitas_border_bytes{node=\"0\"} 2097152",
        "ample_contiguitas_pressure_ratio{node=\"0\",side=\"movable\"} 0.025",
        "ample_contiguitas_events_total{event=\"claim\"} 7",
    ] {
        assert!(metrics.lines().any(|own| own == line), "{line}\n{metrics}");
    }
    // A shared directory that is not mounted costs no scan, and is not called success.
    let late = ample(at, &[&once[..], &["--deliver", "shared"]].concat());
    assert_eq!(late.status.code(), Some(2));
    let text = String::from_utf8_lossy(&late.stderr);
    assert!(
        text.contains("stay in the spool") && text.contains("shared"),
        "{text}"
    );
    std::fs::create_dir(at.join("shared")).unwrap();
    let after = ample(at, &[&once[..], &["--deliver", "shared"]].concat());
    assert!(after.status.success(), "{after:?}");
    assert_eq!(files(&at.join("spool")), [".last-scan"]);
    assert!(!files(&at.join("shared")).is_empty());
}

#[test]
fn what_is_wrong_is_said_at_the_start() {
    let host = host();
    let at = host.path();
    for (arguments, told) in [
        (&["--once", "--root", "none"][..], "none"),
        (
            &["--once", "--root", "root", "--spool", "root/proc/uptime"],
            "root/proc/uptime",
        ),
        (&["--every", "0.5s"], "a second or more"),
        (&["--listen", "everywhere"], "127.0.0.1:9105"),
        (&["--spool-mib", "0"], "--spool-mib"),
    ] {
        let mut all = vec!["agent"];
        if !arguments.contains(&"--spool") {
            all.extend(["--spool", "spool"]);
        }
        all.extend(arguments);
        let output = ample(at, &all);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(told), "{arguments:?}: {text}");
    }
}

/// An agent that listens, and its address.
fn listening(at: &Path) -> (Child, String) {
    let mut agent = Command::new(env!("CARGO_BIN_EXE_ample"))
        .args([
            "agent", "--root", "root", "--spool", "spool", "--every", "1s",
        ])
        .args(["--listen", "0"])
        .current_dir(at)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut errors = BufReader::new(agent.stderr.take().unwrap());
    // An agent that is started again says first how long it rests.
    while !line.starts_with("metrics at") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0, "it ended");
    }
    let address = address_in(&line).to_string();
    (agent, address)
}

/// The address in the line that says where the metrics are.
fn address_in(line: &str) -> &str {
    let address = line.trim().strip_prefix("metrics at http://");
    let address = address.and_then(|rest| rest.strip_suffix("/metrics"));
    address.unwrap_or_else(|| panic!("{line}"))
}

fn scrape(address: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    client.read_to_string(&mut page).unwrap();
    page
}

#[test]
fn a_killed_agent_leaves_whole_scans_and_starts_again() {
    let host = host();
    let at = host.path();
    for _ in 0..3 {
        let (mut agent, address) = listening(at);
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        // Until it has scanned by its schedule.
        while !scrape(&address).contains("ample_agent_scans_total 2\n") {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        agent.kill().unwrap();
        agent.wait().unwrap();
    }
    let spool = files(&at.join("spool"));
    assert!(!spool.is_empty());
    for name in spool.iter().filter(|name| !name.starts_with('.')) {
        let bytes = std::fs::read(at.join("spool").join(name)).unwrap();
        assert!(
            bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"),
            "{name}"
        );
    }
}

/// An agent whose log has ended goes on: there were words for its listener at the start, at a rest
/// and at each scan that cannot be delivered.
#[test]
fn an_agent_that_nobody_listens_to_scans_on() {
    let host = host();
    let at = host.path();
    let (nobody, errors) = std::io::pipe().unwrap();
    drop(nobody);
    let mut agent = Command::new(env!("CARGO_BIN_EXE_ample"))
        .args([
            "agent", "--root", "root", "--spool", "spool", "--every", "1s",
        ])
        .args(["--listen", "0", "--deliver", "root/proc/uptime"])
        .current_dir(at)
        .stderr(errors)
        .spawn()
        .unwrap();
    let scans = || {
        let names = files(&at.join("spool"));
        names.iter().filter(|name| !name.starts_with('.')).count()
    };
    while scans() < 2 && agent.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(agent.try_wait().unwrap().is_none(), "it ended");
    agent.kill().unwrap();
    agent.wait().unwrap();
}

/// What `/proc/PID/status` says, in the unit that it has there.
fn status(agent: &Child, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let word = line.unwrap().trim_start_matches(':').split_whitespace();
    word.into_iter().next().unwrap().parse().unwrap()
}

#[test]
fn a_storm_of_scrapes_costs_no_more_than_one() {
    let host = host();
    let at = host.path();
    let (mut agent, address) = listening(at);
    let threads = status(&agent, "Threads");
    // Clients that say nothing, that stop in the middle, and that do not read.
    let idle: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut client = TcpStream::connect(&address).unwrap();
            let some: &[u8] = [&b""[..], b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n"][number % 3];
            client.write_all(some).unwrap();
            client
        })
        .collect();
    let files = std::fs::read_dir(format!("/proc/{}/fd", agent.id())).unwrap();
    assert!(
        files.count() < 64,
        "more clients wait in the queue of the kernel"
    );
    drop(idle);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..250 {
                    assert!(scrape(&address).ends_with("# EOF\n"));
                }
            });
        }
    });
    assert_eq!(status(&agent, "Threads"), threads);
    assert!(
        status(&agent, "VmHWM") < 64 << 10,
        "{} KiB",
        status(&agent, "VmHWM")
    );
    agent.kill().unwrap();
    agent.wait().unwrap();
}

#[test]
fn scans_are_not_delivered_into_the_spool_and_a_spool_has_one_agent() {
    let host = host();
    let at = host.path();
    let once = ["agent", "--once", "--root", "root", "--spool", "spool"];
    assert!(ample(at, &once).status.success());
    std::os::unix::fs::symlink("spool", at.join("link")).unwrap();
    std::fs::create_dir(at.join("spool/sub")).unwrap();
    let before = files(&at.join("spool"));
    for place in ["spool", "link", "spool/sub", "./spool/", "link/sub/new"] {
        let output = ample(at, &[&once[..], &["--deliver", place]].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{place}: {text}");
        assert!(text.contains("is in the spool"), "{place}: {text}");
        assert_eq!(files(&at.join("spool")), before, "{place}");
    }
    let (mut agent, _) = listening(at);
    let other = ample(at, &once);
    let text = String::from_utf8_lossy(&other.stderr).into_owned();
    assert_eq!(other.status.code(), Some(2), "{text}");
    assert!(
        text.contains("another ample agent uses the spool"),
        "{text}"
    );
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(ample(at, &once).status.success());
}

#[test]
fn a_port_that_is_taken_is_said_before_the_first_scan() {
    let host = host();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let agent = ["agent", "--root", "root", "--spool", "spool", "--listen"];
    let output = ample(host.path(), &[&agent[..], &[&address]].concat());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(&address), "{text}");
    let spool = files(&host.path().join("spool"));
    assert!(spool.is_empty(), "{spool:?}");
}

/// The kernel ends a process that writes beyond RLIMIT_FSIZE: a crash at exactly that byte.
#[test]
fn a_crash_at_any_byte_leaves_the_scans_that_were_whole() {
    let host = host();
    let at = host.path();
    let scan = |limit: &str| {
        Command::new("prlimit")
            .args([limit, env!("CARGO_BIN_EXE_ample"), "agent", "--once"])
            .args(["--root", "root", "--spool", "spool", "--deliver", "shared"])
            .current_dir(at)
            .output()
            .unwrap()
    };
    std::fs::create_dir(at.join("shared")).unwrap();
    assert!(scan("--core=0").status.success());
    let first = files(&at.join("shared"));
    let size = std::fs::metadata(at.join("shared").join(&first[0]))
        .unwrap()
        .len();
    for byte in (0..size).step_by(size as usize / 40) {
        let output = scan(&format!("--fsize={byte}"));
        assert!(!output.status.success(), "{byte} of {size}");
        let shared: Vec<String> = files(&at.join("shared"))
            .into_iter()
            .filter(|name| !name.starts_with('.'))
            .collect();
        assert_eq!(shared, first, "after {byte} of {size} bytes");
        let named = |name: &String| name.starts_with("scan-");
        assert!(
            !files(&at.join("spool")).iter().any(named),
            "{byte} of {size}"
        );
    }
    assert!(scan("--core=0").status.success());
    let left = files(&at.join("spool"));
    assert_eq!(left, [".last-scan"], "what was half written is gone");
    let shared = files(&at.join("shared"));
    assert_eq!(
        shared
            .iter()
            .filter(|name| name.starts_with("scan-"))
            .count(),
        2
    );
    for name in shared.iter().filter(|name| name.starts_with("scan-")) {
        let bytes = std::fs::read(at.join("shared").join(name)).unwrap();
        assert!(
            bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"),
            "{name}"
        );
    }
}

#[test]
fn an_agent_that_is_started_again_rests_first() {
    let host = host();
    let at = host.path();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap().as_nanos();
    // The scan before the crash used ten seconds.
    let last = format!("{} 10000000000\n", now - 1_000_000_000);
    let old: &[u8] = b"of the agent before\n";
    save(
        at,
        &[("spool/.last-scan", last.as_bytes()), ("ample.prom", old)],
    );
    let mut agent = Command::new(env!("CARGO_BIN_EXE_ample"))
        .args([
            "agent", "--root", "root", "--spool", "spool", "--every", "1s",
        ])
        .args(["--listen", "0", "--textfile", "ample.prom"])
        .current_dir(at)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(agent.stderr.take().unwrap());
    let mut lines = [String::new(), String::new()];
    for line in &mut lines {
        errors.read_line(line).unwrap();
    }
    let [listens, line] = lines;
    assert!(line.contains("its share of a processor"), "{line}");
    assert!(
        line.contains("begins in 99"),
        "a hundred times as long: {line}"
    );
    // Somebody is there meanwhile, and says when the scan begins.
    let page = scrape(address_in(&listens));
    assert!(page.contains("ample_agent_scans_total 0\n"), "{page}");
    let next = page.lines().find_map(|line| {
        let value = line.strip_prefix("ample_agent_next_scan_timestamp_seconds ");
        value?.parse::<f64>().ok()
    });
    let wanted = now as f64 / 1e9 - 1.0 + 1000.0;
    assert!((next.unwrap() - wanted).abs() < 1.0, "{next:?}, {wanted}");
    assert_eq!(std::fs::read(at.join("ample.prom")).unwrap(), old);
    assert_eq!(files(&at.join("spool")), [".last-scan"]);
    agent.kill().unwrap();
    agent.wait().unwrap();
}

/// An unprivileged user with CAP_SYS_ADMIN alone, as in the unit, sees the pages; without it, not.
#[test]
fn cap_sys_admin_alone_suffices_for_nobody() {
    let root = rustix::process::geteuid().is_root();
    if !root || !cfg!(feature = "bpf") {
        println!("needs root and the BPF reader: not checked here");
        return;
    }
    let spool = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(spool.path(), mode).unwrap();
    let scan = |capabilities: &str| {
        let only = format!("-all{capabilities}");
        Command::new("setpriv")
            .args([
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "--no-new-privs",
            ])
            .args([
                "--inh-caps",
                &only,
                "--ambient-caps",
                &only,
                "--bounding-set",
                &only,
            ])
            .args([env!("CARGO_BIN_EXE_ample"), "agent", "--once", "--spool"])
            .arg(spool.path())
            .output()
            .unwrap()
    };
    let with = scan(",+sys_admin");
    assert!(with.status.success(), "{with:?}");
    let kept = files(spool.path())
        .into_iter()
        .filter(|name| name.starts_with("scan-"))
        .count();
    assert_eq!(kept, 1);
    let without = scan("");
    assert_eq!(without.status.code(), Some(2), "{without:?}");
    let errors = String::from_utf8_lossy(&without.stderr);
    assert!(errors.contains("CAP_SYS_ADMIN"), "{errors}");
}
