//! Shims call the agent on its socket.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{self, UnboundedSender};
use tracing::{debug, warn};

use super::super::talk::{FromShim, LINE_MAX, ToShim};
use super::Message;

/// Listens; what a server before this one left is replaced (the data folder's lock says that it has gone).
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Takes calls for ever.
pub(super) async fn take(listener: UnixListener, messages: UnboundedSender<Message>) {
    let own = rustix::process::geteuid().as_raw();
    let mut number = 0_u64;
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // No descriptors left, for example: the callers try again, and so do we.
                warn!(%error, "a shim's call could not be taken");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        // Shims run as the server does; the pods' processes have nothing to say here.
        match stream.peer_cred() {
            Ok(caller) if caller.uid() == own => {}
            _ => continue,
        }
        number += 1;
        tokio::spawn(converse(stream, number, messages.clone()));
    }
}

async fn converse(stream: UnixStream, number: u64, messages: UnboundedSender<Message>) {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let uid = match hear(&mut read).await {
        Ok(Some(FromShim::State(state))) => {
            let uid = state.uid.clone();
            let (orders, mut to_send) = mpsc::unbounded_channel::<ToShim>();
            let _ = messages.send(Message::Called {
                uid: uid.clone(),
                number,
                orders,
            });
            let _ = messages.send(Message::Said {
                uid: uid.clone(),
                what: FromShim::State(state),
            });
            tokio::spawn(async move {
                while let Some(order) = to_send.recv().await {
                    let Ok(mut line) = serde_json::to_vec(&order) else {
                        continue;
                    };
                    line.push(b'\n');
                    if write.write_all(&line).await.is_err() {
                        break;
                    }
                }
            });
            uid
        }
        other => {
            debug!(?other, "a call that does not begin with a state");
            return;
        }
    };
    loop {
        let heard = tokio::select! {
            heard = hear(&mut read) => heard,
            // Nobody listens any more: the shim is to call whoever comes next.
            () = messages.closed() => return,
        };
        match heard {
            Ok(Some(what)) => {
                let uid = uid.clone();
                let _ = messages.send(Message::Said { uid, what });
            }
            Ok(None) => break,
            Err(error) => {
                debug!(%error, uid, "a shim's line could not be read");
                break;
            }
        }
    }
    let _ = messages.send(Message::HungUp { uid, number });
}

/// One line; absent at the end of the call.
async fn hear(read: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<FromShim>> {
    let mut line = Vec::new();
    let length = read.take(LINE_MAX as u64).read_until(b'\n', &mut line).await?;
    if length == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}
