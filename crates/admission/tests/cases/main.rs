//! The cases of the table, and what a table cannot say. Every rule must have a case that it refuses
//! and a case in which the same rule is met.

mod defects;
mod delivery;
mod docs;
mod fuzz;
mod job;
mod mutate;
mod queue;
mod reviews;
mod sums;
#[path = "table/table.rs"]
mod table;

use std::collections::BTreeSet;

use table::all;

#[test]
fn every_case_ends_as_written() {
    let failures: Vec<String> = all().iter().filter_map(table::mismatch).collect();
    assert!(
        failures.is_empty(),
        "{} cases:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn every_rule_has_a_case_that_breaks_it_and_one_that_meets_it() {
    let rows = all();
    let about = |refused: bool| {
        rows.iter()
            .filter(move |row| row.refused == refused)
            .map(|row| row.rule)
    };
    let (broken, met): (BTreeSet<&str>, BTreeSet<&str>) = (about(true).collect(), about(false).collect());
    let known: BTreeSet<&str> = basalt_admission::rules().map(|rule| rule.id).collect();
    let lacking: Vec<_> = known
        .iter()
        .filter(|id| !broken.contains(**id) || !met.contains(**id))
        .collect();
    assert!(
        lacking.is_empty(),
        "rules that lack a refuse or an accept case: {lacking:?}"
    );
    let unknown: Vec<_> = broken.union(&met).filter(|id| !known.contains(**id)).collect();
    assert!(unknown.is_empty(), "cases about rules that do not exist: {unknown:?}");
}

#[test]
fn rule_ids_are_unique_and_explained() {
    let mut seen = BTreeSet::new();
    for rule in basalt_admission::rules() {
        assert!(seen.insert(rule.id), "{} appears twice", rule.id);
        assert!(
            rule.about.len() > 10 && !rule.operations.is_empty(),
            "{} says nothing",
            rule.id
        );
    }
}

#[test]
fn every_refusal_names_the_object() {
    for row in all().iter().filter(|row| row.refused) {
        let message = table::refusal(row).expect("it is refused").message;
        // A name that the server will make is known by its beginning.
        assert!(message.contains(&row.name), "{}: {message}", row.title);
    }
}
