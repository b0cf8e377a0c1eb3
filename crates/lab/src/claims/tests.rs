// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths, rules and verdicts.

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn result() -> Value {
    json!({
        "rows": [
            { "workload": "web", "policy": "linux", "x": { "mean": 0.3 }, "n": 4, "on": true },
            { "workload": "ci", "policy": "linux", "x": { "mean": 0.2 }, "n": 8, "on": false },
        ],
        "mixes": [
            { "name": "2 MB, a [third]", "n": 1 },
            { "name": "2 MB", "n": 2 },
        ],
        "curve": [[1.0, 2.0], [3.0, 4.0]],
        "none": null,
    })
}

fn find(path: &str) -> Vec<Value> {
    let path = FieldPath::parse(path).expect("a path");
    path.find(&result()).into_iter().cloned().collect()
}

#[test]
fn paths_select_by_name_number_and_field() {
    assert_eq!(find("rows[workload=ci].x.mean"), [json!(0.2)]);
    assert_eq!(find("rows[workload=web,policy=linux].n"), [json!(4)]);
    assert_eq!(find("rows[n=8].workload"), [json!("ci")]);
    assert_eq!(find("rows[on=true].n"), [json!(4)]);
    assert_eq!(find("mixes[name=\"2 MB, a [third]\",n=1].n"), [json!(1)]);
    assert_eq!(find("mixes[name=2 MB].n"), [json!(2)]);
    assert_eq!(find("rows[*].n"), [json!(4), json!(8)]);
    assert_eq!(find("rows[absent=null].n"), [json!(4), json!(8)]);
    assert_eq!(find("curve[-1][0]"), [json!(3.0)]);
    assert!(find("curve[2]").is_empty() && find("none").is_empty() && find("rows.x").is_empty());
    for wrong in ["", ".a", "a..b", "a[", "a[b]", "a[0]b"] {
        assert!(FieldPath::parse(wrong).is_err(), "{wrong}");
    }
}

fn claims(rule: &str) -> Vec<Claim> {
    let text = format!(
        "[[claim]]\nid = 'p.x'\nkind = 'headline'\npaper = 'P'\nwhat = 'x'\n\
         [[claim.check]]\nname = 'mean'\npaper = 0.31\nexperiment = 'e'\n\
         at = 'rows[workload=web].x.mean'\n{rule}\n"
    );
    from_toml(&text).expect("claims")
}

fn verdict(rule: &str, result: Option<&Value>) -> Verdict {
    judge(&claims(rule), false, |_| result)[0].verdict
}

#[test]
fn each_rule_gives_its_verdict() {
    let result = result();
    let of = |rule: &str| verdict(rule, Some(&result));
    assert_eq!(of("rule = { within = 0.02 }"), Verdict::Holds);
    assert_eq!(of("rule = { within = 0.005 }"), Verdict::Misses);
    assert_eq!(
        of("rule = { within = 0.02 }\nfitted = true"),
        Verdict::Calibrated
    );
    assert_eq!(
        of("rule = { within = 0.005 }\nfitted = true"),
        Verdict::Misses
    );
    assert_eq!(of("rule = { within_share = 0.1 }"), Verdict::Holds);
    assert_eq!(of("rule = { between = [0.1, 0.2] }"), Verdict::Misses);
    assert_eq!(of("rule = { at_least = 0.3 }"), Verdict::Holds);
    assert_eq!(of("rule = { at_most = 0.2 }"), Verdict::Misses);
    assert_eq!(of("rule = 'shown'"), Verdict::Context);
    // One value has no shape.
    assert_eq!(of("rule = { rising = 0.0 }"), Verdict::Broken);
    assert_eq!(verdict("rule = 'shown'", None), Verdict::NotRun);
    assert_eq!(verdict("rule = 'shown'", Some(&json!({}))), Verdict::Broken);
}

#[test]
fn an_interval_is_read_as_the_value_is() {
    let result = json!({
        "rows": [{ "x": { "mean": 0.3 }, "workload": "web", "low": 0.2, "high": 0.4 },
                 { "workload": "ci", "low": 0.1, "high": 0.5 }],
        "all": 0.5,
    });
    let of = |rule: &str| judge(&claims(rule), false, |_| Some(&result));
    let rule = "rule = 'shown'\ninterval = ['rows[0].low', 'rows[0].high']";
    assert_eq!(of(rule)[0].checks[0].interval, Some([0.2, 0.4]));
    let scaled = format!("{rule}\nover = 'all'\ntimes = 10.0\nminus = 1.0");
    assert_eq!(of(&scaled)[0].checks[0].interval, Some([3.0, 7.0]));
    let many = "rule = 'shown'\ninterval = ['rows[*].low', 'rows[*].high']";
    assert_eq!(of(many)[0].checks[0].interval, None);
    let picked = of(&format!("{many}\npick = 'max'"));
    assert_eq!(picked[0].checks[0].interval, Some([0.2, 0.5]));
    let gone = of("rule = 'shown'\ninterval = ['rows[0].least', 'rows[0].high']");
    assert_eq!(
        (gone[0].verdict, gone[0].checks[0].interval),
        (Verdict::Context, None)
    );
    let mut accepted = Accepted::default();
    accepted.accept(false, &picked);
    assert_eq!(accepted.full["p.x"]["mean"].interval, Some([0.2, 0.5]));
}

