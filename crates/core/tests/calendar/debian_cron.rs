//! Agreement with Debian cron: vectors made by its own parser and main-loop rules on tzdb 2025b.
//!
//! `data/debian-cron.tsv` holds the curated rows and every eleventh of the random ones; the first
//! line of the file says how the vectors were made. What may differ, and why ours is right then, is
//! in `schedule::vectors`; `cronstream simulate --vectors` judges any other file.

use std::collections::BTreeMap;

use cronstream_core::schedule::vectors::{Kind, VECTORS_TZDB, Vector, Verdict, release};

const VECTORS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/debian-cron.tsv"));

/// The number of vectors, and of those that differ for each documented reason.
fn judge(vectors: &str) -> (usize, BTreeMap<Kind, usize>) {
    let mut documented = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in vectors.lines() {
        let Some(vector) = Vector::parse(line).unwrap() else { continue };
        count += 1;
        match vector.judge(VECTORS_TZDB).unwrap() {
            Verdict::Agrees => {}
            Verdict::Documented(kind) => *documented.entry(kind).or_insert(0) += 1,
            Verdict::Disagrees { got, .. } => wrong.push(format!("{line}\n    ours: {got}")),
        }
    }
    assert!(wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), wrong.join("\n"));
    (count, documented)
}

#[test]
fn every_vector_agrees_or_differs_for_a_documented_reason() {
    assert_eq!(VECTORS.lines().find_map(release), Some(VECTORS_TZDB));
    let (count, documented) = judge(VECTORS);
    println!("{count} vectors; documented: {documented:?}");
    assert!(count > 1_400);
    // The rest agrees; a reason that covers much more than before is no reason.
    let differ: usize = documented.values().sum();
    assert!(differ < 40, "{documented:?}");
}
