//! The whole system as child processes, embedded or on Kubernetes, and the real `kubectl` against it.

pub(crate) mod child;
mod embedded;
mod kubernetes;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::watchman::Watchman;
pub(crate) use child::Ends;
pub(crate) use kubernetes::{Cluster, Manager, http_get, is_asked_for as on_kubernetes};

/// A running system; killed when dropped.
pub(crate) struct Server {
    backend: Backend,
    /// Its data folder.
    pub(crate) data: PathBuf,
    pub(crate) watchman: Watchman,
}

/// What the suite runs on.
enum Backend {
    /// `basalt up`.
    Embedded(Ends),
    /// Kubernetes, with the parts of Basalt on it.
    Kubernetes(Box<Cluster>),
}

impl Server {
    /// Starts the system on `data` with a free port and waits until it is ready: `basalt up`, or a cluster where the suite
    /// runs on Kubernetes.
    pub(crate) fn start(data: &Path, arguments: &[&str]) -> Self {
        if on_kubernetes() {
            return Self::new(data, Backend::Kubernetes(Box::new(Cluster::start(data, arguments))));
        }
        Self::start_on("127.0.0.1:0", data, arguments)
    }

    /// `basalt up` on a given address.
    pub(crate) fn start_on(listen: &str, data: &Path, arguments: &[&str]) -> Self {
        Self::new(data, Backend::Embedded(Ends(embedded::start(listen, data, arguments))))
    }

    fn new(data: &Path, backend: Backend) -> Self {
        Self {
            backend,
            data: data.to_owned(),
            watchman: Watchman::default(),
        }
    }

    /// The cluster, in cases that are about Kubernetes.
    pub(crate) fn cluster(&mut self) -> &mut Cluster {
        match &mut self.backend {
            Backend::Embedded(_) => panic!("this case is about Kubernetes"),
            Backend::Kubernetes(cluster) => cluster,
        }
    }

    /// The metrics of the system.
    pub(crate) fn metrics(&self) -> String {
        match &self.backend {
            Backend::Embedded(_) => self.kubectl(&["get", "--raw", "/metrics"]),
            Backend::Kubernetes(cluster) => cluster.metrics(),
        }
    }

    /// The kubeconfig it wrote.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.data.join("kubeconfig")
    }

    /// A client over TLS with the kubeconfig's token, as any outside program has.
    pub(crate) async fn client(&self) -> kube::Client {
        let kubeconfig = kube::config::Kubeconfig::read_from(self.kubeconfig()).expect("the kubeconfig reads");
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
            .await
            .expect("the kubeconfig makes a client");
        kube::Client::try_from(config).expect("the client builds")
    }

    /// Lets the auditor look: at what holds always, or, `at_rest`, also at what holds once nothing moves any more.
    pub(crate) fn audit(&self, at_rest: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let client = self.client().await;
            if at_rest {
                self.watchman.settle(&client).await;
            } else {
                self.watchman.look(&client).await;
            }
        });
    }

    /// `kill -9`: no goodbye.
    pub(crate) fn kill(&mut self) {
        match &mut self.backend {
            Backend::Embedded(server) => child::kill(&mut server.0),
            Backend::Kubernetes(cluster) => cluster.kill(),
        }
    }

    /// SIGTERM, then waits; returns the exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        match &mut self.backend {
            Backend::Embedded(server) => child::stop(&mut server.0),
            Backend::Kubernetes(cluster) => cluster.stop(),
        }
    }

    /// Runs kubectl with this server's kubeconfig, without looking at the outcome.
    pub(crate) fn kubectl_raw(&self, arguments: &[&str]) -> Output {
        Command::new("kubectl")
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", &self.data)
            .args(arguments)
            .output()
            .expect("kubectl runs")
    }

    /// Runs kubectl, which must succeed without a warning; returns what it printed.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.kubectl_raw(arguments);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success(),
            "kubectl {arguments:?} failed\n{stdout}\n{stderr}"
        );
        self.audit(false);
        assert!(!stderr.contains("Warning"), "kubectl {arguments:?} warned: {stderr}");
        stdout
    }

    /// Runs vcctl without looking at the outcome.
    pub(crate) fn vcctl_raw(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_vcctl"))
            .env("KUBECONFIG", self.kubeconfig())
            .args(arguments)
            .output()
            .expect("vcctl runs")
    }

    /// Runs vcctl, which must succeed; returns what it printed.
    pub(crate) fn vcctl(&self, arguments: &[&str]) -> String {
        let output = self.vcctl_raw(arguments);
        assert!(output.status.success(), "vcctl {arguments:?} failed: {output:?}");
        self.audit(false);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Whether kubectl is here. Where `BASALT_REQUIRE_KUBECTL` is set (as in CI) its absence is a failure.
pub(crate) fn kubectl_present() -> bool {
    let present = Command::new("kubectl")
        .args(["version", "--client"])
        .output()
        .is_ok_and(|o| o.status.success());
    assert!(
        present || std::env::var_os("BASALT_REQUIRE_KUBECTL").is_none(),
        "kubectl is required but not installed"
    );
    if !present {
        eprintln!("NOT RUN: kubectl is not installed, so this test had nothing to drive");
    }
    present
}

/// The path of a file under `examples/`.
pub(crate) fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    root.to_str().expect("the checkout's path is text").to_owned()
}

/// Polls `probe` until it gives something, at most `limit`.
pub(crate) fn eventually<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
