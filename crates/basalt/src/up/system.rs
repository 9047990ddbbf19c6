//! The parts of one machine's system, started in order and stopped in reverse.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use basalt_admission::Settings;
use basalt_apiserver::Workers;
use basalt_apiserver::http::{FaceOptions, Pki, Rules, Server, ServerOptions, serve_tls};
use basalt_apiserver::store::{Backend, Options as StoreOptions, Store};
use basalt_node::fake::{self, FakeOptions, NodeTemplate, Size};
use basalt_node::local::agent::{self, LocalNode, LocalOptions};
use basalt_node::local::shim;
use futures::FutureExt;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::definitions;
use crate::monitoring::one_page;
use crate::up::hosting::Hosting;
use basalt_runtime::controllers::{self, ControllersOptions};
use basalt_runtime::scheduler::{CONTENT_TYPE, Scheduler, SchedulerOptions};
use basalt_runtime::write::executor::Executor;

/// Schedulers whose pods are ours: Volcano's name, our own, and Kubernetes' default, for embedded there is no other.
const SCHEDULERS: [&str; 3] = ["volcano", "basalt", "default-scheduler"];

/// What a system is made of.
#[derive(Debug, Clone)]
pub struct SystemOptions {
    /// Folder of the store and the keys.
    pub data: PathBuf,
    /// Address of the API server.
    pub listen: SocketAddr,
    /// Where the kubeconfig goes.
    pub kubeconfig: PathBuf,
    /// Number of fake nodes to make.
    pub nodes: u32,
    /// How they look.
    pub template: NodeTemplate,
    /// How this machine is a node; absent: it is none.
    pub local: Option<LocalOptions>,
    /// Whether there is a scheduler in it; without one, a `basalt scheduler` is expected outside.
    pub scheduler: bool,
    /// Whether the controllers are in it; without them, a `basalt controllers` is expected outside.
    pub controllers: bool,
    /// How it schedules; whose pods are ours is not asked here.
    pub scheduling: SchedulerOptions,
    /// The longest time between two choices of the nodes that are locked for queues, while things change.
    pub relock_period: Duration,
    /// What is set about admission.
    pub admission: Settings,
}

impl SystemOptions {
    /// A system for measuring: on a folder, a free port, with nodes of 16 cores and 64 Gi.
    pub fn scratch(data: &Path, nodes: u32) -> anyhow::Result<Self> {
        let template = NodeTemplate::of_size(&Size::new("16", "64Gi", None)?);
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Ok(Self {
            data: data.to_owned(),
            listen,
            kubeconfig: data.join("kubeconfig"),
            nodes,
            template,
            local: None,
            scheduler: true,
            controllers: true,
            scheduling: SchedulerOptions::default(),
            relock_period: controllers::RELOCK_PERIOD,
            admission: Settings::default(),
        })
    }

    /// The same with this machine as its one node.
    pub fn machine(data: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            local: Some(LocalOptions::new(data.to_owned())),
            ..Self::scratch(data, 0)?
        })
    }
}

/// A running system.
pub struct System {
    server: Server,
    store: Store,
    url: String,
    options: SystemOptions,
    tasks: JoinSet<()>,
    failures: mpsc::Receiver<anyhow::Error>,
    serving: tokio::task::JoinHandle<()>,
    ending: watch::Sender<bool>,
    workers: Workers,
    /// Says to this machine's node that it is to leave, and waits until it has left.
    leaving: watch::Sender<bool>,
    left: mpsc::Receiver<()>,
    node: Option<NodeWords>,
}

/// What people are told about this machine as a node.
#[derive(Debug, Clone)]
pub struct NodeWords {
    /// Its name.
    pub name: String,
    /// What it has, and how pods are kept apart.
    pub words: String,
    /// Whether pods are those of one user, who trusts them all.
    pub single_trust: bool,
    /// Whether pods end with the server.
    pub stop_pods: bool,
}

