//! The agent: bound pods become folders and shims, what shims say becomes `Pod.status`.
//!
//! One task holds everything that is known. Watches, shims and answers of the server tell it something about a pod; it looks at
//! that pod and does the next thing: fill the folder, write the status, say stop, delete the object, remove the folder. There is
//! at most one request about a pod on its way, and a look after its answer, so writes are coalesced and the last is never lost.

mod admission;
mod adopt;
mod calls;
mod claims;
mod leaving;
mod looks;
mod names;
mod notes;
mod plan;
mod pods;
mod prepare;
mod talks;
mod times;
mod users;
mod watches;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use basalt_api::quantity::Quantity;
use futures::StreamExt;
use kube::Client;
use tokio::net::UnixListener;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tracing::{info, warn};

use super::hosts::NamedService;
use super::machine::cgroups::Hierarchies;
use super::machine::register::Registration;
use super::machine::{Machine, Places, Pressure, Reserve, kept_name};
use super::plan::View;
use super::state::PodState;
use super::talk::{FromShim, ToShim};
use super::trouble::Trouble;
use super::volumes::Rules;
use crate::NodeError;
use crate::addresses::Addresses;
use pods::LocalPod;
use users::Powers;
use watches::News;

pub use super::machine::register::retire;

/// How this machine is a node.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// The node's name; absent: the host's.
    pub name: Option<String>,
    /// Folder of pods (`pods`), claims (`volumes`) and the shims' socket (`node.sock`).
    pub data: PathBuf,
    /// The program whose first argument `pod-shim` makes it a shim.
    pub program: PathBuf,
    /// hostPath volumes must lie in one of these.
    pub host_paths: Vec<PathBuf>,
    /// Whether pods may run as root.
    pub allow_root: bool,
    /// Whether pods end when the agent does.
    pub stop_pods: bool,
    /// Most pods at a time.
    pub pods_max: u32,
    /// Kept for the system.
    pub reserve: Reserve,
    /// First and longest wait before a container is started again, in milliseconds.
    pub backoff_ms: (u64, u64),
}

impl LocalOptions {
    /// The usual ones, with this data folder.
    pub fn new(data: PathBuf) -> Self {
        Self {
            name: None,
            data,
            program: super::shim::program(),
            host_paths: Vec::new(),
            allow_root: false,
            stop_pods: false,
            pods_max: 500,
            reserve: Reserve::default(),
            backoff_ms: (10_000, 300_000),
        }
    }
}

/// Heartbeat of the node.
const BEAT: Duration = Duration::from_secs(10);
/// What tasks read and nobody changes.
struct Shared {
    client: Client,
    options: LocalOptions,
    places: Places,
    registration: Registration,
    allocatable: BTreeMap<String, String>,
    powers: Powers,
    hierarchies: Hierarchies,
    view: View,
    volume_rules: Rules,
}

impl Shared {
    /// How much of a resource pods can have.
    fn allocatable(&self, resource: &str) -> Quantity {
        let text = self.allocatable.get(resource);
        text.and_then(|text| Quantity::parse(text).ok())
            .unwrap_or(Quantity::ZERO)
    }
}

/// What the agent's own tasks tell it.
enum Message {
    Called {
        uid: String,
        number: u64,
        orders: UnboundedSender<ToShim>,
    },
    Said {
        uid: String,
        what: FromShim,
    },
    HungUp {
        uid: String,
        number: u64,
    },
    /// The shim that we started has ended.
    Exited {
        uid: String,
        child: u64,
    },
    Prepared {
        uid: String,
        result: Result<(), Trouble>,
    },
    /// The server answered about a pod: whether it is still there, and whether the request is done.
    Answered {
        uid: String,
        answer: Answer,
    },
    /// A time has come to look again.
    Look {
        uid: String,
        number: u64,
    },
    /// A shim that is gone: what is left of its pod.
    Recovered {
        uid: String,
        left: adopt::Left,
    },
    Refreshed {
        uid: String,
        result: Result<(), Trouble>,
    },
    /// Its folder is gone.
    Removed {
        uid: String,
    },
    HostsWritten,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Shown,
    Deleted,
    Gone,
    Failed,
}

/// Everything that is known.
struct Agent {
    shared: Arc<Shared>,
    messages: UnboundedSender<Message>,
    notes: UnboundedSender<notes::Said>,
    pods: HashMap<String, LocalPod>,
    services: BTreeMap<(String, String), NamedService>,
    addresses: Addresses,
    /// Namespaces whose hosts files may be behind.
    renamed: BTreeSet<String>,
    naming: bool,
    round: u32,
    listed: bool,
    pressure: Pressure,
    /// Shims started so far.
    children: u64,
    /// The server leaves: nothing is started any more.
    leaving: bool,
}

