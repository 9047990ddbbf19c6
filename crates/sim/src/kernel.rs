//! The kernel: one cluster, its actors, a clock that stands still until nothing else can happen, and the auditor after
//! every write.
//!
//! One [`step`](Kernel::step) is one thing: a watch tells one actor something, or one actor has one request answered.
//! Which, is the [`Whim`]'s choice: without a seed everything is told at once and the actors take turns; with one, each
//! actor's view lags behind on its own, each kind of objects by itself. The same seed makes the same steps and the same
//! log, byte for byte.

mod seat;

use basalt_audit::{Finding, Rules};
use basalt_engine::Conf;
use jiff::{SignedDuration, Timestamp};

use crate::actor::{Actor, BindMode, Collector, Controllers, Kubelet, Scheduler};
use crate::api::{Answer, Api, Kind, Refusal, Request, Snapshot};
use crate::lookout::Lookout;
use crate::whim::Whim;
use seat::Seat;

/// After so much time without a write a cluster is at rest.
const REST: SignedDuration = SignedDuration::from_mins(10);
/// Steps after which a cluster that does not come to rest is stuck.
const STEPS_MAX: usize = 20_000;

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The queue, job and podgroup controllers.
    Controllers,
    /// The scheduler.
    Scheduler,
    /// The nodes.
    Node,
    /// The garbage collector.
    Collector,
}

impl Who {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Controllers, Self::Scheduler, Self::Node, Self::Collector];
}

/// What a crash is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Everything that acts dies, and starts again at once.
    All,
    /// The controllers die, and start again at once.
    Controllers,
    /// The controllers die, and start again when nothing else happens any more.
    Outage,
}

impl Crash {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::All, Self::Controllers, Self::Outage];
}

/// How often things go wrong, in percent of the requests of actors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The actor dies right after its request.
    pub kill: u64,
    /// The request is done, and its answer is lost.
    pub lose: u64,
    /// The request is not done, and the server says that it is in trouble.
    pub fail: u64,
}

/// The cluster does not come to rest.
#[derive(Clone, Debug, thiserror::Error)]
#[error("still busy after {steps} steps; the last was {last}")]
pub struct Stuck {
    /// Steps that were made.
    pub steps: usize,
    /// The last request.
    pub last: String,
}

/// A simulated cluster.
pub struct Kernel {
    api: Api,
    conf: Conf,
    now: Timestamp,
    seats: Vec<Seat>,
    whim: Whim,
    faults: Faults,
    lookout: Lookout,
    findings: Vec<Finding>,
    log: Option<String>,
    /// Requests of actors that changed something.
    writes: u64,
    crash_after: Option<(u64, Crash)>,
    last: Option<(&'static str, Request)>,
    /// What there was after each write of an actor.
    snapshots: Option<Vec<Snapshot>>,
    /// What the scheduler's decisions are judged by.
    rules: Option<Rules>,
    judged: u64,
    /// How the scheduler binds.
    bind_mode: BindMode,
}

impl Kernel {
    /// A cluster with these objects whose actors were just started.
    pub fn new(snapshot: &Snapshot, conf: &Conf, whim: Whim) -> Self {
        let api = Api::resumed(snapshot);
        let lookout = Lookout::begin(&api);
        let seats = Who::ALL
            .into_iter()
            .map(|who| Seat::new(who, born(who, conf, None, BindMode::default())));
        Self {
            now: snapshot.now(),
            seats: seats.collect(),
            conf: conf.clone(),
            api,
            whim,
            faults: Faults::default(),
            lookout,
            findings: Vec::new(),
            log: None,
            writes: 0,
            crash_after: None,
            last: None,
            snapshots: None,
            rules: None,
            judged: 0,
            bind_mode: BindMode::default(),
        }
    }

    /// From now on every decision of the scheduler is judged, on the view that it was made on.
    pub fn judge_by(&mut self, rules: Rules) {
        self.lookout.know(&rules);
        self.rules = Some(rules);
        self.kill(Who::Scheduler);
    }

    /// Restarts the scheduler as one that binds in this way.
    pub fn bind_by(&mut self, bind_mode: BindMode) {
        self.bind_mode = bind_mode;
        self.kill(Who::Scheduler);
    }

    /// Decisions of the scheduler that were judged.
    pub fn judged(&self) -> u64 {
        self.judged
    }

    /// Keeps a log from now on.
    pub fn keep_log(&mut self) {
        self.log = Some(String::new());
    }

    /// The log so far, if one is kept.
    pub fn log(&self) -> &str {
        self.log.as_deref().unwrap_or_default()
    }