impl System {
    /// Starts everything; returns when the API answers and the nodes are there.
    pub async fn start(options: SystemOptions) -> anyhow::Result<Self> {
        let schedulers: BTreeSet<String> = SCHEDULERS.iter().map(|&name| name.to_owned()).collect();
        let scheduling = SchedulerOptions {
            engine: basalt_engine::Options {
                scheduler_names: schedulers.iter().cloned().collect(),
                ..basalt_engine::Options::embedded()
            },
            ..options.scheduling.clone()
        };
        // Read before anything is made: a bad file must leave no trace.
        scheduling.conf.load(scheduling.built_in)?;
        // The store comes first: it holds the folder's lock, and refuses a folder that is not ours.
        let store = Store::open(store_options(Backend::Disk(options.data.clone())))
            .with_context(|| format!("data folder {}", options.data.display()))?;
        keep_private(&options.data)?;
        let listener = TcpListener::bind(options.listen).await.with_context(|| {
            format!(
                "listening on {}: take another address with --listen ADDR:PORT (port 0 takes a free one)",
                options.listen
            )
        })?;
        let address = listener.local_addr()?;
        let pki = Pki::load_or_create(&options.data.join("pki"), &host_names(address.ip()))?;
        let server = Server::new(
            store.clone(),
            ServerOptions {
                token: Some(pki.token()),
                admission: Arc::new(Rules {
                    settings: options.admission.clone(),
                }),
                ..ServerOptions::default()
            },
        );
        server.bootstrap().await?;
        let workers = server.start_workers();
        definitions::install(&server.client("basalt:up")).await?;
        standard_queues(&server).await?;

        let url = format!("https://{}", reachable(address));
        let (ending, mut ended) = watch::channel(false);
        let (report, failures) = mpsc::channel(1);
        let tls = FaceOptions::new(pki.server_config()?);
        let over = async move {
            // An error means that the sender is gone, which is an end as well.
            let _ = ended.wait_for(|ended| *ended).await;
        };
        let serving = {
            let (server, report) = (server.clone(), report.clone());
            tokio::spawn(async move {
                if let Err(error) = serve_tls(listener, server, tls, over).await {
                    let _ = report.send(error.into()).await;
                }
            })
        };
        let mut system = Self {
            server,
            store,
            url,
            options,
            tasks: JoinSet::new(),
            failures,
            serving,
            ending,
            workers,
            leaving: watch::Sender::new(false),
            left: mpsc::channel(1).1,
            node: None,
        };
        system.start_loops(scheduling, schedulers, &report)?;
        let made = fake::create_nodes(system.inside_client(), system.options.nodes, &system.options.template).await?;
        tracing::info!(created = made.created, kept = made.kept, "fake nodes");
        system.start_node(&report).await?;
        system.server.set_host(Arc::new(system.hosting()));
        pki.write_kubeconfig(&system.options.kubeconfig, &system.url)?;
        Ok(system)
    }

    fn start_loops(
        &mut self,
        options: SchedulerOptions,
        schedulers: BTreeSet<String>,
        report: &mpsc::Sender<anyhow::Error>,
    ) -> anyhow::Result<()> {
        let client = |part: &str| self.server.client(&format!("basalt:{part}"));
        let (controlling, faking) = (client("controllers"), client("node"));
        let numbers = controllers::Numbers::default();
        let controllers = controllers::prepare(ControllersOptions {
            schedulers,
            conf: options.conf.clone(),
            built_in: options.built_in,
            relock_period: self.options.relock_period,
        })?;
        if self.options.scheduler {
            let scheduler = Scheduler::new(client("scheduler"), options)?;
            let (face, numbers) = (scheduler.face(), numbers.clone());
            self.server.set_metrics(CONTENT_TYPE, move || {
                let (face, numbers) = (face.clone(), numbers.clone());
                async move { one_page(&[face.metrics().await, numbers.encode()]) }.boxed()
            });
            self.vital(report, "scheduler", async move { scheduler.run().await.map(drop) });
        }
        if self.options.controllers {
            self.vital(report, "controllers", async move {
                controllers.run(controlling, numbers).await?;
                Ok(())
            });
        }
        self.vital(report, "fake nodes", async move {
            fake::run(faking, FakeOptions::default(), std::future::pending())
                .await
                .map_err(Into::into)
        });
        Ok(())
    }

    /// Makes this machine a node, or says that it is none.
    async fn start_node(&mut self, report: &mpsc::Sender<anyhow::Error>) -> anyhow::Result<()> {
        let client = self.server.client("basalt:node");
        let Some(options) = self.options.local.clone() else {
            return agent::retire(&client, None)
                .await
                .context("nodes that are not served now");
        };
        let stop_pods = options.stop_pods;
        let node = LocalNode::start(client, options).await?;
        self.node = Some(NodeWords {
            name: node.name().to_owned(),
            words: node.words(),
            single_trust: node.single_trust(),
            stop_pods,
        });
        let mut leaving = self.leaving.subscribe();
        let (done, left) = mpsc::channel(1);
        self.left = left;
        self.vital(report, "node of this machine", async move {
            node.serve(async move {
                // An error means that the sender is gone, which is an end as well.
                let _ = leaving.wait_for(|leaving| *leaving).await;
            })
            .await;
            drop(done);
            std::future::pending().await
        });
        Ok(())
    }