#[test]
fn a_rule_for_full_size_does_not_judge_a_small_version() {
    let result = result();
    let of = |rule: &str, quick| judge(&claims(rule), quick, |_| Some(&result))[0].verdict;
    for rule in [
        "rule = { at_most = 0.2 }",
        "rule = { within = 0.02 }\nfitted = true",
    ] {
        let rule = format!("{rule}\nfull_size = true");
        assert_eq!(of(&rule, true), Verdict::SmallVersion);
        assert_ne!(of(&rule, false), Verdict::SmallVersion);
    }
    assert_eq!(of("rule = { at_most = 0.2 }", true), Verdict::Misses);
    // A value that is gone is seen at any size.
    let gone = judge(
        &claims("rule = { at_most = 1.0 }\nfull_size = true"),
        true,
        |_| Some(&Value::Null),
    );
    assert_eq!(gone[0].verdict, Verdict::Broken);
}

#[test]
fn shapes_look_at_lists() {
    let miss = |rule: Rule, here: &[f64]| rule.miss(here, None);
    assert_eq!(miss(Rule::Rising(0.0), &[1.0, 2.0, 2.0]), Some(0.0));
    assert!(miss(Rule::Rising(0.1), &[1.0, 2.0, 2.0]) > Some(0.0));
    assert_eq!(miss(Rule::Falling(0.5), &[4.0, 2.0, 1.0]), Some(0.0));
    assert!(miss(Rule::Falling(0.0), &[1.0, 2.0]) > Some(0.0));
    assert_eq!(miss(Rule::Flat(0.1), &[10.0, 9.0, 9.5]), Some(0.0));
    assert!(miss(Rule::Flat(0.05), &[10.0, 9.0]) > Some(0.0));
}

#[test]
fn the_shipped_claims_and_verdicts_can_be_read() {
    let claims = shipped();
    assert_eq!(claims.len(), 55);
    let accepted = Accepted::shipped();
    let known = |id: &String| claims.iter().any(|claim| claim.id == *id);
    assert!(accepted.full.keys().chain(accepted.quick.keys()).all(known));
}

#[test]
fn wrong_claims_are_refused() {
    let head = "[[claim]]\nid = 'p.x'\nkind = 'headline'\npaper = 'P'\nwhat = 'x'\n";
    assert!(from_toml(head).is_err(), "no check and no reason");
    let check = "[[claim.check]]\nname = 'a'\nexperiment = 'e'\nat = 'x'\n";
    let no_paper = format!("{head}{check}rule = {{ within = 1.0 }}\n");
    assert!(from_toml(&no_paper).is_err(), "no value of the paper");
    let twice = format!("{head}{check}rule = 'shown'\n{check}rule = 'shown'\n");
    assert!(from_toml(&twice).is_err(), "the same check twice");
    let reason =
        format!("{head}not_reproducible = 'no fleet'\n{check}rule = {{ at_most = 1.0 }}\n");
    assert!(from_toml(&reason).is_err(), "judged and not reproducible");
    let list = check.replace("'x'", "['x', 'y']");
    let list = format!("{head}{list}interval = ['a', 'b']\nrule = {{ rising = 0.0 }}\n");
    assert!(from_toml(&list).is_err(), "the interval of a list");
}

#[test]
fn a_worsened_value_is_found_and_a_better_one_is_not() {
    let claims = claims("rule = { within = 0.02 }");
    let good = result();
    let mut bad = result();
    bad["rows"][0]["x"]["mean"] = json!(0.5);
    let judged = |value: &'static Value| judge(&claims, false, |_| Some(value));
    let good = judged(Box::leak(Box::new(good)));
    let bad = judged(Box::leak(Box::new(bad)));
    let mut accepted = Accepted::default();
    accepted.accept(false, &good);
    assert_eq!(regressions(&accepted, false, &good, |_| true), []);
    let worse = regressions(&accepted, false, &bad, |_| true);
    assert_eq!(worse.len(), 1);
    assert_eq!(worse[0].now, Verdict::Misses);
    assert_eq!(
        regressions(&accepted, false, &bad, |id| id != "e"),
        [],
        "not chosen"
    );
    // The bad value accepted: the good one is no regression.
    accepted.accept(false, &bad);
    assert_eq!(regressions(&accepted, false, &good, |_| true), []);
    let text = serde_json::to_string(&accepted).expect("JSON");
    assert_eq!(
        serde_json::from_str::<Accepted>(&text).expect("JSON"),
        accepted
    );
}

#[test]
fn a_value_that_misses_by_much_more_is_worse() {
    let claims = claims("rule = { within = 0.02 }");
    let at = |mean: f64| {
        let mut value = result();
        value["rows"][0]["x"]["mean"] = json!(mean);
        let value: &'static Value = Box::leak(Box::new(value));
        judge(&claims, false, |_| Some(value))
    };
    let mut accepted = Accepted::default();
    accepted.accept(true, &at(0.40));
    assert_eq!(regressions(&accepted, true, &at(0.41), |_| true), []);
    assert_eq!(regressions(&accepted, true, &at(0.60), |_| true).len(), 1);
}

proptest! {
    #[test]
    fn any_text_is_a_path_or_an_error(text in "[a-z.\\[\\]=,*\"0-9-]{0,24}") {
        if let Ok(path) = FieldPath::parse(&text) {
            path.find(&result());
            prop_assert_eq!(path.to_string(), text);
        }
    }

    #[test]
    fn a_value_at_the_papers_agrees(paper in -1e6..1e6f64, by in 0.0..10.0f64) {
        prop_assert_eq!(Rule::Within(by).miss(&[paper], Some(paper)), Some(0.0));
        prop_assert_eq!(Rule::WithinShare(by).miss(&[paper], Some(paper)), Some(0.0));
        let outside = paper + by * 1.01 + 1e-3;
        prop_assert!(Rule::Within(by).miss(&[outside], Some(paper)) > Some(0.0));
    }
}