    /// From now on, things go wrong this often.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// There is a crash right after the write of this number, if any (the first is 1).
    pub fn crash_after(&mut self, crash: Option<(u64, Crash)>) {
        self.crash_after = crash;
    }

    /// Keeps what there was after every write of an actor from now on.
    pub fn keep_snapshots(&mut self) {
        self.snapshots = Some(Vec::new());
    }

    /// The snapshots that were kept.
    pub fn take_snapshots(&mut self) -> Vec<Snapshot> {
        self.snapshots.take().unwrap_or_default()
    }

    /// The objects.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Requests of actors that changed something.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// The choices that are made next.
    pub fn whim(&mut self) -> &mut Whim {
        &mut self.whim
    }

    /// What the auditor has found so far.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push_str(&self.now.as_millisecond().to_string());
            log.push(' ');
            log.push_str(&line());
            log.push('\n');
        }
    }

    /// A user's request; users do not die, and see what is stored.
    pub fn ask(&mut self, request: &Request) -> Answer {
        let target = match request {
            Request::Delete { key, .. } => self.api.get(key).cloned(),
            _ => None,
        };
        let answer = self.api.handle(request);
        if let (Some(object), true) = (target, answer.is_ok()) {
            self.lookout.asked_to_delete(&object);
        }
        self.note(|| line("user", request, &answer));
        self.look(true);
        answer
    }

    /// Shows the auditor what has changed.
    fn look(&mut self, by_user: bool) {
        let news = self.api.take_news();
        if !news.is_empty() {
            self.findings.extend(self.lookout.observe(&news, by_user));
            for seat in &mut self.seats {
                seat.idle = false;
            }
        }
    }

    /// Kills an actor: it starts again, and lists from what it had seen or later.
    pub fn kill(&mut self, who: Who) {
        self.note(|| format!("{who:?} is killed and starts again"));
        if who == Who::Scheduler {
            self.lookout.scheduler_restarted();
        }
        let born = born(who, &self.conf, self.rules.as_ref(), self.bind_mode);
        if let Some(seat) = self.seats.iter_mut().find(|seat| seat.who == who) {
            seat.reborn(born);
        }
    }

    fn crash(&mut self, crash: Crash) {
        match crash {
            Crash::All => Who::ALL.into_iter().for_each(|who| self.kill(who)),
            Crash::Controllers => self.kill(Who::Controllers),
            Crash::Outage => {
                self.note(|| "Controllers are down".to_owned());
                let controllers = self.seats.iter_mut().filter(|seat| seat.who == Who::Controllers);
                controllers.for_each(|seat| seat.down = true);
            }
        }
    }

    /// Whoever is down starts again; false if nobody is.
    fn rise(&mut self) -> bool {
        let down = self.seats.iter().find(|seat| seat.down).map(|seat| seat.who);
        if let Some(who) = down {
            self.kill(who);
        }
        down.is_some()
    }

    /// Puts an actor in another's place, until that is killed: a bug that is planted.
    pub fn replace(&mut self, who: Who, actor: Box<dyn Actor>) {
        if let Some(seat) = self.seats.iter_mut().find(|seat| seat.who == who) {
            seat.reborn(actor);
        }
    }

    /// Makes one step; false if nothing can happen at this time.
    pub fn step(&mut self) -> bool {
        let mut choices: Vec<(usize, Option<Kind>)> = Vec::with_capacity(16);
        for (at, seat) in self.seats.iter().enumerate().filter(|(_, seat)| !seat.down) {
            let told = seat.behind(&self.api);
            let count = choices.len();
            choices.extend(told.map(|kind| (at, Some(kind))));
            let lagging = choices.len() > count;
            // Without whim nobody acts on an old view.
            if seat.is_complete() && !seat.idle && !(lagging && self.whim.is_none()) {
                choices.push((at, None));
            }
        }
        let Some((at, what)) = self.whim.one_of(&choices).copied() else {
            // Views that lag do not stop the world: they only see it late.
            return self.seats.iter_mut().any(Seat::wake);
        };
        for seat in &mut self.seats {
            seat.pass();
        }
        match what {
            Some(kind) => self.tell(at, kind),
            None => self.act(at),
        }
        true
    }

    fn tell(&mut self, at: usize, kind: Kind) {
        let Some(seat) = self.seats.get_mut(at) else { return };
        let told = seat.tell(kind, &self.api, self.now, &mut self.whim);
        let name = seat.actor.name();
        self.note(|| format!("{name} sees {} up to {told}", kind.plural()));
    }

    fn act(&mut self, at: usize) {
        let Some(seat) = self.seats.get_mut(at) else { return };
        let request = seat.actor.next(&self.api, self.now, &mut self.whim);
        let (judged, findings) = seat.actor.judgement();
        self.judged = self.judged.saturating_add(judged);
        self.findings.extend(findings);
        let Some(request) = request else {
            seat.idle = true;
            return;
        };
        let (name, who) = (seat.actor.name(), seat.who);
        let refused = self.whim.yes(self.faults.fail);
        let before = self.api.news().len();
        let mut answer = if refused {
            Err(trouble())
        } else {
            self.api.handle(&request)
        };
        let wrote = self.api.news().len() > before || (answer.is_ok() && matches!(request, Request::Event { .. }));
        if self.log.is_some() {
            self.note(|| line(name, &request, &answer));
        }
        if self.whim.yes(self.faults.lose) {
            answer = Err(trouble());
        }
        if let Some(seat) = self.seats.get_mut(at) {
            seat.actor.answered(&request, &answer, self.now);
        }
        self.look(false);
        if wrote {
            self.writes = self.writes.saturating_add(1);
            if let Some(snapshots) = &mut self.snapshots {
                snapshots.push(self.api.snapshot());
            }
        }
        let crash = self.crash_after.filter(|(write, _)| wrote && *write == self.writes);
        if let Some((_, crash)) = crash {
            self.crash(crash);
        } else if self.whim.yes(self.faults.kill) {
            self.kill(who);
        }
        self.last = Some((name, request));
    }

    /// Runs until nothing happens any more, and for ten minutes after that.
    pub fn settle(&mut self) -> Result<(), Stuck> {
        self.run_to(Timestamp::MAX)
    }

    /// Runs until this moment, or until nothing happens any more.
    pub fn run_to(&mut self, end: Timestamp) -> Result<(), Stuck> {
        let mut quiet_since = self.now;
        let mut writes = self.writes;
        for _ in 0..STEPS_MAX {
            if self.step() {
                if self.writes != writes {
                    (quiet_since, writes) = (self.now, self.writes);
                }
                continue;
            }
            let rest = quiet_since.saturating_add(REST).unwrap_or(Timestamp::MAX);
            match self.next_due().filter(|due| *due <= rest.min(end)) {
                Some(due) => self.advance(due),
                None if end <= rest => {
                    self.advance(end);
                    return Ok(());
                }
                None if self.rise() => quiet_since = self.now,
                None => return Ok(()),
            }
        }
        Err(Stuck {
            steps: STEPS_MAX,
            last: self
                .last
                .as_ref()
                .map_or(String::new(), |(name, request)| format!("{name}: {request}")),
        })
    }

    fn next_due(&self) -> Option<Timestamp> {
        let up = self.seats.iter().filter(|seat| !seat.down);
        up.filter_map(|seat| seat.actor.next_due()).min()
    }

    /// Lets time pass, up to the next moment at which something is due; false if nothing is.
    pub fn wait(&mut self) -> bool {
        self.next_due().is_some_and(|due| {
            self.advance(due);
            true
        })
    }

    fn advance(&mut self, to: Timestamp) {
        self.findings.extend(self.lookout.overdue_gangs(self.now));
        // At least a little: whoever is due must find that its time has come.
        let tick = self
            .now
            .saturating_add(SignedDuration::from_millis(1))
            .unwrap_or(self.now);
        self.now = to.max(tick);
        self.api.set_now(self.now);
        for seat in &mut self.seats {
            seat.idle = false;
        }
    }

    /// What the auditor says of a cluster at rest, and all that it has said before.
    pub fn settled_findings(&mut self) -> Vec<Finding> {
        let mut findings = self.findings.clone();
        findings.extend(self.lookout.settled());
        findings
    }
}

fn born(who: Who, conf: &Conf, rules: Option<&Rules>, bind_mode: BindMode) -> Box<dyn Actor> {
    match who {
        Who::Controllers => Box::new(Controllers::new(conf)),
        Who::Scheduler => Box::new(Scheduler::new(conf, bind_mode).judged_by(rules.cloned())),
        Who::Node => Box::new(Kubelet::default()),
        Who::Collector => Box::new(Collector::default()),
    }
}

fn trouble() -> Refusal {
    Refusal {
        code: 500,
        reason: "InternalError".to_owned(),
        message: "no answer".to_owned(),
    }
}

fn line(who: &str, request: &Request, answer: &Answer) -> String {
    match answer {
        Ok(_) => format!("{who}: {request}"),
        Err(refusal) => format!("{who}: {request}: {refusal}"),
    }
}
