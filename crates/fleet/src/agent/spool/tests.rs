// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

fn names_of(directory: &Path) -> Vec<String> {
    let mut all = names(directory).unwrap();
    all.sort();
    all
}

#[test]
fn the_oldest_scans_go_first_and_other_files_stay() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), 100).unwrap();
    fs::write(folder.path().join("notes-1.parquet"), [0; 500]).unwrap();
    // 999 is older than 1000, though not as text.
    for (time, dropped) in [(1000, 0), (999, 0), (1001, 0), (1002, 1)] {
        let began = Duration::from_nanos(time);
        assert_eq!(
            spool.store("a", began, &[7; 30]).unwrap(),
            dropped,
            "{time}"
        );
    }
    assert_eq!(
        spool.usage().unwrap(),
        Usage {
            files: 3,
            bytes: 90
        }
    );
    assert_eq!(
        names_of(folder.path()),
        [
            "notes-1.parquet",
            "scan-a-1000.parquet",
            "scan-a-1001.parquet",
            "scan-a-1002.parquet"
        ]
    );
    assert!(
        spool
            .store("a", Duration::from_nanos(1003), &[0; 101])
            .is_err()
    );
    assert_eq!(
        spool.usage().unwrap().files,
        3,
        "what is too large costs no other scan"
    );
}

#[test]
fn two_scans_of_one_second_are_two_files() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), 1000).unwrap();
    for milliseconds in [1_793_491_200_001, 1_793_491_200_002] {
        let began = Duration::from_millis(milliseconds);
        spool.store("a", began, b"scan").unwrap();
    }
    assert_eq!(spool.usage().unwrap().files, 2);
}

#[test]
fn what_a_crash_left_is_gone_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), 1000).unwrap();
    spool.store("a", Duration::from_nanos(1), b"whole").unwrap();
    fs::write(folder.path().join(".scan-a-2.parquet.17.tmp"), b"ha").unwrap();
    assert_eq!(
        spool.usage().unwrap().files,
        1,
        "an unfinished file does not count"
    );
    drop(spool);
    let spool = Spool::open(folder.path(), 1000).unwrap();
    assert_eq!(names_of(folder.path()), ["scan-a-1.parquet"]);
    assert_eq!(spool.usage().unwrap().bytes, 5);
}

#[test]
fn what_the_last_scan_cost_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), 1000).unwrap();
    assert_eq!(spool.last(), None);
    let last = LastScan {
        began: Duration::new(1_793_491_200, 5),
        cpu: Duration::from_millis(1234),
    };
    spool.remember(last).unwrap();
    fs::write(folder.path().join("..last-scan.17.tmp"), "17").unwrap();
    drop(spool);
    let spool = Spool::open(folder.path(), 1000).unwrap();
    assert_eq!(spool.last(), Some(last));
    assert_eq!(names_of(folder.path()), [".last-scan"]);
    assert_eq!(spool.usage().unwrap(), Usage::default());
    for text in ["", "1", "1 2 3", "-1 2", "1 x", "99999999999999999999 1"] {
        assert_eq!(LastScan::parse(text), None, "{text}");
    }
}

#[test]
fn a_host_name_cannot_leave_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(&folder.path().join("spool"), 1000).unwrap();
    spool
        .store("../../evil/\n", Duration::from_nanos(7), b"x")
        .unwrap();
    assert_eq!(names_of(folder.path()), ["spool"]);
    assert_eq!(
        names_of(&folder.path().join("spool")),
        ["scan-.._.._evil__-7.parquet"]
    );
}

#[test]
fn what_cannot_be_delivered_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (own, shared) = (folder.path().join("own"), folder.path().join("shared"));
    let spool = Spool::open(&own, 1000).unwrap();
    spool.store("a", Duration::from_nanos(1), b"one").unwrap();
    spool.store("a", Duration::from_nanos(2), b"two").unwrap();
    let put = |name: &str, bytes: &[u8]| write_whole(&shared, name, bytes);
    let deliver = || spool.deliver(LONGEST, &put).unwrap();
    let late = deliver();
    assert_eq!((late.moved, late.kept.len()), (0, 2), "it does not exist");
    assert_eq!(spool.usage().unwrap().files, 2);
    fs::create_dir(&shared).unwrap();
    assert_eq!(deliver().moved, 2);
    assert_eq!(spool.usage().unwrap(), Usage::default());
    assert_eq!(fs::read(shared.join("scan-a-2.parquet")).unwrap(), b"two");
}

const LONGEST: Duration = Duration::from_secs(60);