/// Makes this machine a node and serves it until `shutdown` resolves; then its pods go on, unless the options say otherwise.
pub async fn run(client: Client, options: LocalOptions, shutdown: impl Future<Output = ()>) -> Result<(), NodeError> {
    LocalNode::start(client, options).await?.serve(shutdown).await;
    Ok(())
}

/// This machine as a node: registered, and ready to be served.
pub struct LocalNode {
    agent: Agent,
    inbox: UnboundedReceiver<Message>,
    listener: UnixListener,
    to_note: UnboundedReceiver<notes::Said>,
}

impl LocalNode {
    /// Looks around, takes over pods of a server before, and registers the Node.
    pub async fn start(client: Client, options: LocalOptions) -> Result<Self, NodeError> {
        let shared = Arc::new(look_around(client, options).await?);
        let listener = calls::listen(&shared.places.socket()).map_err(|source| NodeError::Local {
            what: format!("listening on {}", shared.places.socket().display()),
            source,
        })?;
        let (messages, inbox) = mpsc::unbounded_channel();
        let (notes, to_note) = mpsc::unbounded_channel();
        let mut agent = Agent {
            shared: Arc::clone(&shared),
            messages,
            notes,
            pods: HashMap::new(),
            services: BTreeMap::new(),
            addresses: Addresses::of_loopback(),
            renamed: BTreeSet::new(),
            naming: false,
            round: 0,
            listed: false,
            pressure: Pressure::now(&shared.places.data),
            children: 0,
            leaving: false,
        };
        // Before anybody calls: who is known by a folder is not taken for a stranger.
        agent.adopt_all();
        let name = shared.registration.machine.name.as_str();
        let written = match retire(&shared.client, Some(name)).await {
            Ok(()) => shared.registration.write(&shared.client, agent.pressure).await,
            error => error,
        };
        written.map_err(|source| NodeError::Create {
            name: name.to_owned(),
            source: Box::new(source),
        })?;
        Ok(Self {
            agent,
            inbox,
            listener,
            to_note,
        })
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.agent.shared.registration.machine.name
    }

    /// What the machine has and how pods are kept apart, in words.
    pub fn words(&self) -> String {
        let shared = &self.agent.shared;
        let gpus = match shared.registration.machine.gpus.devices.as_slice() {
            [] => String::new(),
            all @ [first, ..] => format!(", {} x {}", all.len(), first.product),
        };
        let view = match shared.view {
            View::Namespaces => "own mount namespaces",
            View::UserNamespaces => "own user and mount namespaces",
            View::Shared => "no namespaces: pods with volumes are refused",
        };
        let (cpu, memory) = (shared.allocatable("cpu"), shared.allocatable("memory"));
        format!(
            "{cpu} cores, {memory} memory{gpus}; {view}, {}",
            shared.hierarchies.words()
        )
    }

    /// Whether all pods run as the server's user, for it is not root.
    pub fn single_trust(&self) -> bool {
        !self.agent.shared.powers.is_root()
    }

    /// Serves the node until `shutdown` resolves.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self {
            mut agent,
            mut inbox,
            listener,
            to_note,
        } = self;
        let client = agent.shared.client.clone();
        let calls = tokio::spawn(calls::take(listener, agent.messages.clone()));
        let notes = tokio::spawn(notes::post_all(client, to_note));
        agent.serve(&mut inbox, shutdown).await;
        agent.leave(&mut inbox).await;
        calls.abort();
        // What was noted is still written: the channel ends with the agent.
        drop(agent);
        let _ = tokio::time::timeout(leaving::FINISH_MAX, notes).await;
    }
}

