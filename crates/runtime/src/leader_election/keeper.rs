//! The thread that keeps a lease: it has a runtime and a connection of its own, so that no work of others can make it late.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::Context;
use basalt_api::resource_kind;
use http::{Method, Request};
use jiff::Timestamp;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::ElectionFlags;
use super::lease::{Answer, Candidate, Claim, Moment, OURS, Record, Step, Strangers, Terms};
use crate::leader_election::write_fence::{Standing, Tenure};

/// Giving up a lease may take so long.
const RELEASE_MAX: Duration = Duration::from_secs(3);
/// A keeper that was not heard of for so long beyond its deadline is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(20);

/// Which Lease.
#[derive(Debug, Clone)]
pub struct Lock {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Lock {
    fn collection(&self) -> String {
        resource_kind::LEASE.collection_path(&self.namespace)
    }

    fn path(&self) -> String {
        resource_kind::LEASE.object_path(&self.namespace, &self.name)
    }
}

/// How the keeper fares.
#[derive(Debug)]
struct Health {
    beat: Instant,
    trouble: Option<String>,
    holder: Option<String>,
}

/// An election that goes on. Clones are one.
#[derive(Debug, Clone)]
pub struct Ballot {
    lock: Lock,
    terms: Terms,
    tenure: Tenure,
    health: Arc<Mutex<Health>>,
}

impl Ballot {
    fn health(&self) -> std::sync::MutexGuard<'_, Health> {
        // A panic elsewhere leaves it whole: every change of it is one assignment.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which lease it is about.
    pub fn lease(&self) -> &str {
        &self.lock.name
    }

    /// Who leads, as far as is known.
    pub fn holder(&self) -> Option<String> {
        self.health().holder.clone()
    }

    /// Whether this process leads.
    pub fn leads(&self) -> bool {
        self.tenure.patience().is_some()
    }

    /// Why it would be better to begin anew, if so.
    pub fn trouble(&self) -> Option<String> {
        let rests = self.health().beat.elapsed();
        let stuck = rests > self.terms.renew_deadline + STUCK_AFTER;
        stuck.then(|| {
            format!(
                "lease {}: its thread has not moved for {} s",
                self.lock,
                rests.as_secs()
            )
        })
    }

    /// Why it cannot lead, nor stand by, if so.
    pub fn unready(&self) -> Option<String> {
        let trouble = self.health().trouble.clone()?;
        Some(format!("lease {}: {trouble}", self.lock))
    }
}

/// A candidate at work; its thread ends with it.
#[derive(Debug)]
pub struct Election {
    tenure: Tenure,
    ballot: Option<Ballot>,
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<anyhow::Result<()>>,
    /// Nobody: there is no election.
    _nobody: Option<oneshot::Sender<anyhow::Result<()>>>,
}

impl Election {
    /// Begins to contend for the lease `name`; or, if the flags say so, leads without one.
    pub fn begin(flags: &ElectionFlags, name: &str, config: &Config) -> anyhow::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let (end, ended) = oneshot::channel();
        if !flags.is_on() {
            return Ok(Self {
                tenure: Tenure::unlimited(),
                ballot: None,
                stop,
                ended,
                _nobody: Some(end),
            });
        }
        let terms = flags.terms()?;
        let lock = Lock {
            namespace: flags.namespace().to_owned(),
            name: name.to_owned(),
        };
        let ballot = Ballot {
            lock,
            terms,
            tenure: Tenure::awaited(),
            health: Arc::new(Mutex::new(Health {
                beat: Instant::now(),
                trouble: None,
                holder: None,
            })),
        };
        let (keeper, config) = (ballot.clone(), config.clone());
        std::thread::Builder::new()
            .name(format!("lease-{name}"))
            .spawn(move || {
                // Nobody may be left to tell.
                let _ = end.send(keep(keeper, config, stopped));
            })
            .context("starting the thread of the lease")?;
        Ok(Self {
            tenure: ballot.tenure.clone(),
            ballot: Some(ballot),
            stop,
            ended,
            _nobody: None,
        })
    }

    /// The right to write that comes with the lease.
    pub fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// How it goes; none: there is no election.
    pub fn ballot(&self) -> Option<Ballot> {
        self.ballot.clone()
    }

