//! What the API server asks about the processes of pods, answered by this machine's node.

use std::path::PathBuf;
use std::time::Duration;

use basalt_apiserver::http::pod_host::{
    ExecAsk, ExecInput, ExecOutput, HostedContainer, LogAsk, LogStream, PodHost, Session,
};
use basalt_apiserver::http::{ApiError, ApiResult};
use basalt_node::local::exec::{self, ExecError, ExecPlan, Execution, Input, Output};
use basalt_node::local::folder::PodFolder;
use basalt_node::local::logs::{self, LogError, LogWish};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

/// Pieces of input or output that wait for who reads.
const PIECES_MAX: usize = 8;
/// Longest piece of output.
const PIECE: usize = 32 * 1024;
/// How long output is still waited for after a command has ended: something it left behind may hold it open.
const LINGER: Duration = Duration::from_millis(500);
/// What ends the input of a terminal.
const END_OF_TRANSMISSION: &[u8] = &[4];

/// The node of this machine, if it is one.
#[derive(Debug, Clone)]
pub(super) struct Hosting {
    /// The node's name.
    pub node: Option<String>,
    /// Folder of all pods.
    pub pods: PathBuf,
    /// The program whose first argument `pod-shim` makes it a shim.
    pub program: PathBuf,
}

impl Hosting {
    /// Refuses what does not run here.
    fn check(&self, of: &HostedContainer, what: &str) -> ApiResult<()> {
        if self.node.as_deref() == Some(of.node.as_str()) {
            return Ok(());
        }
        let HostedContainer { pod, .. } = of;
        Err(ApiError::bad_request(format!("pod {pod} runs on a fake node: {what}")))
    }
}

impl PodHost for Hosting {
    fn logs(&self, of: HostedContainer, ask: LogAsk) -> BoxFuture<'static, ApiResult<LogStream>> {
        let checked = self.check(&of, "it has no logs");
        let pods = self.pods.clone();
        async move {
            checked?;
            let wish = LogWish {
                follow: ask.follow,
                previous: ask.previous,
                timestamps: ask.timestamps,
                since: ask.since,
                tail_lines: ask.tail_lines,
                limit_bytes: ask.limit_bytes,
            };
            let pieces = logs::read(&pods, &of.uid, &of.container, wish);
            let pieces = pieces.map_err(|error| no_log(&of, &error))?;
            Ok(pieces.boxed())
        }
        .boxed()
    }

    fn check_exec(&self, inside: &HostedContainer) -> ApiResult<()> {
        self.check(inside, "nothing can be run in it")
    }

    fn exec(&self, inside: HostedContainer, ask: ExecAsk) -> BoxFuture<'static, ApiResult<Session>> {
        let checked = self.check_exec(&inside);
        let folder = PodFolder::of(&self.pods, &inside.uid);
        let program = self.program.clone();
        async move {
            checked?;
            let plan = ExecPlan {
                command: ask.command.clone(),
                stdin: ask.stdin,
                tty: ask.tty,
            };
            let execution = exec::start(&program, &folder, &inside.container, &plan).map_err(|error| match error {
                ExecError::NotRunning(_) => ApiError::bad_request(format!("pod {}: {error}", inside.pod)),
                ExecError::System(_) => ApiError::internal(error),
            })?;
            let (input, given) = mpsc::channel(PIECES_MAX);
            let (say, output) = mpsc::channel(PIECES_MAX);
            tokio::spawn(carry(execution, given, say, ask));
            Ok(Session { input, output })
        }
        .boxed()
    }
}

/// The node's word for it, in Kubernetes' words.
fn no_log(of: &HostedContainer, error: &LogError) -> ApiError {
    let HostedContainer { pod, container, .. } = of;
    ApiError::bad_request(match error {
        LogError::NoPod => format!("pod {pod}: {error}"),
        LogError::Waiting { reason, .. } => {
            format!("container \"{container}\" in pod \"{pod}\" is waiting to start: {reason}")
        }
        LogError::NoPrevious { .. } => {
            format!("previous terminated container \"{container}\" in pod \"{pod}\" not found")
        }
    })
}

/// Carries input and output of a command until it has ended or nobody listens any more; then it is killed.
async fn carry(
    mut execution: Execution,
    given: mpsc::Receiver<ExecInput>,
    say: mpsc::Sender<ExecOutput>,
    ask: ExecAsk,
) {
    let (exit, exited) = watch::channel(false);
    let (resize, mut sizes) = watch::channel((0, 0));
    let (stdin, stdout, stderr) = (execution.stdin.take(), execution.stdout.take(), execution.stderr.take());
    let out = |data| ask.stdout.then_some(ExecOutput::Stdout(data));
    let err = |data| ask.stderr.then_some(ExecOutput::Stderr(data));
    let hearing = async {
        tokio::join!(
            hear(stdout, out, &say, exited.clone()),
            hear(stderr, err, &say, exited.clone())
        )
    };
    let waiting = async {
        let code = loop {
            tokio::select! {
                code = execution.wait() => break code,
                Ok(()) = sizes.changed() => {
                    let (columns, rows) = *sizes.borrow_and_update();
                    // A terminal that keeps its size is no reason to end the command.
                    let _ = execution.resize(columns, rows);
                }
            }
        };
        exit.send_replace(true);
        code
    };
    let ending = async {
        let (code, _) = tokio::join!(waiting, hearing);
        code
    };
    tokio::select! {
        code = ending => {
            let last = match code {
                Ok(code) => ExecOutput::Ended(code),
                Err(error) => ExecOutput::Failed(format!("the end of the command is not known: {error}")),
            };
            // Nobody listens any more: nothing is lost.
            let _ = say.send(last).await;
        }
        () = say.closed() => {}
        () = feed(stdin, given, &resize, ask.tty) => {}
    }
}

/// Hands on what is said; after the command's end only what comes at once.
async fn hear(
    stream: Option<Output>,
    wrap: impl Fn(Bytes) -> Option<ExecOutput>,
    say: &mpsc::Sender<ExecOutput>,
    mut exited: watch::Receiver<bool>,
) {
    let Some(mut stream) = stream else { return };
    let mut room = vec![0_u8; PIECE];
    loop {
        let over = *exited.borrow();
        let read = if over {
            tokio::time::timeout(LINGER, stream.read(&mut room)).await
        } else {
            tokio::select! {
                read = stream.read(&mut room) => Ok(read),
                _ = exited.changed() => continue,
            }
        };
        let Ok(Ok(count @ 1..)) = read else { return };
        let piece = room.get(..count).unwrap_or_default();
        if let Some(piece) = wrap(Bytes::copy_from_slice(piece))
            && say.send(piece).await.is_err()
        {
            return;
        }
    }
}

/// Hands on what is given, for as long as it is asked to.
async fn feed(
    mut stdin: Option<Input>,
    mut given: mpsc::Receiver<ExecInput>,
    resize: &watch::Sender<(u16, u16)>,
    tty: bool,
) {
    while let Some(given) = given.recv().await {
        match (given, &mut stdin) {
            (ExecInput::Resize { columns, rows }, _) => {
                resize.send_replace((columns, rows));
            }
            (ExecInput::Stdin(data), Some(to)) => {
                if to.write_all(&data).await.is_err() {
                    // The command reads no more.
                    stdin = None;
                }
            }
            (ExecInput::StdinEnds, Some(to)) => {
                if tty {
                    let _ = to.write_all(END_OF_TRANSMISSION).await;
                }
                stdin = None;
            }
            (ExecInput::Stdin(_) | ExecInput::StdinEnds, None) => {}
        }
    }
    std::future::pending::<()>().await;
}
