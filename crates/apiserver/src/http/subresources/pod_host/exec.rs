//! `pods/NAME/exec`: a command inside a container, over a WebSocket.
//!
//! Each message is one byte for the channel, then data: 0 to the command, 1 and 2 from it, 3 how it ended (a Status),
//! 4 the size of the terminal. Version 5 of the protocol adds channel 255: the channel that it names has ended.

use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use bytes::{BufMut, Bytes, BytesMut};
use http::request::Parts;
use http::{Method, Response, header};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::{Asked, ExecAsk, ExecInput, ExecOutput, Session, container, is_on, over};
use crate::http::response::status::{ApiError, ApiResult};

/// The protocols that are spoken; the first is preferred.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// Longest message of a client.
const MESSAGE_MAX: usize = 1024 * 1024;
/// How often a client hears that the connection lives, also when its input is waited with.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long a client may take to close after the end.
const FAREWELL: Duration = Duration::from_secs(5);

/// Checks what is asked, starts the command, and hands the connection to it.
pub(super) async fn run(
    asked: Asked<'_>,
    parameters: &[(String, String)],
    mut parts: Parts,
) -> ApiResult<Response<Body>> {
    let ask = options(parameters)?;
    let hosted = &asked.hosted;
    container::check_running(&asked.pod, &hosted.pod, &hosted.container)?;
    let host = asked.host()?;
    host.check_exec(hosted)?;
    // Refusals of the pod come first: kubectl tries SPDY after any refusal and shows only that one's.
    let upgrade = upgrade(&mut parts).await?;
    let room = asked.server.inner.sessions.clone().try_acquire_owned().map_err(|_| {
        let why = "too many commands run inside pods at the same time";
        ApiError::new(429, "TooManyRequests", why)
    })?;
    let session = host.exec(asked.hosted.clone(), ask).await?;
    let closing = asked.server.inner.closing.subscribe();
    Ok(upgrade.on_upgrade(move |socket| converse(socket, session, closing, room)))
}

fn options(parameters: &[(String, String)]) -> ApiResult<ExecAsk> {
    let words = parameters.iter().filter(|(key, _)| key == "command");
    let tty = is_on(parameters, "tty");
    let ask = ExecAsk {
        command: words.map(|(_, word)| word.clone()).collect(),
        stdin: is_on(parameters, "stdin"),
        stdout: is_on(parameters, "stdout"),
        stderr: is_on(parameters, "stderr") && !tty,
        tty,
    };
    if ask.command.first().is_none_or(String::is_empty) {
        return Err(ApiError::bad_request(
            "you must specify at least 1 command for the container",
        ));
    }
    if !(ask.stdin || ask.stdout || ask.stderr) {
        return Err(ApiError::bad_request(
            "you must specify at least 1 of stdin, stdout, stderr",
        ));
    }
    Ok(ask)
}

async fn upgrade(parts: &mut Parts) -> ApiResult<WebSocketUpgrade> {
    let wanted = parts.headers.get(header::UPGRADE).and_then(|value| value.to_str().ok());
    let wanted = wanted.unwrap_or_default().to_ascii_lowercase();
    if wanted.starts_with("spdy/") {
        let why =
            "exec over SPDY is not served here: use a client that speaks WebSockets, such as kubectl 1.31 or newer";
        return Err(ApiError::bad_request(why));
    }
    if wanted.is_empty() || parts.method != Method::GET {
        return Err(ApiError::bad_request("Upgrade request required"));
    }
    let upgrade = WebSocketUpgrade::from_request_parts(parts, &()).await;
    let upgrade = upgrade.map_err(|error| ApiError::bad_request(error.body_text()))?;
    let upgrade = upgrade.protocols(PROTOCOLS).max_message_size(MESSAGE_MAX);
    if upgrade.selected_protocol().is_none() {
        let why = format!("the client offers none of the protocols {}", PROTOCOLS.join(", "));
        return Err(ApiError::bad_request(why));
    }
    // Small answers should leave at once.
    Ok(upgrade.write_buffer_size(0))
}

/// Carries messages both ways until the command or the client ends; the session ends with this.
async fn converse(
    mut socket: WebSocket,
    session: Session,
    mut closing: watch::Receiver<bool>,
    _room: OwnedSemaphorePermit,
) {
    let Session { input, mut output } = session;
    // Read from the client and not yet taken by the command: until it is, nothing more is read.
    let mut given: Option<ExecInput> = None;
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let sent = tokio::select! {
            said = output.recv() => match said {
                Some(ExecOutput::Stdout(data)) => send(&mut socket, STDOUT, &data).await,
                Some(ExecOutput::Stderr(data)) => send(&mut socket, STDERR, &data).await,
                Some(ExecOutput::Ended(code)) => return finish(socket, &ended(code)).await,
                Some(ExecOutput::Failed(why)) => return finish(socket, &ApiError::internal(why).status()).await,
                None => return finish(socket, &ApiError::internal("the command was lost").status()).await,
            },
            message = socket.recv(), if given.is_none() => match message {
                Some(Ok(Message::Binary(data))) => { given = read(&data); Ok(()) }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Text(_))) => Ok(()),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            },
            room = input.reserve(), if given.is_some() => {
                // A command that has closed its input misses what comes after.
                if let (Ok(room), Some(given)) = (room, given.take()) {
                    room.send(given);
                }
                Ok(())
            }
            _ = heartbeat.tick() => socket.send(Message::Pong(Bytes::new())).await,
            () = over(&mut closing) => {
                return finish(socket, &ApiError::internal("the server is shutting down").status()).await;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Size {
    width: u16,
    height: u16,
}

/// What a message of the client means for the command, if anything.
fn read(message: &Bytes) -> Option<ExecInput> {
    let (&channel, data) = message.split_first()?;
    match channel {
        STDIN if !data.is_empty() => Some(ExecInput::Stdin(message.slice(1..))),
        RESIZE => {
            let size: Size = serde_json::from_slice(data).ok()?;
            Some(ExecInput::Resize {
                columns: size.width,
                rows: size.height,
            })
        }
        CLOSE if data == [STDIN] => Some(ExecInput::StdinEnds),
        _ => None,
    }
}

async fn send(socket: &mut WebSocket, channel: u8, data: &[u8]) -> Result<(), axum::Error> {
    let mut message = BytesMut::with_capacity(data.len().saturating_add(1));
    message.put_u8(channel);
    message.put_slice(data);
    socket.send(Message::Binary(message.freeze())).await
}

/// Says how it ended and waits until the client has heard it.
async fn finish(mut socket: WebSocket, status: &Value) {
    let goodbye = async {
        send(&mut socket, STATUS, status.to_string().as_bytes()).await?;
        let frame = CloseFrame {
            code: 1000,
            reason: "".into(),
        };
        socket.send(Message::Close(Some(frame))).await?;
        while let Some(Ok(_)) = socket.recv().await {}
        Ok::<_, axum::Error>(())
    };
    // A client that went away does not hear it, and one that does not close is left.
    let _ = tokio::time::timeout(FAREWELL, goodbye).await;
}

fn ended(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}
