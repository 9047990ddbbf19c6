//! The documents on queues, on reservation and on scaling jobs, sentence by sentence: each promise is a step with real `kubectl` and real `vcctl`.
//!
//! The promises are in `promises.rs`; the steps that prove them are in `states.rs`, `sharing.rs`, `reservation.rs`, `tree.rs`
//! and `scaling.rs`. A step needs
//! nothing but a kubeconfig, `kubectl` and `vcctl`: see [`cluster::Cluster::with`] for running them on another cluster.

mod cluster;
mod manifests;
mod promises;
mod reservation;
mod scaling;
mod sharing;
mod states;
mod tree;

use std::collections::BTreeSet;
use std::time::Instant;

use cluster::{Cluster, Conf};

use crate::server::kubectl_present;

/// Steps that follow each other on one cluster.
struct Story {
    conf: Conf,
    steps: &'static [Step],
}

/// Ids of the promises that a step proves, and how it does.
type Step = (&'static [&'static str], fn(&Cluster));

/// What `basalt up` has when nothing is said: capacity as a tree, with reclaim.
const BUILT_IN: Conf = Conf {
    name: "built-in",
    text: None,
};

fn tell(story: &Story) {
    if !kubectl_present() {
        return;
    }
    let cluster = Cluster::with(story.conf);
    for (ids, prove) in story.steps {
        let begun = Instant::now();
        for id in *ids {
            let promise = promises::all().find(|promise| promise.id == *id).expect("a promise");
            let (seed, lines) = id.split_once(':').expect("seed:lines");
            println!("seed {seed} §{lines}: {}", promise.says);
        }
        prove(&cluster);
        cluster.audit(false);
        println!("  … shown in {:.1} s", begun.elapsed().as_secs_f64());
    }
    cluster.audit(true);
}

#[test]
fn every_promise_has_a_step() {
    let stories = [
        states::STORIES,
        sharing::STORIES,
        reservation::STORIES,
        tree::STORIES,
        scaling::STORIES,
    ]
    .concat();
    let shown = stories
        .into_iter()
        .flat_map(|story| story.steps)
        .flat_map(|(ids, _)| ids.iter().copied());
    let shown: BTreeSet<&str> = shown.collect();
    let promised: BTreeSet<&str> = promises::all().map(|promise| promise.id).collect();
    assert_eq!(promised.len(), promises::all().count(), "an id is used twice");
    assert_eq!(promised, shown, "left: promised, right: shown");
}

#[test]
fn seed_0_states() {
    tell(&states::STATES);
}

#[test]
fn seed_0_limits() {
    tell(&states::LIMITS);
}

#[test]
fn seed_1_counters_admission_and_words() {
    tell(&sharing::COUNTED);
}

#[test]
fn seed_1_proportion() {
    tell(&sharing::PROPORTION);
}

#[test]
fn seed_1_backfill() {
    tell(&sharing::BACKFILL);
}

#[test]
fn seed_2_locks() {
    tell(&reservation::LOCKS);
}

#[test]
fn seed_2_choice() {
    tell(&reservation::CHOICE);
}

#[test]
fn seed_3_shape() {
    tell(&tree::SHAPE);
}

#[test]
fn seed_3_victims() {
    tell(&tree::VICTIMS);
    tell(&tree::PREEMPT);
}

#[test]
fn seed_3_flat() {
    tell(&tree::FLAT);
}

#[test]
fn seed_4_scaling() {
    tell(&scaling::SCALING);
}
