//! The network side: TLS, HTTP/1.1 and HTTP/2, limits, and an orderly end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::http::server::Server;
use crate::http::server::activity::{ConnectionActivity, RequestInProgress};

/// Limits of the network side.
#[derive(Clone, Debug)]
pub struct FaceOptions {
    /// Certificate and protocols; none: in the clear.
    pub config: Option<Arc<rustls::ServerConfig>>,
    /// Connections at the same time; more wait to be accepted.
    pub connections_max: usize,
    /// How long a client may take for the handshake, and for the head of a request.
    pub patience: Duration,
    /// How long open requests may go on after the end was asked for.
    pub farewell: Duration,
    /// The largest head of a request; none leaves it to the protocol's usual one.
    pub head_max: Option<u32>,
    /// A connection on which nothing is asked for so long is ended; none leaves that to the client.
    pub idle_max: Option<Duration>,
}

impl FaceOptions {
    /// The usual limits.
    pub fn new(config: Arc<rustls::ServerConfig>) -> FaceOptions {
        FaceOptions {
            config: Some(config),
            ..FaceOptions::plain()
        }
    }

    /// The usual limits, in the clear.
    pub fn plain() -> FaceOptions {
        FaceOptions {
            config: None,
            connections_max: 4096,
            patience: Duration::from_secs(15),
            farewell: Duration::from_secs(3),
            head_max: None,
            idle_max: None,
        }
    }
}

/// Why serving ended other than by request.
#[derive(Debug, thiserror::Error)]
#[error("cannot accept connections: {0}")]
pub struct ServeError(#[from] io::Error);

/// Less than this the protocol cannot work with.
const HTTP1_BUFFER_MIN: usize = 8192;

/// How long to wait when the system has no room for another connection.
const BREATH: Duration = Duration::from_millis(50);

/// Serves until `shutdown` resolves; then ends watches, lets requests finish, and returns.
pub async fn serve_tls(
    listener: TcpListener,
    server: Server,
    options: FaceOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let handler = server.clone();
    let handle = move |request| handler.clone().handle(request);
    serve(listener, handle, || server.close(), options, shutdown).await
}

/// Serves a router of somebody else's in the same way.
pub async fn serve_router(
    listener: TcpListener,
    router: Router,
    options: FaceOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let handle = move |request| {
        let router = router.clone();
        async move {
            match router.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        }
    };
    serve(listener, handle, || {}, options, shutdown).await
}

async fn serve<H, F>(
    listener: TcpListener,
    handle: H,
    close: impl FnOnce(),
    options: FaceOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError>
where
    H: Fn(Request<Body>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let acceptor = options.config.clone().map(TlsAcceptor::from);
    let room = Arc::new(Semaphore::new(options.connections_max));
    let (end, ending) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = accept(&listener, &room) => accepted,
        };
        match accepted {
            Ok((stream, peer, permit)) => {
                let handle = handle.clone();
                // Whoever answers may want to know who asks.
                let handle = move |mut request: Request<Body>| {
                    request.extensions_mut().insert(ConnectInfo(peer));
                    handle(request)
                };
                let connection = connection(stream, acceptor.clone(), handle, options.clone(), ending.clone());
                connections.spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) if is_transient(&error) => tokio::time::sleep(BREATH).await,
            Err(error) => return Err(error.into()),
        }
    }
    close();
    end.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(options.farewell, all).await.is_err() {
        connections.shutdown().await;
    }
    Ok(())
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let permit = room.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit))
}

/// Errors of one connection, or of a system that is full for a moment: not of the listener.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    const TOO_MANY_FILES: [i32; 2] = [23, 24];
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    ) || error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code))
}

async fn connection<H, F>(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    handle: H,
    options: FaceOptions,
    ending: watch::Receiver<bool>,
) where
    H: Fn(Request<Body>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    // Small answers should leave at once; a socket that refuses is only slower.
    let _slower = stream.set_nodelay(true);
    let Some(acceptor) = acceptor else {
        return converse(stream, handle, options, ending).await;
    };
    if let Ok(Ok(stream)) = tokio::time::timeout(options.patience, acceptor.accept(stream)).await {
        converse(stream, handle, options, ending).await;
    }
}

async fn converse<S, H, F>(stream: S, handle: H, options: FaceOptions, mut ending: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    H: Fn(Request<Body>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let activity = Arc::new(ConnectionActivity::default());
    let active = Arc::clone(&activity);
    let service = service_fn(move |request: Request<Incoming>| {
        let (answer, busy) = (handle(request.map(Body::new)), RequestInProgress::new(&active));
        async move {
            let answer = answer.await;
            drop(busy);
            Ok::<_, Infallible>(answer)
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.patience);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .max_concurrent_streams(1000);
    if let Some(largest) = options.head_max {
        builder.http1().max_buf_size((largest as usize).max(HTTP1_BUFFER_MIN));
        builder.http2().max_header_list_size(largest);
    }
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        _ = ending.wait_for(|ending| *ending) => None,
        () = activity.idle(options.idle_max) => None,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        connection.as_mut().graceful_shutdown();
        connection.await
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
