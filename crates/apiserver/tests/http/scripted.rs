//! A host of pods that follows a script.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use basalt_apiserver::http::pod_host::{
    ExecAsk, ExecInput, ExecOutput, HostedContainer, LogAsk, LogStream, PodHost, Session,
};
use basalt_apiserver::http::{ApiError, ApiResult};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use tokio::sync::mpsc;

/// Pieces that a channel holds.
const ROOM: usize = 4;

/// Counts what is open, and what was said into the wire.
#[derive(Clone, Default)]
pub(crate) struct Scripted {
    pub(crate) open: Arc<AtomicUsize>,
    pub(crate) said: Arc<AtomicUsize>,
}

/// Open as long as it is held.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(open.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PodHost for Scripted {
    fn logs(&self, of: HostedContainer, ask: LogAsk) -> BoxFuture<'static, ApiResult<LogStream>> {
        let open = Open::new(&self.open);
        let first = Ok(Bytes::from(format!("{} {} {ask:?}\n", of.node, of.container)));
        async move {
            let rest: LogStream = if ask.follow {
                stream::once(async move {
                    let _open = open;
                    std::future::pending().await
                })
                .boxed()
            } else {
                stream::empty().boxed()
            };
            Ok(stream::iter([first]).chain(rest).boxed())
        }
        .boxed()
    }

    fn check_exec(&self, inside: &HostedContainer) -> ApiResult<()> {
        if inside.node == "fake" {
            return Err(ApiError::bad_request(format!("{} runs on a fake node", inside.pod)));
        }
        Ok(())
    }

    fn exec(&self, inside: HostedContainer, ask: ExecAsk) -> BoxFuture<'static, ApiResult<Session>> {
        let (input, given) = mpsc::channel(ROOM);
        let (say, output) = mpsc::channel(ROOM);
        let said = self.said.clone();
        let open = Open::new(&self.open);
        async move {
            if ask.command.first().is_some_and(|word| word == "refused") {
                return Err(ApiError::bad_request(format!("{} ends just now", inside.pod)));
            }
            tokio::spawn(async move {
                let _open = open;
                script(ask, given, say, said).await;
            });
            Ok(Session { input, output })
        }
        .boxed()
    }
}

/// What the commands do: `say OUT ERR CODE`, `cat`, `size`, `deaf`, `flood`, `lost`, `wait`.
async fn script(
    ask: ExecAsk,
    mut given: mpsc::Receiver<ExecInput>,
    say: mpsc::Sender<ExecOutput>,
    said: Arc<AtomicUsize>,
) {
    let words: Vec<&str> = ask.command.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["say", out, err, code] => {
            let code = code.parse().expect("a number");
            let all = [
                ExecOutput::Stdout(Bytes::from((*out).to_owned())),
                ExecOutput::Stderr(Bytes::from((*err).to_owned())),
                ExecOutput::Ended(code),
            ];
            for one in all {
                say.send(one).await.expect("it is heard");
            }
        }
        ["cat"] => {
            while let Some(ExecInput::Stdin(data)) = given.recv().await {
                say.send(ExecOutput::Stdout(data)).await.expect("it is heard");
            }
            let _ = say.send(ExecOutput::Ended(0)).await;
        }
        ["size"] => {
            if let Some(ExecInput::Resize { columns, rows }) = given.recv().await {
                let text = format!("{columns}x{rows} {ask:?}");
                let _ = say.send(ExecOutput::Stdout(text.into())).await;
            }
            let _ = say.send(ExecOutput::Ended(0)).await;
        }
        ["flood"] => {
            let piece = Bytes::from(vec![b'x'; 64 * 1024]);
            while say.send(ExecOutput::Stdout(piece.clone())).await.is_ok() {
                said.fetch_add(1, Ordering::SeqCst);
            }
        }
        ["failed"] => {
            let _ = say.send(ExecOutput::Failed("no such program".to_owned())).await;
        }
        ["lost"] => {}
        _ => say.closed().await,
    }
}
