//! What only the host of a pod knows: the output of its containers, and commands run inside them.
//!
//! The server finds the pod and the container, and refuses what cannot be asked of them; a [`PodHost`] does the rest.

mod container;
mod exec;
mod logs;

use std::io;

use basalt_apimachinery::json::string_at;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::request::Parts;
use http::{Method, Response};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::http::registry::kinds::{Kind, Sub};
use crate::http::request::path::{ResourcePath, unescape};
use crate::http::request::query::parse_boolean;
use crate::http::response::status::{ApiError, ApiResult};
use crate::http::server::Server;
use crate::store::Key;

/// Who runs pods, and can be asked about their processes.
pub trait PodHost: Send + Sync {
    /// The output of a container, as text that is ready to be served. Dropping the stream ends the reading.
    fn logs(&self, of: HostedContainer, ask: LogAsk) -> BoxFuture<'static, ApiResult<LogStream>>;

    /// Refuses what can never be run there, before anything is begun.
    fn check_exec(&self, inside: &HostedContainer) -> ApiResult<()>;

    /// Runs a command inside a container. Dropping the session ends the command.
    fn exec(&self, inside: HostedContainer, ask: ExecAsk) -> BoxFuture<'static, ApiResult<Session>>;
}

/// Pieces of a log.
pub type LogStream = BoxStream<'static, io::Result<Bytes>>;

/// A container of a pod that has a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedContainer {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's uid.
    pub uid: String,
    /// Where it is bound to.
    pub node: String,
    /// The container; it is one of the pod's.
    pub container: String,
}

/// Which part of a log, in which form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogAsk {
    /// Goes on with what is written later, until the container ends.
    pub follow: bool,
    /// The log of the run before this one.
    pub previous: bool,
    /// Each line begins with its time.
    pub timestamps: bool,
    /// Nothing that was written before.
    pub since: Option<Timestamp>,
    /// Only so many of the last lines (of what was written so far).
    pub tail_lines: Option<u64>,
    /// At most so many bytes.
    pub limit_bytes: Option<u64>,
}

/// A command to be run inside a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecAsk {
    /// Program and arguments; never empty.
    pub command: Vec<String>,
    /// Whether its standard input is given; else it is empty.
    pub stdin: bool,
    /// Whether its output is wanted.
    pub stdout: bool,
    /// Whether its complaints are wanted; never with a terminal, which has one output.
    pub stderr: bool,
    /// Whether it runs on a terminal.
    pub tty: bool,
}

/// A running command. Both channels are bounded: who does not read is waited for.
#[derive(Debug)]
pub struct Session {
    /// What the command is given.
    pub input: mpsc::Sender<ExecInput>,
    /// What it says; the last one is [`ExecOutput::Ended`] or [`ExecOutput::Failed`].
    pub output: mpsc::Receiver<ExecOutput>,
}

/// What a command is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecInput {
    /// For its standard input.
    Stdin(Bytes),
    /// Its standard input ends here.
    StdinEnds,
    /// The terminal has another size.
    Resize {
        /// Characters in a line.
        columns: u16,
        /// Lines.
        rows: u16,
    },
}

/// What a command says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecOutput {
    /// Standard output, or the terminal's.
    Stdout(Bytes),
    /// Standard error.
    Stderr(Bytes),
    /// It ended with this exit code.
    Ended(i32),
    /// It could not be run, or its end is not known.
    Failed(String),
}

/// Which pod a request is about.
pub(crate) struct PodName {
    namespace: String,
    name: String,
}

impl PodName {
    pub(crate) fn of(path: &ResourcePath<'_>) -> Self {
        let text = |part: &Option<std::borrow::Cow<'_, str>>| part.as_deref().unwrap_or_default().to_owned();
        PodName {
            namespace: text(&path.namespace),
            name: text(&path.name),
        }
    }
}

/// What is asked of a pod, found and checked.
struct Asked<'a> {
    server: &'a Server,
    pod: Value,
    hosted: HostedContainer,
}

impl<'a> Asked<'a> {
    /// Finds the pod and the container.
    fn find(server: &'a Server, kind: &Kind, named: PodName, parameters: &[(String, String)]) -> ApiResult<Self> {
        let PodName { namespace, name } = named;
        let key = Key {
            resource: kind.resource.clone(),
            namespace: namespace.as_str().into(),
            name: name.as_str().into(),
        };
        let object = server
            .store()
            .get(&key)
            .ok_or_else(|| ApiError::not_found(kind, &name))?;
        let pod: Value = serde_json::from_slice(&object.body).map_err(ApiError::internal)?;
        let container = container::choose(&pod, &name, last(parameters, "container").unwrap_or_default())?;
        let hosted = HostedContainer {
            uid: string_at(&pod, "/metadata/uid").to_owned(),
            node: string_at(&pod, "/spec/nodeName").to_owned(),
            namespace,
            pod: name,
            container,
        };
        Ok(Asked { server, pod, hosted })
    }

    fn host(&self) -> ApiResult<&'a dyn PodHost> {
        let refuse = || {
            let HostedContainer { pod, node, .. } = &self.hosted;
            ApiError::bad_request(format!("pod {pod}: nothing is known here about node {node:?}"))
        };
        self.server.host().ok_or_else(refuse)
    }
}

/// Answers a request about `pods/NAME/log` or `pods/NAME/exec`.
pub(crate) async fn answer(
    server: &Server,
    kind: &Kind,
    pod: PodName,
    sub: Sub,
    parts: Parts,
) -> ApiResult<Response<axum::body::Body>> {
    let parameters = parameters(parts.uri.query())?;
    match (sub, &parts.method) {
        (Sub::Log, &Method::GET) => {
            let asked = Asked::find(server, kind, pod, &parameters)?;
            logs::read(asked, &parameters).await
        }
        (Sub::Exec, &Method::GET | &Method::POST) => {
            let asked = Asked::find(server, kind, pod, &parameters)?;
            exec::run(asked, &parameters, parts).await
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// The parameters of a URL, in their order; `command` comes once a word.
fn parameters(query: Option<&str>) -> ApiResult<Vec<(String, String)>> {
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((unescape(key, true)?.into_owned(), unescape(value, true)?.into_owned()))
        })
        .collect()
}

/// The value of a parameter, if it is given and not empty.
fn last<'a>(parameters: &'a [(String, String)], key: &str) -> Option<&'a str> {
    let found = parameters.iter().rev().find(|(name, _)| name == key);
    found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
}

/// Whether a parameter is switched on.
fn is_on(parameters: &[(String, String)], key: &str) -> bool {
    last(parameters, key).is_some_and(parse_boolean)
}

/// Resolves when the server goes down.
async fn over(closing: &mut watch::Receiver<bool>) {
    // An error means that the server is gone, which is an end as well.
    let _ = closing.wait_for(|closing| *closing).await;
}
