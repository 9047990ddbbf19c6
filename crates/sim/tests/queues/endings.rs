//! The end of a queue under controllers whose watches lag: told by hand, so that each race is met for certain.

use basalt_engine::Conf;
use basalt_sim::actor::{Actor, Controllers};
use basalt_sim::api::meta_text;
use basalt_sim::queues::{By, Operation, Work, empty_cluster};
use basalt_sim::{Api, Kernel, Key, Kind, Request, Whim};
use jiff::Timestamp;

/// Requests between two reports of the watches at most.
const REQUESTS_MAX: usize = 100;

/// The controllers alone; every watch but those asleep tells at once.
struct Alone {
    api: Api,
    controllers: Controllers,
    /// Reports that were told, in the order of the kinds that are watched.
    told: Vec<usize>,
    now: Timestamp,
}

impl Alone {
    /// Plays a story to its rest, then lets the controllers start and see all.
    fn after(story: &[Operation]) -> Self {
        let conf = Conf::embedded();
        let empty = empty_cluster(&conf).expect("an empty cluster comes to rest");
        let mut kernel = Kernel::new(&empty, &conf, Whim::none());
        for operation in story {
            let request = operation.request(kernel.api()).expect("something to ask for");
            kernel.ask(&request).expect("a request that is right");
            kernel.settle().expect("rest");
        }
        let snapshot = kernel.api().snapshot();
        let controllers = Controllers::new(&Conf::embedded());
        let mut alone = Self {
            told: vec![0; controllers.watches().len()],
            api: Api::resumed(&snapshot),
            controllers,
            now: snapshot.now(),
        };
        assert_eq!(alone.run(&[]), [""; 0], "nothing is left to do at rest");
        alone
    }

    fn ask(&mut self, operation: Operation) {
        let request = operation.request(&self.api).expect("something to ask for");
        self.api.handle(&request).expect("a request that is right");
    }

    /// Runs to rest, or for a minute, while these watches are asleep; returns the requests about queues that were made, with refusals.
    fn run(&mut self, asleep: &[Kind]) -> Vec<String> {
        let mut made = Vec::new();
        let end = self.now.as_second() + 60;
        for _ in 0..REQUESTS_MAX {
            let kinds = self.controllers.watches();
            for (kind, told) in kinds
                .iter()
                .zip(&mut self.told)
                .filter(|(kind, _)| !asleep.contains(kind))
            {
                for report in self.api.journal(*kind).get(*told..).expect("told before") {
                    self.controllers.take_in(report, self.now);
                }
                *told = self.api.journal(*kind).len();
            }
            let Some(request) = self.controllers.next(&self.api, self.now, &mut Whim::none()) else {
                match self.controllers.next_due() {
                    Some(due) if due.as_second() < end => self.now = due.max(self.now),
                    _ => return made,
                }
                continue;
            };
            let answer = self.api.handle(&request);
            if let Some(line) = told_of(&request) {
                let refused = answer.as_ref().err().map(|refusal| format!(": {}", refusal.code));
                made.push(line + &refused.unwrap_or_default());
            }
            self.controllers.answered(&request, &answer, self.now);
        }
        panic!("no rest: {made:#?}");
    }

    fn has(&self, queue: &str) -> bool {
        self.api.get(&Key::new(Kind::Queue, "", queue)).is_some()
    }
}

/// Deletions and what lets a queue go.
fn told_of(request: &Request) -> Option<String> {
    match request {
        Request::Delete { key, .. } => Some(format!("delete {}", key.name)),
        Request::Patch { key, merge, .. } if merge.pointer("/metadata/finalizers").is_some() => {
            Some(format!("let {} go", key.name))
        }
        _ => None,
    }
}

fn create(queue: u8) -> Operation {
    Operation::Create {
        queue,
        parent: None,
        closed: false,
    }
}

/// The answer to a write of the status tells of the deletion; the queue that was moved under it before is still unseen.
#[test]
fn a_queue_does_not_go_before_a_child_that_the_watch_has_not_shown() {
    let mut alone = Alone::after(&[
        create(0),
        create(1),
        Operation::Submit(0, Work::Job),
        Operation::Finish(0),
        Operation::Close(0, By::Spec),
        Operation::Close(1, By::Spec),
    ]);
    alone.ask(Operation::Reparent(1, Some(0)));
    alone.ask(Operation::Delete(0));
    // A counter changes, so that the status is written.
    let job = Key::new(Kind::Job, "default", "j1");
    let gone = Request::Delete {
        key: job,
        uid: None,
        revision: None,
        grace: None,
    };
    alone.api.handle(&gone).expect("a finished Job can be deleted");
    assert_eq!(
        alone.run(&[Kind::Queue]),
        [""; 0],
        "only an answer has told of the deletion"
    );
    assert!(alone.has("q0") && alone.has("q1"));
    let seen = alone.run(&[]);
    assert!(!alone.has("q0") && !alone.has("q1"), "{seen:?}");
    let at = |what: &str| seen.iter().position(|line| line == what);
    assert!(
        at("delete q1") < at("let q0 go") && at("delete q1").is_some(),
        "{seen:?}"
    );
}

/// The watch of PodGroups has shown nothing since before the queue had one: the store knows better, and refuses.
#[test]
fn a_queue_does_not_go_before_a_group_that_the_watch_has_not_shown() {
    let mut alone = Alone::after(&[create(0)]);
    alone.ask(Operation::Submit(0, Work::Group));
    alone.ask(Operation::Close(0, By::Spec));
    alone.run(&[Kind::PodGroup]);
    let queue = Key::new(Kind::Queue, "", "q0");
    let state = alone
        .api
        .get(&queue)
        .map(|queue| meta_text(queue, "/status/state").to_owned());
    assert_eq!(state.as_deref(), Some("Closed"), "as far as the controllers can see");
    alone.ask(Operation::Delete(0));
    let made = alone.run(&[Kind::PodGroup]);
    assert!(alone.has("q0"), "{made:?}");
    assert!(
        made.len() > 1 && made.len() < 20,
        "tried again, and ever more rarely: {made:?}"
    );
    assert!(made.iter().all(|line| line == "let q0 go: 403"), "{made:?}");
    assert_eq!(alone.run(&[]), [""; 0], "now the controllers see the group, too");
    // The group is deleted by its user, and with it goes what held the queue.
    alone.ask(Operation::Finish(0));
    assert_eq!(alone.run(&[]), ["let q0 go"]);
    assert!(!alone.has("q0"));
}
