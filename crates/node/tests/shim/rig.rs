//! A pod's folder, an agent's ear, and a real shim.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use basalt_node::local::folder::PodFolder;
use basalt_node::local::plan::{Cgroup, CgroupVersion, ContainerPlan, Isolation, Limits, PodPlan, Restart, User, View};
use basalt_node::local::process::Stat;
use basalt_node::local::shim;
use basalt_node::local::state::{ContainerState, Ended, Now, PodState};
use basalt_node::local::talk::{FromShim, ToShim};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixListener;
use tokio::sync::mpsc;

/// Longer than anything here takes, on a busy machine too.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// The shim, as a program.
pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_pod-shim"))
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// One pod under test.
pub(crate) struct Rig {
    pub(crate) folder: PodFolder,
    pub(crate) plan: PodPlan,
    /// Everything that the shim said, in order.
    pub(crate) heard: mpsc::UnboundedReceiver<FromShim>,
    orders: mpsc::UnboundedSender<ToShim>,
    _temporary: tempfile::TempDir,
    shim: Option<tokio::process::Child>,
}

/// What a container is unless a test says otherwise.
pub(crate) fn container(name: &str, command: &[&str]) -> ContainerPlan {
    ContainerPlan {
        name: name.to_owned(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        env: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
        working_folder: None,
        user: is_root().then(|| User {
            uid: 65534,
            gid: 65534,
            groups: Vec::new(),
        }),
        limits: Limits::default(),
        mounts: Vec::new(),
        message_path: PathBuf::from("/dev/termination-log"),
        message_from_log: false,
        sidecar: false,
        startup: None,
        liveness: None,
        readiness: None,
        post_start: None,
        pre_stop: None,
    }
}

/// A container that is a line of shell.
pub(crate) fn shell(line: &str) -> ContainerPlan {
    container("main", &["sh", "-c", line])
}

/// The cgroups that this machine gives away, found by trying.
pub(crate) fn cgroups(uid: &str) -> Vec<Cgroup> {
    let root = Path::new("/sys/fs/cgroup");
    let candidates = [("", CgroupVersion::V2), ("unified", CgroupVersion::V2)]
        .into_iter()
        .chain(["memory", "pids", "cpu", "freezer"].map(|controller| (controller, CgroupVersion::V1)));
    candidates
        .filter(|(below, _)| root.join(below).join("cgroup.procs").exists())
        .map(|(below, version)| Cgroup {
            folder: root.join(below).join("basalt-test").join(uid),
            version,
        })
        .filter(|cgroup| {
            let made = std::fs::create_dir_all(&cgroup.folder).is_ok();
            made && std::fs::remove_dir(&cgroup.folder).is_ok()
        })
        .collect()
}

impl Rig {
    /// A pod with these containers, which never restarts.
    pub(crate) fn new(containers: Vec<ContainerPlan>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let temporary = tempfile::tempdir().unwrap();
        let uid = format!("pod-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = PodFolder::of(temporary.path(), &uid);
        std::fs::DirBuilder::new().mode(0o700).create(folder.path()).unwrap();
        std::fs::write(folder.hosts(), "127.0.0.1 localhost\n127.1.2.3 peer.test\n").unwrap();
        let plan = PodPlan {
            version: shim::PLAN_VERSION,
            uid: uid.clone(),
            namespace: "default".to_owned(),
            name: "pod".to_owned(),
            socket: temporary.path().join("agent.sock"),
            hostname: "pod-0".to_owned(),
            address: Ipv4Addr::LOCALHOST,
            restart: Restart::Never,
            deadline: None,
            grace_seconds: 5,
            init: Vec::new(),
            containers,
            isolation: Isolation {
                view: if is_root() {
                    View::Namespaces
                } else {
                    View::UserNamespaces
                },
                cgroups: cgroups(&uid),
            },
            limits: Limits::default(),
            backoff_ms: (20, 80),
        };
        let (_, heard) = mpsc::unbounded_channel();
        let (orders, _) = mpsc::unbounded_channel();
        Self {
            folder,
            plan,
            heard,
            orders,
            _temporary: temporary,
            shim: None,
        }
    }

    /// An agent begins to listen.
    pub(crate) fn listen(&mut self) {
        let _ = std::fs::remove_file(&self.plan.socket);
        let listener = UnixListener::bind(&self.plan.socket).unwrap();
        let (say, heard) = mpsc::unbounded_channel();
        let (orders, mut given) = mpsc::unbounded_channel::<ToShim>();
        (self.heard, self.orders) = (heard, orders);
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (read, mut write) = stream.into_split();
            let mut lines = BufReader::new(read).lines();
            loop {
                tokio::select! {
                    line = lines.next_line() => match line {
                        Ok(Some(line)) => { let _ = say.send(serde_json::from_str(&line).unwrap()); }
                        _ => return,
                    },
                    order = given.recv() => match order {
                        Some(order) => {
                            let line = format!("{}\n", serde_json::to_string(&order).unwrap());
                            let _ = write.write_all(line.as_bytes()).await;
                        }
                        None => return,
                    },
                }
            }
        });
    }

    /// Writes the plan and starts the shim, with an agent.
    pub(crate) fn start(&mut self) {
        self.listen();
        self.start_alone();
    }

    /// Writes the plan and starts the shim.
    pub(crate) fn start_alone(&mut self) {
        std::fs::write(self.folder.plan(), serde_json::to_vec(&self.plan).unwrap()).unwrap();
        self.shim = Some(shim::start(program(), &self.folder).unwrap());
    }

    pub(crate) fn order(&self, grace_seconds: u32) {
        self.orders.send(ToShim::Stop { grace_seconds }).unwrap();
    }

    /// The state in the file.
    pub(crate) fn state(&self) -> Option<PodState> {
        serde_json::from_slice(&std::fs::read(self.folder.state()).ok()?).ok()
    }

    /// Waits until the file says something.
    pub(crate) async fn until<T>(&self, what: &str, found: impl Fn(&PodState) -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            let state = self.state();
            if let Some(found) = state.as_ref().and_then(&found) {
                return found;
            }
            assert!(begin.elapsed() < LONG, "{what}: {state:#?}\n{}", self.complaints());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until a container runs, for its process's number.
    pub(crate) async fn running(&self, name: &str) -> u32 {
        self.until(&format!("{name} runs"), |state| {
            match &state.containers.get(name)?.now {
                Now::Running { process, .. } => Some(process.pid),
                _ => None,
            }
        })
        .await
    }

    /// Waits until `main` has written this line.
    pub(crate) async fn until_output(&self, line: &str) {
        let found = |_: &PodState| self.output().iter().any(|found| found == line).then_some(());
        self.until(&format!("output {line}"), found).await;
    }

    pub(crate) fn complaints(&self) -> String {
        std::fs::read_to_string(self.folder.complaints()).unwrap_or_default()
    }

    /// Waits until the shim has ended; the last state.
    pub(crate) async fn finish(&mut self) -> PodState {
        let mut shim = self.shim.take().expect("started");
        let status = tokio::time::timeout(LONG, shim.wait()).await;
        let status = status.unwrap_or_else(|_| panic!("the shim goes on: {:#?}\n{}", self.state(), self.complaints()));
        assert!(status.unwrap().success(), "{}", self.complaints());
        self.assert_clean();
        self.state().expect("a state")
    }

    /// Runs the pod from begin to end.
    pub(crate) async fn run(&mut self) -> PodState {
        self.start();
        self.finish().await
    }

    /// Kills the shim as an administrator might, and waits until it is gone.
    pub(crate) async fn kill_shim(&mut self) {
        let mut shim = self.shim.take().expect("started");
        shim.kill().await.unwrap();
    }

    /// Nothing is left behind but files in the folder.
    pub(crate) fn assert_clean(&self) {
        for cgroup in &self.plan.isolation.cgroups {
            assert!(!cgroup.folder.exists(), "{} is left", cgroup.folder.display());
        }
    }

    /// The texts of a log, by stream.
    pub(crate) fn log(&self, name: &str, run: u32) -> BTreeMap<String, Vec<String>> {
        let text = std::fs::read_to_string(self.folder.log(name, run)).unwrap_or_default();
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in text.lines() {
            let [time, stream, _tag, text] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else {
                panic!("not a line of a log: {line:?}");
            };
            time.parse::<jiff::Timestamp>().unwrap();
            found.entry(stream.to_owned()).or_default().push(text.to_owned());
        }
        found
    }

    /// What `main` wrote to its standard output.
    pub(crate) fn output(&self) -> Vec<String> {
        self.log("main", 0).remove("stdout").unwrap_or_default()
    }

    /// What the shim said for events until it ended: reasons.
    pub(crate) async fn reasons(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(heard) = self.heard.recv().await {
            if let FromShim::Told { reason, .. } = heard {
                found.push(reason);
            }
        }
        found
    }
}

/// How a container ended, if it did.
pub(crate) fn ended(state: &ContainerState) -> &Ended {
    match &state.now {
        Now::Ended(ended) => ended,
        other => panic!("not ended: {other:?}"),
    }
}

/// How `main` ended.
pub(crate) fn main_ended(state: &PodState) -> &Ended {
    ended(state.containers.get("main").expect("main"))
}

/// Processes that have this word among their arguments.
pub(crate) fn processes_with(word: &str) -> Vec<u32> {
    let all = Stat::all().unwrap();
    all.into_iter()
        .map(|stat| stat.pid)
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0)
                .any(|argument| argument == word.as_bytes())
        })
        .collect()
}
