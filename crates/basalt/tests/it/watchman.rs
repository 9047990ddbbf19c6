//! The auditor, looking over the shoulder of every integration test.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use basalt_audit::{Auditor, Finding, Objects};
use kube::Client;
use serde_json::Value;

/// Collections that are audited; the first one's revision is the one at which all are read.
const COLLECTIONS: [&str; 5] = [
    "/api/v1/pods",
    "/api/v1/nodes",
    "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    "/apis/scheduling.volcano.sh/v1beta1/queues",
    "/apis/batch.volcano.sh/v1alpha1/jobs",
];
/// Statuses must follow the facts within this time.
const SETTLING: Duration = Duration::from_secs(10);

/// An auditor with its memory, for one server's life.
#[derive(Default)]
pub(crate) struct Watchman(Mutex<Auditor>);

impl Watchman {
    /// Checks what must hold at every moment.
    pub(crate) async fn look(&self, client: &Client) {
        let objects = read(client).await;
        let findings = self.0.lock().expect("no test panics while auditing").observe(&objects);
        assert!(findings.is_empty(), "the auditor found {findings:#?}");
    }

    /// Checks what must hold once everything has come to rest.
    pub(crate) async fn settle(&self, client: &Client) {
        let begun = Instant::now();
        loop {
            let objects = read(client).await;
            let findings: Vec<Finding> = self.0.lock().expect("no test panics while auditing").settled(&objects);
            if findings.is_empty() {
                return;
            }
            assert!(
                begun.elapsed() < SETTLING,
                "after {SETTLING:?} the auditor still finds {findings:#?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Everything that is audited, at one revision.
async fn read(client: &Client) -> Objects {
    let mut objects = Objects::default();
    let mut at = String::new();
    for collection in COLLECTIONS {
        let request = http::Request::get(format!("{collection}{at}"))
            .body(Vec::new())
            .expect("a request");
        let mut list: Value = client.request(request).await.expect("a list");
        if at.is_empty() {
            let revision = list["metadata"]["resourceVersion"]
                .as_str()
                .expect("a list has a revision");
            at = format!("?resourceVersion={revision}&resourceVersionMatch=Exact");
        }
        let kind = list["kind"]
            .as_str()
            .and_then(|kind| kind.strip_suffix("List"))
            .unwrap_or_default()
            .to_owned();
        for item in list["items"].as_array_mut().expect("a list has items") {
            let mut item = item.take();
            item["kind"] = Value::from(kind.as_str()); // items of a list may leave it out
            assert!(objects.insert(item), "{kind} is audited");
        }
    }
    objects
}
