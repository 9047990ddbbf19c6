//! The auditor, looking over the shoulder of every integration test.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use basalt_audit::{Auditor, Finding, Objects};
use kube::Client;

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

async fn read(client: &Client) -> Objects {
    basalt_runtime::audited_objects::objects(client)
        .await
        .expect("all objects")
}
