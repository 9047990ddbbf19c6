//! etcd as a peer: its own process, its gRPC API over several HTTP/2 connections. The two messages
//! that a put needs are encoded by hand.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::{Load, Writer, load, name};

/// As many as an API server would use, and more than enough to keep etcd busy.
const CONNECTIONS: usize = 16;
const START_TIME_MAX: Duration = Duration::from_secs(30);

type Connection = SendRequest<Full<Bytes>>;

/// A running etcd; it ends with this.
pub(super) struct Etcd {
    process: Child,
    connections: Vec<Connection>,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Etcd {
    /// Starts etcd with its defaults (it fsyncs) on loopback.
    pub(super) async fn start(binary: &Path, data: &Path) -> anyhow::Result<Self> {
        let (client, peer) = (free_port()?, free_port()?);
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let process = Command::new(binary)
            .arg("--data-dir")
            .arg(data)
            .args([
                "--name",
                "bench",
                "--log-level",
                "error",
                "--quota-backend-bytes",
                "8589934592",
            ])
            .args([
                "--listen-client-urls",
                &url(client),
                "--advertise-client-urls",
                &url(client),
            ])
            .args([
                "--listen-peer-urls",
                &url(peer),
                "--initial-advertise-peer-urls",
                &url(peer),
            ])
            .args(["--initial-cluster", &format!("bench={}", url(peer))])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        let mut etcd = Self {
            process,
            connections: Vec::new(),
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, client));
        let begin = Instant::now();
        let first = loop {
            match ready(address).await {
                Ok(connection) => break connection,
                Err(error) if begin.elapsed() > START_TIME_MAX => return Err(error.context("etcd does not get ready")),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
            if let Some(status) = etcd.process.try_wait()? {
                bail!("etcd ended: {status}");
            }
        };
        let mut connections = vec![first];
        while connections.len() < CONNECTIONS {
            connections.push(connect(address).await?);
        }
        etcd.connections = connections;
        Ok(etcd)
    }

    /// Puts by concurrent writers.
    pub(super) async fn load(&self, writers: usize, time: Duration, value: &Arc<[u8]>) -> anyhow::Result<Load> {
        let writer = |number| Putter {
            number,
            connection: self.connections[number % self.connections.len()].clone(),
            value: Arc::clone(value),
        };
        load(writers, time, writer).await
    }
}

/// Puts into etcd.
struct Putter {
    number: usize,
    connection: Connection,
    value: Arc<[u8]>,
}

impl Writer for Putter {
    async fn write(&mut self, count: u64) -> anyhow::Result<()> {
        let message = put(name(self.number, count).as_bytes(), &self.value);
        send(&mut self.connection, message).await
    }
}

/// A port that was free a moment ago.
fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

async fn connect(address: SocketAddr) -> anyhow::Result<Connection> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    // Its errors come back through the requests that it carries.
    tokio::spawn(connection);
    Ok(sender)
}

/// A connection over which a put has worked.
async fn ready(address: SocketAddr) -> anyhow::Result<Connection> {
    let mut connection = connect(address).await?;
    send(&mut connection, put(b"ready", b"?")).await?;
    Ok(connection)
}

/// `PutRequest { key = 1, value = 2 }` in a gRPC frame.
fn put(key: &[u8], value: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(key.len() + value.len() + 16);
    for (field, bytes) in [(1, key), (2, value)] {
        message.put_u8(field << 3 | 2);
        let mut length = bytes.len();
        while length >= 0x80 {
            message.put_u8(length as u8 | 0x80);
            length >>= 7;
        }
        message.put_u8(length as u8);
        message.put_slice(bytes);
    }
    let mut frame = BytesMut::with_capacity(message.len() + 5);
    frame.put_u8(0);
    frame.put_u32(message.len() as u32);
    frame.unsplit(message);
    frame.freeze()
}

async fn send(connection: &mut Connection, message: Bytes) -> anyhow::Result<()> {
    let request = http::Request::post("http://etcd/etcdserverpb.KV/Put")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(message))?;
    connection.ready().await?;
    let response = connection.send_request(request).await?;
    ensure!(
        response.status() == http::StatusCode::OK,
        "etcd answered {}",
        response.status()
    );
    let headers = response.headers().clone();
    let body = response.into_body().collect().await?;
    let status = body
        .trailers()
        .and_then(|trailers| trailers.get("grpc-status"))
        .or(headers.get("grpc-status"));
    ensure!(status.is_some_and(|status| status == "0"), "etcd refused: {status:?}");
    Ok(())
}
