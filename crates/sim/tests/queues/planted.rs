//! Bugs planted into actors: the auditor must find each.

use basalt_engine::Conf;
use basalt_sim::actor::{Actor, Controllers};
use basalt_sim::queues::{By, Operation, Work, empty_cluster};
use basalt_sim::{Answer, Api, Kernel, Key, Kind, Request, Whim, Who};
use jiff::Timestamp;
use serde_json::json;

/// What a rogue does with a request of the controllers.
type Twist = fn(Request) -> Option<Request>;

/// Controllers with a bug.
struct Rogue {
    inner: Controllers,
    twist: Twist,
    /// Requests of its own, before all others.
    own: Vec<Request>,
    mine: bool,
}

impl Actor for Rogue {
    fn name(&self) -> &'static str {
        "rogue"
    }

    fn watches(&self) -> &'static [Kind] {
        self.inner.watches()
    }

    fn take_in(&mut self, report: &basalt_sim::api::Report, now: Timestamp) {
        self.inner.take_in(report, now);
    }

    fn listed(&mut self, kind: Kind, now: Timestamp) {
        self.inner.listed(kind, now);
    }

    fn next(&mut self, api: &Api, now: Timestamp, whim: &mut Whim) -> Option<Request> {
        self.mine = !self.own.is_empty();
        if let Some(request) = self.own.pop() {
            return Some(request);
        }
        loop {
            let request = self.inner.next(api, now, whim)?;
            match (self.twist)(request.clone()) {
                Some(twisted) => return Some(twisted),
                // Dropped: the controllers believe that it was done.
                None => self
                    .inner
                    .answered(&request, &Ok(std::sync::Arc::new(json!(null))), now),
            }
        }
    }

    fn answered(&mut self, request: &Request, answer: &Answer, now: Timestamp) {
        if !self.mine {
            self.inner.answered(request, answer, now);
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.inner.next_due()
    }
}

/// Plays a story with a rogue among the actors, and expects this finding.
#[track_caller]
fn check(title: &str, twist: Twist, own: Vec<Request>, story: &[Operation], expected: &str) {
    let conf = Conf::embedded();
    let empty = empty_cluster(&conf).expect("an empty cluster comes to rest");
    let (parent, closed) = (None, false);
    for planted in [false, true] {
        let mut kernel = Kernel::new(&empty, &conf, Whim::none());
        let create = Operation::Create {
            queue: 0,
            parent,
            closed,
        };
        for operation in std::iter::once(&create).chain(story) {
            let request = operation.request(kernel.api()).expect("something to ask for");
            kernel.ask(&request).expect("a request that is right");
            kernel.settle().expect("rest");
        }
        if planted {
            let rogue = Rogue {
                inner: Controllers::new(&Conf::embedded()),
                twist,
                own: own.clone(),
                mine: false,
            };
            kernel.replace(Who::Controllers, Box::new(rogue));
        }
        let last = Operation::Close(0, By::Spec).request(kernel.api()).expect("a request");
        kernel.ask(&last).expect("a request that is right");
        // A bug may well keep the cluster from coming to rest.
        let _stuck = kernel.settle();
        let found = kernel.settled_findings();
        let hit = found.iter().any(|finding| finding.invariant.id() == expected);
        assert_eq!(hit, planted, "{title}: {found:#?}");
    }
}

fn queue() -> Key {
    Key::new(Kind::Queue, "", "q0")
}

#[test]
fn planted_bugs_are_found() {
    check(
        "no state is ever written",
        |request| match &request {
            Request::Patch { key, status: true, .. } if key.kind == Kind::Queue => None,
            _ => Some(request),
        },
        Vec::new(),
        &[],
        "L1",
    );
    check(
        "closed at once",
        |request| match request {
            Request::Patch {
                key,
                status: true,
                mut merge,
            } if key.kind == Kind::Queue => {
                merge["status"]["state"] = json!("Closed");
                Some(Request::Patch {
                    key,
                    status: true,
                    merge,
                })
            }
            request => Some(request),
        },
        Vec::new(),
        &[Operation::Submit(0, Work::Job)],
        "I8",
    );
    let open = Request::Patch {
        key: queue(),
        status: false,
        merge: json!({"spec": {"state": "Open"}}),
    };
    check("opened unasked", Some, vec![open], &[], "Q2");
    let gone = |kind, name: &str| Request::Delete {
        key: Key::new(kind, "default", name),
        uid: None,
        revision: None,
        grace: None,
    };
    let submit = [Operation::Submit(0, Work::Job)];
    check("a Job is deleted", Some, vec![gone(Kind::Job, "j1")], &submit, "Q3");
    let submit = [Operation::Submit(0, Work::Group)];
    check(
        "a group is deleted",
        Some,
        vec![gone(Kind::PodGroup, "g1")],
        &submit,
        "Q3",
    );
}
