//! The way out of every request that changes something, and of the reads that belong to it.

use std::time::Duration;

use http::Request;
use kube::Client;
use kube::core::Status;

use crate::tenure::Tenure;

/// After so long without an answer, a write's outcome is unknown.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Sends requests, for as long as it has the right to. Clones are one.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    tenure: Tenure,
}

impl From<Client> for Writer {
    fn from(client: Client) -> Self {
        Self::new(client, Tenure::unlimited())
    }
}

impl Writer {
    /// A writer that may write while `tenure` lasts.
    pub fn new(client: Client, tenure: Tenure) -> Self {
        Self { client, tenure }
    }

    /// The client beneath, for what only reads.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The right to write.
    pub fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// Sends a request and waits for its answer, but not for ever. No answer is no refusal: the server may have done it.
    pub async fn request_text(&self, request: Request<Vec<u8>>) -> Result<String, kube::Error> {
        let patience = self.tenure.patience().ok_or_else(not_leading)?;
        match tokio::time::timeout(patience.min(ANSWER_MAX), self.client.request_text(request)).await {
            Ok(answer) => answer,
            Err(elapsed) => Err(kube::Error::Service(elapsed.into())),
        }
    }
}

/// A refusal of our own: it was surely not done.
fn not_leading() -> kube::Error {
    let message = "this process does not lead any more: the request was not sent";
    kube::Error::Api(Box::new(Status::failure(message, "NotLeading").with_code(403)))
}
