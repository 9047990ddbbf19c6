//! The table of rules in the documentation is the one that is applied.

use std::fmt::Write;

use basalt_admission::{Class, Operation};

const DOCUMENT: &str = include_str!("../../../../docs/admission.md");

#[test]
fn the_documentation_lists_every_rule() {
    let mut expected = String::from("| rule | what must hold | when | status |\n|---|---|---|---|\n");
    let mut rules: Vec<_> = basalt_admission::rules().collect();
    rules.sort_by_key(|rule| rule.id);
    for rule in rules {
        let when: Vec<&str> = rule
            .operations
            .iter()
            .map(|operation| match operation {
                Operation::Create => "create",
                Operation::Update => "update",
                Operation::Delete => "delete",
            })
            .collect();
        let code = match rule.class {
            Class::Invalid => 422,
            Class::Forbidden => 403,
        };
        let when = when.join(", ");
        writeln!(expected, "| `{}` | {} | {when} | {code} |", rule.id, rule.about).expect("written");
    }
    assert!(
        DOCUMENT.contains(&expected),
        "docs/admission.md must contain this table:\n{expected}"
    );
}
