//! The list of mutants and the engine's code agree.

use std::collections::BTreeSet;
use std::path::Path;

use basalt_testkit::mutants::Mutant;

/// Collects the names that the sources below a folder ask for.
fn collect_names(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect_names(&path, names);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a readable source");
        let asked = text.split("mutant!(").skip(1);
        names.extend(asked.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())));
    }
}

#[test]
fn the_engine_asks_for_every_mutant_and_for_no_other() {
    let mut asked = BTreeSet::new();
    collect_names(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src"), &mut asked);
    asked.remove("Name"); // The macro's own documentation.
    let listed: BTreeSet<String> = Mutant::ALL.iter().map(|mutant| mutant.name().to_owned()).collect();
    assert_eq!(asked, listed);
}
