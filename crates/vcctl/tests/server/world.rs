//! The real API server, in memory and in this process, and the program against it.

use std::ffi::OsString;

use basalt_apiserver::Workers;
use basalt_apiserver::http::{Server, ServerOptions, index};
use basalt_apiserver::store::{Backend, Options, Store};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::Value;

/// A server and its client.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) server: Server,
    _workers: Workers,
}

/// Exit status, stdout, stderr.
pub(crate) type Outcome = (u8, String, String);

impl World {
    pub(crate) async fn new() -> Self {
        let mut options = Options::new(Backend::Memory);
        options.indexer = index;
        let server = Server::new(
            Store::open(options).expect("a store in memory"),
            ServerOptions::default(),
        );
        server.bootstrap().await.expect("bootstrap");
        let client = server.client("tester");
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let needed = |d: &CustomResourceDefinition| {
            ["Job", "Queue", "PodGroup", "Command"].contains(&d.spec.names.kind.as_str())
        };
        for definition in basalt_api::crd::all().into_iter().filter(needed) {
            definitions
                .create(&PostParams::default(), &definition)
                .await
                .expect("a definition");
        }
        Self {
            client,
            _workers: server.start_workers(),
            server,
        }
    }

    pub(crate) async fn run(&self, line: &[&str]) -> Outcome {
        self.run_as("vcctl", line).await
    }

    /// Runs the program under another name.
    pub(crate) async fn run_as(&self, program: &str, line: &[&str]) -> Outcome {
        let args = [program].iter().chain(line).map(OsString::from).collect::<Vec<_>>();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = basalt_vcctl::run_with(self.client.clone(), args, &mut out, &mut err).await;
        (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    /// Runs a command that must go well, and gives its stdout.
    pub(crate) async fn good(&self, line: &[&str]) -> String {
        let (code, out, err) = self.run(line).await;
        assert_eq!((code, err.as_str()), (0, ""), "{line:?}");
        out
    }

    /// Runs a command that must fail with a status, and gives its stderr.
    pub(crate) async fn bad(&self, code: u8, line: &[&str]) -> String {
        let (got, out, err) = self.run(line).await;
        assert_eq!((got, out.as_str()), (code, ""), "{line:?}: {err}");
        err
    }

    /// A good line, written as in a shell.
    pub(crate) async fn say(&self, line: &str) -> String {
        self.good(&line.split(' ').collect::<Vec<_>>()).await
    }

    pub(crate) async fn queue(&self, name: &str) -> Value {
        serde_json::from_str(&self.good(&["queue", "get", name, "-o", "json"]).await).unwrap()
    }
}