async fn look_around(client: Client, options: LocalOptions) -> Result<Shared, NodeError> {
    let places = Places {
        data: options.data.clone(),
    };
    let failed = |what: &str, path: &std::path::Path, source| NodeError::Local {
        what: format!("{what} {}", path.display()),
        source,
    };
    for folder in [places.pods(), places.claims()] {
        super::volumes::private_folder(&folder).map_err(|source| failed("making", &folder, source))?;
    }
    let (program, data) = (options.program.clone(), options.data.clone());
    let looked = tokio::task::spawn_blocking(move || {
        (
            Machine::look(&data),
            Hierarchies::find(),
            super::shim::find_view(&program),
        )
    });
    let (mut machine, hierarchies, view) = looked
        .await
        .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    machine.name = kept_name(&places.data, options.name.as_deref(), &machine.name)
        .map_err(|source| failed("the node's name in", &places.data, source))?;
    let powers = Powers {
        own: rustix::process::geteuid().as_raw(),
        allow_root: options.allow_root,
    };
    info!(
        node = machine.name,
        gpus = machine.gpus.devices.len(),
        cgroups = hierarchies.words(),
        ?view,
        root = powers.is_root(),
        "this machine is a node"
    );
    let registration = Registration {
        machine,
        reserve: options.reserve,
        pods_max: options.pods_max,
    };
    Ok(Shared {
        volume_rules: Rules {
            claims: places.claims(),
            host_paths: options.host_paths.clone(),
        },
        allocatable: registration.allocatable(),
        client,
        options,
        places,
        registration,
        powers,
        hierarchies,
        view,
    })
}

impl Agent {
    async fn serve(&mut self, inbox: &mut UnboundedReceiver<Message>, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let shared = Arc::clone(&self.shared);
        let mut news = pin!(watches::all(&shared.client, &shared.registration.machine.name));
        let mut beat = tokio::time::interval(BEAT);
        loop {
            tokio::select! {
                () = &mut shutdown => return,
                Some(message) = inbox.recv() => self.heard(message),
                told = news.next() => match told {
                    Some(told) => self.told(told),
                    None => return,
                },
                _ = beat.tick() => self.beat(),
            }
            self.write_names();
        }
    }

    /// What the server says.
    fn told(&mut self, news: News) {
        match news {
            News::PodsRelisting => self.round = self.round.wrapping_add(1),
            News::Pod(pod) => self.pod_applied(*pod),
            News::PodGone(pod) => {
                if let Some(uid) = pod.metadata.uid {
                    self.pod_gone(&uid);
                }
            }
            News::PodsListed => self.pods_listed(),
            News::Service { namespace, name, now } => {
                self.renamed.insert(namespace.clone());
                match now {
                    Some(service) => self.services.insert((namespace, name), service),
                    None => self.services.remove(&(namespace, name)),
                };
            }
            News::Object { kind, namespace, name } => {
                if kind == watches::Kind::Claim {
                    self.bind_claim(&namespace, &name);
                }
                self.object_changed(kind, &namespace, &name);
            }
            News::NodeGone => self.register(),
        }
    }

    /// What our own tasks say.
    fn heard(&mut self, message: Message) {
        match message {
            Message::Called { uid, number, orders } => self.shim_called(&uid, number, orders),
            Message::Said { uid, what } => self.shim_said(&uid, what),
            Message::HungUp { uid, number } => self.shim_hung_up(&uid, number),
            Message::Exited { uid, child } => self.shim_exited(&uid, child),
            Message::Prepared { uid, result } => self.prepared(&uid, result),
            Message::Answered { uid, answer } => self.answered(&uid, answer),
            Message::Look { uid, number } => self.time_came(&uid, number),
            Message::Recovered { uid, left } => self.recovered(&uid, left),
            Message::Refreshed { uid, result } => self.refreshed(&uid, result),
            Message::Removed { uid } => self.forget(&uid),
            Message::HostsWritten => self.naming = false,
        }
    }

    /// Says that the node is served; its status is written only when something about it changed.
    fn beat(&mut self) {
        let pressure = Pressure::now(&self.shared.places.data);
        if pressure != self.pressure {
            self.pressure = pressure;
            self.register();
        }
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            if let Err(error) = shared.registration.renew(&shared.client).await {
                warn!(%error, "the node's lease could not be renewed");
            }
        });
    }

    fn register(&self) {
        let (shared, pressure) = (Arc::clone(&self.shared), self.pressure);
        tokio::spawn(async move {
            if let Err(error) = shared.registration.write(&shared.client, pressure).await {
                warn!(%error, "the node could not be written");
            }
        });
    }

    /// Tells the pod's owner something.
    fn note(&self, pod: &LocalPod, note: crate::events::Note) {
        let _ = self.notes.send(notes::Said {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            note,
        });
    }
}

/// The state in a pod's folder.
pub(super) fn read_state(folder: &super::folder::PodFolder) -> Option<PodState> {
    let text = std::fs::read(folder.state()).ok()?;
    serde_json::from_slice(&text).ok()
}