    /// Who answers about the processes of pods.
    fn hosting(&self) -> Hosting {
        let local = self.options.local.as_ref();
        Hosting {
            node: self.node.as_ref().map(|node| node.name.clone()),
            pods: self.options.data.join("pods"),
            program: local.map_or_else(shim::program, |local| local.program.clone()),
        }
    }

    /// This machine as a node, if it is one.
    pub fn node(&self) -> Option<&NodeWords> {
        self.node.as_ref()
    }

    /// Runs a part without which the system must not go on pretending.
    fn vital(
        &mut self,
        report: &mpsc::Sender<anyhow::Error>,
        part: &'static str,
        run: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        let report = report.clone();
        self.tasks.spawn(async move {
            let error = match AssertUnwindSafe(run).catch_unwind().await {
                Ok(Ok(())) => anyhow!("the {part} ended"),
                Ok(Err(error)) => error.context(format!("the {part} failed")),
                Err(_) => anyhow!("the {part} panicked: this is a bug"),
            };
            // Only the first failure is told; the system ends with it.
            let _ = report.try_send(error);
        });
    }

    /// Resolves when a part has failed.
    pub async fn failed(&mut self) -> anyhow::Error {
        self.failures
            .recv()
            .await
            .unwrap_or_else(|| anyhow!("a part of the system ended"))
    }

    /// A client that calls the server in-process.
    pub fn inside_client(&self) -> Client {
        self.server.client("system:admin")
    }

    /// A client over TLS with the written kubeconfig, as any outside program has.
    pub async fn outside_client(&self) -> anyhow::Result<Client> {
        let kubeconfig = kube::config::Kubeconfig::read_from(&self.options.kubeconfig)?;
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// Address of the API server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where the kubeconfig is.
    pub fn kubeconfig(&self) -> &Path {
        &self.options.kubeconfig
    }

    /// How many fake nodes were asked for.
    pub fn nodes(&self) -> u32 {
        self.options.nodes
    }

    /// Where the data is.
    pub fn data(&self) -> &Path {
        &self.options.data
    }

    /// Stops everything in order: who decides, who serves, who keeps.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.leaving.send_replace(true);
        // Nothing is ever sent: the channel closes when the node has left.
        let _ = self.left.recv().await;
        self.tasks.shutdown().await;
        drop(self.workers);
        self.ending.send_replace(true);
        self.serving.await.context("the API server's task")?;
        self.store.close();
        Ok(())
    }
}

/// The store holds secrets: nobody else on this machine may look into its folder.
fn keep_private(folder: &Path) -> anyhow::Result<()> {
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(folder, private).with_context(|| format!("making {} private", folder.display()))
}

/// A store for the HTTP face, which says by what its objects are selected.
pub fn store_options(backend: Backend) -> StoreOptions {
    StoreOptions {
        indexer: basalt_apiserver::http::index,
        ..StoreOptions::new(backend)
    }
}

/// Names under which clients may know the server: its own address, and this machine.
fn host_names(address: IpAddr) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let own = address.to_string();
    if !address.is_unspecified() && !names.contains(&own) {
        names.push(own);
    }
    names
}

/// An address that a client on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    let loopback = IpAddr::from([127, 0, 0, 1]);
    if address.ip().is_unspecified() {
        SocketAddr::new(loopback, address.port())
    } else {
        address
    }
}

/// `root` and `default` exist before anybody can submit.
async fn standard_queues(server: &Server) -> anyhow::Result<()> {
    let store = server.store();
    let exists = |name: &str| {
        let key = basalt_apiserver::store::Key::new("queues.scheduling.volcano.sh", "", name);
        store.get(&key).is_some()
    };
    let outcome = basalt_controllers::queue::bootstrap(exists);
    let executor = Executor::new(server.client("basalt:up"), "vc-controller-manager");
    match executor.run(outcome.changes).await {
        (_, None) => Ok(()),
        (_, Some(error)) => Err(anyhow::Error::new(error).context("creating the standard queues")),
    }
}
