//! What a pod says, line by line.

use basalt_api::json::{integer_or_zero, string_at};
use futures::{AsyncBufRead, AsyncBufReadExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use serde_json::Value;
use tokio::sync::mpsc;

/// A longer line is shown as several.
const LINE_MAX: usize = 256 * 1024;

/// A line of a pod, or why there are no more.
#[derive(Debug)]
pub struct Said {
    /// The pod's name.
    pub pod: String,
    /// The line without its end.
    pub line: Result<Vec<u8>, String>,
}

/// The number of a container's run (of the first one, if none is named), if it has begun.
pub fn begun(pod: &Value, wanted: Option<&str>) -> Option<i64> {
    let lists = ["/status/containerStatuses", "/status/initContainerStatuses"];
    let mut all = lists
        .into_iter()
        .filter_map(|list| pod.pointer(list).and_then(Value::as_array))
        .flatten();
    let status = match wanted {
        Some(wanted) => all.find(|status| string_at(status, "/name") == wanted)?,
        None => all.next()?,
    };
    let begun = ["/state/running", "/state/terminated"]
        .iter()
        .any(|state| status.pointer(state).is_some_and(|state| !state.is_null()));
    begun.then(|| integer_or_zero(status, "/restartCount"))
}

/// Hands on the lines of one pod until there are no more.
pub async fn read_lines(api: Api<Pod>, pod: String, params: LogParams, say: mpsc::Sender<Said>) {
    let said = |line| Said { pod: pod.clone(), line };
    let stream = match api.log_stream(&pod, &params).await {
        Ok(stream) => stream,
        Err(error) => {
            let why = match error {
                kube::Error::Api(status) => status.message.clone(),
                other => other.to_string(),
            };
            // Nobody listens any more: nothing is lost.
            let _ = say.send(said(Err(why))).await;
            return;
        }
    };
    let mut stream = std::pin::pin!(stream);
    loop {
        let next = match next_line(&mut stream).await {
            Ok(Some(line)) => said(Ok(line)),
            Ok(None) => return,
            Err(error) => said(Err(format!("the log broke off: {error}"))),
        };
        let broken = next.line.is_err();
        if say.send(next).await.is_err() || broken {
            return;
        }
    }
}

/// The next line without its end; nothing at the end of all.
async fn next_line(stream: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    while line.len() < LINE_MAX {
        let piece = stream.fill_buf().await?;
        if piece.is_empty() {
            return Ok((!line.is_empty()).then_some(line));
        }
        if let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            line.extend(piece.iter().take(end));
            stream.consume_unpin(end.saturating_add(1));
            return Ok(Some(line));
        }
        line.extend_from_slice(piece);
        let used = piece.len();
        stream.consume_unpin(used);
    }
    Ok(Some(line))
}