/// A spool of scans of the nanoseconds 1 to 9, one byte each.
fn nine(folder: &Path) -> Spool {
    let spool = Spool::open(folder, 1000).unwrap();
    for time in 1..=9 {
        spool.store("a", Duration::from_nanos(time), b"x").unwrap();
    }
    spool
}

#[test]
fn a_scan_that_is_not_taken_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let spool = nine(folder.path());
    fs::create_dir(folder.path().join("scan-a-0.parquet")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("scan-b-0.parquet")).unwrap();
    let put = |name: &str, _: &[u8]| match name {
        "scan-a-1.parquet" | "scan-a-2.parquet" | "scan-a-3.parquet" => bail!("refused"),
        _ => Ok(()),
    };
    let done = spool.deliver(LONGEST, &put).unwrap();
    let kept: Vec<&str> = done.kept.iter().map(|(name, _)| &name[..]).collect();
    assert_eq!(done.moved, 6, "{kept:?}");
    assert_eq!(kept[..2], ["scan-a-0.parquet", "scan-b-0.parquet"]);
    assert_eq!(
        kept[2..],
        ["scan-a-1.parquet", "scan-a-3.parquet", "scan-a-2.parquet"]
    );
    let why = format!("{:#}", done.kept[0].1);
    assert!(why.ends_with("is no file"), "{why}");
    // Neither does it keep a full spool from making room.
    let usage = Usage { files: 3, bytes: 3 };
    assert_eq!(spool.usage().unwrap(), usage);
    let late = Duration::from_nanos(10);
    assert_eq!(spool.store("a", late, &[0; 999]).unwrap(), 2);
}

#[test]
fn a_place_that_is_away_is_not_asked_for_every_scan() {
    let folder = tempfile::tempdir().unwrap();
    let spool = nine(folder.path());
    let asked = std::cell::RefCell::new(Vec::new());
    let put = |name: &str, _: &[u8]| {
        asked.borrow_mut().push(name.to_string());
        bail!("away")
    };
    let done = spool.deliver(LONGEST, &put).unwrap();
    assert!(done.given_up);
    assert_eq!((done.moved, done.kept.len()), (0, REFUSED_IN_A_ROW));
    // Both ends were tried: only one of them may be wrong.
    let names = ["scan-a-1.parquet", "scan-a-9.parquet", "scan-a-2.parquet"];
    assert_eq!(*asked.borrow(), names);
    assert_eq!(spool.usage().unwrap().files, 9);
}

#[test]
fn scans_of_a_clock_that_was_wrong_displace_none() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), 3).unwrap();
    let now = Duration::from_secs(1_793_491_200);
    let year = Duration::from_secs(365 * 24 * 3600);
    for began in [now + year, now, now + 2 * AHEAD, now + AHEAD] {
        spool.store("a", began, b"x").unwrap();
    }
    let left = |began: Duration| folder.path().join(name("a", began)).exists();
    assert!(left(now) && left(now + AHEAD) && left(now + 2 * AHEAD));
    let later = now + AHEAD / 2;
    assert_eq!(spool.store("a", later, b"x").unwrap(), 1);
    assert!(left(now) && left(now + AHEAD) && left(later));
}

#[test]
fn scans_are_not_delivered_to_where_they_wait() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    let spool = Spool::open(&own, 1000).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&own, &link).unwrap();
    fs::create_dir(own.join("sub")).unwrap();
    fs::create_dir(folder.path().join("shared")).unwrap();
    for wrong in [
        own.clone(),
        link.clone(),
        own.join("sub"),
        link.join("sub/../sub"),
        own.join("new/er"),
        folder.path().join("shared/../own"),
    ] {
        let told = spool.apart_from(&wrong).unwrap_err().to_string();
        assert!(told.contains("where they wait"), "{told}");
    }
    for right in ["shared", "new", ""] {
        spool.apart_from(&folder.path().join(right)).unwrap();
    }
}

#[test]
fn a_spool_has_one_owner() {
    let folder = tempfile::tempdir().unwrap();
    let spool = nine(folder.path());
    let half = folder.path().join(".scan-a-10.parquet.17.tmp");
    fs::write(&half, b"ha").unwrap();
    let told = Spool::open(folder.path(), 1000).unwrap_err().to_string();
    assert!(told.contains("another ample agent"), "{told}");
    assert!(half.exists(), "the first one is about to finish it");
    drop(spool);
    Spool::open(folder.path(), 1000).unwrap();
    assert!(!half.exists());
}
