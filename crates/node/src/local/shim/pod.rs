//! The life of a pod: init containers one after another, then the others together, then nothing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::FlockOperation;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep, sleep_until};

use super::cgroups::Cgroups;
use super::container::{Role, live};
use super::reaper::Reaper;
use super::record::{Record, waiting};
use super::{stage, talker, tree};
use crate::local::folder::PodFolder;
use crate::local::plan::{ContainerPlan, PodPlan};
use crate::local::state::{Ended, Over, PodState, ProcessId};
use crate::local::talk::ToShim;

/// How often the shim looks whether its folder is still there.
const LOOK: Duration = Duration::from_secs(5);

/// What all parts of the shim share.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) folder: PodFolder,
    pub(super) plan: PodPlan,
    pub(super) record: Rc<Record>,
    pub(super) reaper: Reaper,
    /// When the containers are to be dead, once somebody wants that.
    stop: watch::Sender<Option<Instant>>,
    /// The same for the sidecars, which go last.
    stop_sidecars: watch::Sender<Option<Instant>>,
}

/// One container's view of whether it is to end.
#[derive(Debug, Clone)]
pub(super) struct StopWatch(watch::Receiver<Option<Instant>>);

impl StopWatch {
    /// Whether somebody wants it to end.
    pub(super) fn is_wanted(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Comes back when somebody does, with the moment by which it is to be dead.
    pub(super) async fn wanted(&mut self) -> Instant {
        let until = self.0.wait_for(Option::is_some).await.ok().and_then(|until| *until);
        // The sender lives as long as the pod.
        until.unwrap_or_else(Instant::now)
    }

    /// Comes back when the moment has come by which it is to be dead.
    pub(super) async fn due(&mut self) {
        let until = self.wanted().await;
        tokio::select! {
            () = sleep_until(until) => {}
            () = self.sooner(until) => {}
        }
    }

    /// Comes back when a moment has come that is nearer than `before`: somebody lost patience.
    pub(super) async fn sooner(&mut self, before: Instant) {
        loop {
            let nearer = self.0.borrow_and_update().filter(|until| *until < before);
            let due = async {
                match nearer {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => return,
                changed = self.0.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }
}

/// Asks for the end, or for a nearer one.
fn shorten(stop: &watch::Sender<Option<Instant>>, until: Instant) {
    stop.send_if_modified(|wanted| {
        let nearer = wanted.is_none_or(|before| until < before);
        if nearer {
            *wanted = Some(until);
        }
        nearer
    });
}

impl Pod {
    /// Ends the pod within this time.
    pub(super) fn stop_within(&self, grace: Duration) {
        let until = Instant::now() + grace;
        shorten(&self.stop, until);
        if self.stop_sidecars.borrow().is_some() {
            shorten(&self.stop_sidecars, until);
        }
    }

    /// The time that containers have when the shim ends them by itself.
    pub(super) fn grace(&self) -> Duration {
        Duration::from_secs(u64::from(self.plan.grace_seconds))
    }
}

/// Runs the pod of this folder, once and for all.
pub(super) fn main(folder: PodFolder) -> io::Result<()> {
    // A pod runs once: whoever comes second finds the lock held, or the state.
    let lock = File::open(folder.plan()).map_err(|error| about("plan", error))?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|error| about("another shim runs this pod", error.into()))?;
    if folder.state().exists() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "this pod has been run already",
        ));
    }
    let plan = super::read_plan(&folder)?;
    // Fails only for who leads a session already.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // Without root it cannot be protected.
    let _ = fs::write("/proc/self/oom_score_adj", "-999");
    let record = Rc::new(Record::begin(folder.clone(), first_state(&plan)?)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let pod = Rc::new(Pod {
        folder,
        plan,
        record,
        reaper: Reaper::default(),
        stop: watch::Sender::new(None),
        stop_sidecars: watch::Sender::new(None),
    });
    LocalSet::new().block_on(&runtime, serve(pod))
}

fn about(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn first_state(plan: &PodPlan) -> io::Result<PodState> {
    let main = if plan.init.is_empty() {
        "ContainerCreating"
    } else {
        "PodInitializing"
    };
    let init = plan
        .init
        .iter()
        .map(|container| (container.name.clone(), waiting("PodInitializing")));
    let mains = plan
        .containers
        .iter()
        .map(|container| (container.name.clone(), waiting(main)));
    Ok(PodState {
        uid: plan.uid.clone(),
        sequence: 1,
        shim: ProcessId::of(std::process::id())?,
        containers: init.chain(mains).collect::<BTreeMap<_, _>>(),
        initialized: plan.init.is_empty(),
        over: None,
    })
}

/// Everything that goes on while the pod lives.
async fn serve(pod: Rc<Pod>) -> io::Result<()> {
    let bell = Reaper::bell()?;
    let reaping = spawn_local({
        let pod = pod.clone();
        async move { pod.reaper.serve(bell).await }
    });
    let over = watch::Sender::new(false);
    let talking = spawn_local({
        let (pod, over) = (pod.clone(), over.subscribe());
        async move {
            let order = |ToShim::Stop { grace_seconds }| pod.stop_within(Duration::from_secs(u64::from(grace_seconds)));
            talker::talk(pod.record.clone(), &pod.plan.socket, order, over).await;
        }
    });
    let listening = spawn_local(listen(pod.clone()));
    let looking = spawn_local(look(pod.clone()));
    let deadline = pod
        .plan
        .deadline
        .map(|deadline| spawn_local(expire(pod.clone(), deadline)));
    let mut end = run(&pod).await;
    tree::kill_below(&pod.reaper).await;
    if deadline.is_some_and(|deadline| deadline.is_finished()) {
        end = Over {
            succeeded: false,
            reason: "DeadlineExceeded".to_owned(),
            message: "Pod was active on the node longer than the specified deadline".to_owned(),
        };
    }
    if let Err(error) = Cgroups::of_pod(&pod.plan.isolation.cgroups).remove(Duration::from_secs(5)) {
        eprintln!("cgroup: {error}");
    }
    pod.record.change(|state| state.over = Some(end));
    while !pod.record.catch_up() && pod.folder.path().exists() {
        sleep(Duration::from_millis(200)).await;
    }
    over.send_replace(true);
    // It cannot fail, and says what it can.
    let _ = talking.await;
    listening.abort();
    looking.abort();
    reaping.abort();
    Ok(())
}

/// A pod whose folder somebody has removed ends: nobody could ever take it over.
async fn look(pod: Rc<Pod>) {
    let identity = || {
        let found = fs::metadata(pod.folder.path()).ok()?;
        Some((found.dev(), found.ino()))
    };
    let own = identity();
    while own.is_some() && identity() == own {
        sleep(LOOK).await;
    }
    eprintln!("the folder {} is gone", pod.folder.path().display());
    pod.stop_within(pod.grace());
}

/// SIGTERM and SIGINT to the shim end the pod.
async fn listen(pod: Rc<Pod>) -> io::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    loop {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        pod.stop_within(pod.grace());
    }
}

/// Ends when the deadline has come and the pod is being ended for it.
async fn expire(pod: Rc<Pod>, deadline: Timestamp) {
    loop {
        let left = deadline.duration_since(Timestamp::now());
        let Ok(left) = Duration::try_from(left) else { break };
        if left.is_zero() {
            break;
        }
        // The clock of the wall can be set meanwhile.
        sleep(left.min(Duration::from_mins(1))).await;
    }
    if pod.stop.borrow().is_some() {
        // Somebody else was first.
        return std::future::pending().await;
    }
    pod.record.tell(
        false,
        "DeadlineExceeded",
        "Pod was active on the node longer than the specified deadline".to_owned(),
    );
    pod.stop_within(pod.grace());
}

/// Makes room, runs all containers in order.
async fn run(pod: &Rc<Pod>) -> Over {
    if let Err(error) = make_room(pod) {
        eprintln!("folder: {error}");
    }
    let cgroups = Cgroups::of_pod(&pod.plan.isolation.cgroups);
    if let Err(error) = cgroups.make(&pod.plan.limits) {
        pod.record.tell(true, "FailedLimit", error.to_string());
    }
    cgroups.open_below();
    let mut sidecars = Vec::new();
    let good = initialize(pod, &mut sidecars).await;
    let over = if good { run_mains(pod).await } else { failed() };
    let until = pod.stop.borrow().unwrap_or_else(|| Instant::now() + pod.grace());
    shorten(&pod.stop_sidecars, until);
    for sidecar in sidecars {
        let _ = sidecar.await;
    }
    over
}

fn failed() -> Over {
    Over {
        succeeded: false,
        reason: String::new(),
        message: String::new(),
    }
}

/// The scratch folder, for whoever the containers run as; nobody else comes there.
fn make_room(pod: &Pod) -> io::Result<()> {
    fs::create_dir_all(stage::staging(&pod.folder))?;
    let work = stage::work(&pod.folder);
    fs::create_dir_all(&work)?;
    fs::set_permissions(&work, fs::Permissions::from_mode(0o1777))
}

/// Init containers in order; false if one failed for good, or the pod is to end.
async fn initialize(pod: &Rc<Pod>, sidecars: &mut Vec<JoinHandle<Option<Ended>>>) -> bool {
    for container in &pod.plan.init {
        if container.sidecar {
            let stop = StopWatch(pod.stop_sidecars.subscribe());
            sidecars.push(spawn_local(live(pod.clone(), container.clone(), Role::Sidecar, stop)));
            if !wait_started(pod, container).await {
                return false;
            }
            continue;
        }
        let stop = StopWatch(pod.stop.subscribe());
        let ended = live(pod.clone(), container.clone(), Role::Init, stop).await;
        if ended.is_none_or(|ended| ended.exit_code != 0) {
            return false;
        }
    }
    if pod.stop.borrow().is_some() {
        return false;
    }
    pod.record.change(|state| state.initialized = true);
    true
}

/// The next one waits until a sidecar has started; false if the pod is to end.
async fn wait_started(pod: &Rc<Pod>, container: &ContainerPlan) -> bool {
    let mut stop = StopWatch(pod.stop.subscribe());
    loop {
        if pod
            .record
            .state()
            .containers
            .get(&container.name)
            .is_some_and(|state| state.started)
        {
            return true;
        }
        tokio::select! {
            () = pod.record.changed() => {}
            _ = stop.wanted() => return false,
        }
    }
}

async fn run_mains(pod: &Rc<Pod>) -> Over {
    let running: Vec<_> = pod
        .plan
        .containers
        .iter()
        .map(|container| {
            let stop = StopWatch(pod.stop.subscribe());
            spawn_local(live(pod.clone(), container.clone(), Role::Main, stop))
        })
        .collect();
    let mut succeeded = true;
    for container in running {
        let ended = container.await.ok().flatten();
        succeeded &= ended.is_some_and(|ended| ended.exit_code == 0);
    }
    Over { succeeded, ..failed() }
}