    /// Resolves if it cannot go on.
    pub async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.ended).await {
            Ok(Err(error)) => error,
            Ok(Ok(())) => anyhow::anyhow!("the thread of the lease ended"),
            Err(_) => anyhow::anyhow!("the thread of the lease panicked: this is a bug"),
        }
    }

    /// Gives the lease up, so that another can take it at once. Nothing may be written any more.
    pub async fn release(self) {
        let Some(ballot) = &self.ballot else { return };
        ballot.tenure.revoke();
        self.stop.send_replace(true);
        // At worst the lease runs out by itself.
        let _ = tokio::time::timeout(RELEASE_MAX + Duration::from_secs(1), self.ended).await;
    }
}

/// Runs the whole thread.
fn keep(ballot: Ballot, config: Config, stop: watch::Receiver<bool>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime of the lease")?;
    let result = runtime.block_on(async {
        let mut config = config;
        config.default_retry = false;
        let client = Client::try_from(config).context("a client for the lease")?;
        let candidate = Candidate::new(identity(), ballot.terms);
        let mut keeper = Keeper {
            client,
            begun: Instant::now(),
            object: Value::Null,
            candidate,
            ballot: ballot.clone(),
        };
        keeper.run(stop).await
    });
    ballot.tenure.revoke();
    result
}

/// This process's: two processes on one machine differ, and so do two lives of one.
fn identity() -> String {
    static IDENTITY: OnceLock<String> = OnceLock::new();
    let identity = IDENTITY.get_or_init(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("{OURS}{}_{:016x}", host.trim(), rand::random::<u64>())
    });
    identity.clone()
}

struct Keeper {
    client: Client,
    begun: Instant,
    /// The Lease as it was last seen, whole: what we do not know of it is kept.
    object: Value,
    candidate: Candidate,
    ballot: Ballot,
}

impl Keeper {
    fn now(&self) -> Moment {
        self.begun.elapsed()
    }

    async fn run(&mut self, mut stop: watch::Receiver<bool>) -> anyhow::Result<()> {
        loop {
            self.ballot.health().beat = Instant::now();
            let step = self.candidate.next(self.now());
            self.publish();
            tokio::select! {
                outcome = self.take(step) => outcome?,
                _ = stop.wait_for(|stop| *stop) => {
                    self.release().await;
                    return Ok(());
                }
            }
            self.publish();
            if let Strangers::Alive(holder) = self.candidate.strangers() {
                anyhow::bail!(
                    "{holder} holds the Lease {} and is alive, and it is not Basalt: two schedulers would give the same room \
                     away twice. Stop it first (a Volcano: scale its Deployments to 0), then start again",
                    self.ballot.lock
                );
            }
        }
    }

    /// Tells the rest of the process how things stand.
    fn publish(&self) {
        let (tenure, terms) = (&self.ballot.tenure, self.ballot.terms);
        let before = tenure.standing();
        match self.candidate.leads(self.now()) {
            Some(sent) => tenure.grant(
                self.begun + sent + terms.renew_deadline,
                self.begun + sent + terms.duration,
            ),
            None => tenure.revoke(),
        }
        match (before, tenure.standing()) {
            (Standing::StandsBy, Standing::Leads) => tracing::info!(lease = %self.ballot.lock, "leading"),
            (Standing::Leads, Standing::StandsBy) => tracing::warn!(lease = %self.ballot.lock, "no longer leading"),
            _ => {}
        }
        let holder = self.candidate.holder().map(str::to_owned);
        let mut health = self.ballot.health();
        if health.holder != holder {
            tracing::info!(lease = %self.ballot.lock, holder = holder.as_deref().unwrap_or("nobody"), "the lease's holder");
            health.holder = holder;
        }
    }

    async fn take(&mut self, step: Step) -> anyhow::Result<()> {
        let sent = self.now();
        match step {
            Step::Wait(until) => tokio::time::sleep_until(self.begun + until).await,
            Step::Look => {
                let answer = self.send(Method::GET, &self.ballot.lock.path(), None).await;
                let answer = self.understand(answer);
                self.candidate.looked(sent, self.now(), answer);
            }
            Step::Claim(claim) => {
                let answer = self.write(&claim).await?;
                self.candidate.claimed(sent, self.now(), answer);
            }
        }
        Ok(())
    }

    async fn write(&mut self, claim: &Claim) -> anyhow::Result<Answer> {
        let (method, path) = match &claim.version {
            Some(_) => (Method::PUT, self.ballot.lock.path()),
            None => (Method::POST, self.ballot.lock.collection()),
        };
        let body = self.body(claim);
        let answer = self.send(method, &path, Some(&body)).await;
        if claim.version.is_none() && matches!(&answer, Err(kube::Error::Api(status)) if status.code == 404) {
            self.make_namespace().await?;
        }
        Ok(self.understand(answer))
    }

    /// The Lease as it is to be. Its times are for people.
    fn body(&self, claim: &Claim) -> Value {
        let mut object = match &claim.version {
            Some(_) => self.object.clone(),
            None => json!({
                "apiVersion": resource_kind::LEASE.api_version, "kind": resource_kind::LEASE.kind,
                "metadata": {"name": self.ballot.lock.name, "namespace": self.ballot.lock.namespace},
            }),
        };
        if let Some(version) = &claim.version {
            object["metadata"]["resourceVersion"] = Value::from(version.as_str());
        }
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        object["spec"]["holderIdentity"] = Value::from(claim.holder.as_str());
        object["spec"]["leaseDurationSeconds"] = Value::from(self.ballot.terms.seconds());
        object["spec"]["leaseTransitions"] = Value::from(claim.transitions);
        object["spec"]["renewTime"] = Value::from(now.as_str());
        if claim.anew {
            object["spec"]["acquireTime"] = Value::from(now);
        }
        object
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, kube::Error> {
        let bytes = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(bytes)
            .map_err(kube::Error::HttpError)?;
        let patience = (self.ballot.terms.renew_deadline / 2).max(Duration::from_millis(200));
        match tokio::time::timeout(patience, self.client.request::<Value>(request)).await {
            Ok(answer) => answer,
            Err(elapsed) => Err(kube::Error::Service(elapsed.into())),
        }
    }

    fn understand(&mut self, answer: Result<Value, kube::Error>) -> Answer {
        let answer = match answer {
            Ok(object) => {
                let record = record(&object, self.ballot.terms.seconds());
                self.object = object;
                Answer::Record(record)
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Answer::Missing,
            Err(kube::Error::Api(status)) if status.code == 409 => Answer::Conflict,
            Err(error) => {
                tracing::warn!(lease = %self.ballot.lock, %error, "the lease cannot be read or written, will try again");
                self.ballot.health().trouble = Some(error.to_string());
                return Answer::Unknown;
            }
        };
        self.ballot.health().trouble = None;
        answer
    }

    /// The namespace of Volcano, where there never was one.
    async fn make_namespace(&self) -> anyhow::Result<()> {
        let name = &self.ballot.lock.namespace;
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match self
            .send(Method::POST, &resource_kind::NAMESPACE.collection_path(""), Some(&body))
            .await
        {
            Ok(_) => tracing::info!(namespace = name, "made, for the lease"),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(kube::Error::Api(status)) if status.code < 500 && status.code != 429 => anyhow::bail!(
                "the Lease {} needs the namespace {name}, which is not there and cannot be made ({}): make it with `kubectl create \
                 namespace {name}`, or name another with --leader-elect-resource-namespace",
                self.ballot.lock,
                status.message
            ),
            Err(error) => tracing::warn!(%error, namespace = name, "cannot be made, will try again"),
        }
        Ok(())
    }

    /// Gives the lease up, if it is ours.
    async fn release(&mut self) {
        self.ballot.tenure.revoke();
        let begun = Instant::now();
        while begun.elapsed() < RELEASE_MAX {
            // A write that was under way may have been done or not: what stands now is what counts.
            let answer = self.send(Method::GET, &self.ballot.lock.path(), None).await;
            let (answer, now) = (self.understand(answer), self.now());
            self.candidate.looked(now, now, answer.clone());
            let (Answer::Record(_), Some(claim)) = (&answer, self.candidate.release()) else {
                if answer == Answer::Unknown {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
                return;
            };
            if let Ok(Answer::Record(_)) = self.write(&claim).await {
                tracing::info!(lease = %self.ballot.lock, "given up");
                return;
            }
        }
    }
}

/// What a Lease says; `seconds` counts where it makes no promise.
fn record(object: &Value, seconds: u32) -> Record {
    let spec = &object["spec"];
    let promised = spec["leaseDurationSeconds"].as_u64();
    let transitions = spec["leaseTransitions"].as_i64().unwrap_or_default();
    Record {
        holder: spec["holderIdentity"].as_str().unwrap_or_default().to_owned(),
        seconds: promised.map_or(seconds, |promised| u32::try_from(promised).unwrap_or(u32::MAX)),
        transitions: i32::try_from(transitions).unwrap_or_default(),
        version: object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    }
}
