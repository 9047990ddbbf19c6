//! Commands inside pods, asked of a host that follows a script.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use basalt_apiserver::http::{FaceOptions, Identity, Pki, serve_tls};
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::pod_host::{PODS, pod, world};

type Socket = WebSocketStream<tokio_rustls::client::TlsStream<TcpStream>>;
use crate::scripted::Scripted;
use crate::serving::connect;
use crate::world::{TOKEN, World};

#[tokio::test]
async fn commands_that_cannot_be_run_are_refused_as_a_status() {
    let (world, _) = world().await;
    pod(&world, "one", "n1", &["running"], json!({})).await;
    pod(&world, "over", "n1", &["ended"], json!({})).await;
    pod(&world, "faked", "fake", &["running"], json!({})).await;
    pod(&world, "homeless", "", &["silent"], json!({})).await;
    for (method, path, upgrade, expected) in [
        (
            "GET",
            "one/exec?stdout=1",
            "websocket",
            "you must specify at least 1 command for the container",
        ),
        (
            "GET",
            "one/exec?command=ls",
            "websocket",
            "you must specify at least 1 of stdin, stdout, stderr",
        ),
        ("GET", "one/exec?command=ls&stdout=1", "", "Upgrade request required"),
        ("POST", "one/exec?command=ls&stdout=1", "", "Upgrade request required"),
        (
            "POST",
            "one/exec?command=ls&stdout=1",
            "SPDY/3.1",
            "exec over SPDY is not served here: use a client that speaks WebSockets, such as kubectl 1.31 or newer",
        ),
        (
            "POST",
            "faked/exec?command=ls&stdout=1",
            "SPDY/3.1",
            "faked runs on a fake node",
        ),
        // kubectl comes again with SPDY after a refusal: it must hear the same.
        (
            "POST",
            "over/exec?command=ls&stdout=1",
            "SPDY/3.1",
            "container \"ended\" in pod \"over\" is not running: Completed",
        ),
        (
            "GET",
            "homeless/exec?command=ls&stdout=1",
            "websocket",
            "pod homeless does not have a host assigned",
        ),
        (
            "GET",
            "one/exec?container=no&command=ls&stdout=1",
            "websocket",
            "container no is not valid for pod one",
        ),
    ] {
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{PODS}/{path}"))
            .body(Body::empty())
            .expect("a request");
        if !upgrade.is_empty() {
            request
                .headers_mut()
                .insert("upgrade", upgrade.parse().expect("a header"));
            request
                .headers_mut()
                .insert("connection", "Upgrade".parse().expect("a header"));
        }
        request.extensions_mut().insert(Identity::admin("tester"));
        let answer = crate::world::answer(world.raw(request).await).await;
        assert_eq!((answer.code, answer.message()), (400, expected), "{method} {path}");
    }
}

/// A server on a port, with a running pod.
struct Network {
    world: World,
    host: Scripted,
    address: SocketAddr,
    authority: String,
    _folder: tempfile::TempDir,
}

impl Network {
    async fn new() -> Self {
        let (world, host) = world().await;
        pod(&world, "one", "n1", &["running"], json!({})).await;
        let folder = tempfile::tempdir().expect("a folder");
        let pki = Pki::load_or_create(folder.path(), &["127.0.0.1".to_owned()]).expect("keys");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let options = FaceOptions::new(pki.server_config().expect("a configuration"));
        tokio::spawn(serve_tls(
            listener,
            world.server.clone(),
            options,
            std::future::pending(),
        ));
        Self {
            world,
            host,
            address,
            authority: pki.authority_pem().to_owned(),
            _folder: folder,
        }
    }

    async fn try_exec(&self, query: &str, protocols: &str, token: &str) -> Result<Socket, Box<Error>> {
        let url = format!("wss://{}{PODS}/one/exec?{query}", self.address);
        let mut request = url.into_client_request().expect("a request");
        let headers = request.headers_mut();
        headers.insert("authorization", format!("Bearer {token}").parse().expect("a header"));
        headers.insert("sec-websocket-protocol", protocols.parse().expect("a header"));
        let stream = connect(self.address, &self.authority).await;
        let (socket, answer) = tokio_tungstenite::client_async(request, stream).await?;
        assert!(protocols.contains(answer.headers()["sec-websocket-protocol"].to_str().expect("text")));
        Ok(socket)
    }

    async fn exec(&self, query: &str) -> Socket {
        let both = "v5.channel.k8s.io, v4.channel.k8s.io";
        self.try_exec(query, both, TOKEN).await.expect("it opens")
    }

    async fn until(&self, what: &str, wanted: impl Fn(&Scripted) -> bool) {
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while !wanted(&self.host) {
            assert!(std::time::Instant::now() < deadline, "{what}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Everything that is said until the end: per channel, and the code of the close frame.
async fn all(mut socket: Socket) -> (Vec<(u8, String)>, u16) {
    let mut said = Vec::new();
    while let Some(message) = socket.next().await {
        match message.expect("a message") {
            Message::Binary(data) => {
                let (channel, text) = data.split_first().expect("a channel");
                said.push((*channel, String::from_utf8_lossy(text).into_owned()));
            }
            Message::Close(frame) => return (said, frame.expect("a frame").code.into()),
            _ => {}
        }
    }
    panic!("the connection broke after {said:?}")
}

fn status(said: &[(u8, String)]) -> Value {
    let (channel, text) = said.last().expect("a last word");
    assert_eq!(*channel, 3, "{said:?}");
    serde_json::from_str(text).expect("a status")
}

#[tokio::test]
async fn what_a_command_says_and_how_it_ends_is_heard() {
    let network = Network::new().await;
    let outputs = "stdout=true&stderr=true";
    let socket = network
        .exec(&format!(
            "command=say&command=out+put&command=err%21&command=0&{outputs}"
        ))
        .await;
    let (said, code) = all(socket).await;
    assert_eq!(
        said.get(..2).expect("two"),
        [(1, "out put".to_owned()), (2, "err!".to_owned())]
    );
    assert_eq!(
        (status(&said), code),
        (json!({"metadata": {}, "status": "Success"}), 1000)
    );

    let socket = network
        .exec(&format!("command=say&command=a&command=b&command=7&{outputs}"))
        .await;
    let (said, code) = all(socket).await;
    let failed = status(&said);
    assert_eq!((failed["reason"].as_str(), code), (Some("NonZeroExitCode"), 1000));
    assert_eq!(
        failed["details"]["causes"],
        json!([{"reason": "ExitCode", "message": "7"}])
    );
    assert_eq!(
        failed["message"],
        "command terminated with non-zero exit code: exit status 7"
    );

    for (command, message) in [("failed", "no such program"), ("lost", "the command was lost")] {
        let (said, code) = all(network.exec(&format!("command={command}&{outputs}")).await).await;
        let text = status(&said)["message"].to_string();
        assert!(text.contains(message) && code == 1000, "{text}");
    }
    network
        .until("all ended", |host| host.open.load(Ordering::SeqCst) == 0)
        .await;
}

fn frame(channel: u8, data: &[u8]) -> Message {
    let mut message = vec![channel];
    message.extend_from_slice(data);
    Message::Binary(message.into())
}

#[tokio::test]
async fn input_reaches_the_command_and_ends() {
    let network = Network::new().await;
    let mut socket = network.exec("command=cat&stdin=1&stdout=1").await;
    for message in [
        frame(0, b"hello "),
        frame(0, b""),
        frame(9, b"what?"),
        frame(0, b"there"),
        frame(255, &[0]),
    ] {
        socket.send(message).await.expect("sent");
    }
    let (said, _) = all(socket).await;
    let text: String = said
        .iter()
        .filter(|(channel, _)| *channel == 1)
        .map(|(_, text)| text.as_str())
        .collect();
    assert_eq!(
        (text.as_str(), status(&said)["status"].as_str()),
        ("hello there", Some("Success"))
    );

    let mut socket = network.exec("command=size&stdin=1&stdout=1&stderr=1&tty=1").await;
    socket.send(frame(4, b"not JSON")).await.expect("sent");
    socket
        .send(frame(4, br#"{"Width":120,"Height":40}"#))
        .await
        .expect("sent");
    let (said, _) = all(socket).await;
    let (_, text) = said.first().expect("words");
    assert!(
        text.starts_with("120x40") && text.contains("stderr: false, tty: true"),
        "{text}"
    );
}

#[tokio::test]
async fn who_goes_away_or_does_not_read_is_noticed() {
    let network = Network::new().await;
    let socket = network.exec("command=wait&stdout=1").await;
    network
        .until("it runs", |host| host.open.load(Ordering::SeqCst) == 1)
        .await;
    drop(socket);
    network
        .until("the command has ended", |host| host.open.load(Ordering::SeqCst) == 0)
        .await;

    // Nobody reads: what is said stays within the sockets' buffers.
    let mut socket = network.exec("command=flood&stdout=1").await;
    let mut before = usize::MAX;
    while before != network.host.said.load(Ordering::SeqCst) {
        before = network.host.said.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(before < 1000, "{before} pieces of 64 KiB were said to nobody");
    // The sockets' buffers hold the most of it; when they are read out, it goes on.
    for _ in 0..=before {
        socket.next().await.expect("a message").expect("a message");
    }
    assert!(network.host.said.load(Ordering::SeqCst) > before);
    drop(socket);
    network
        .until("the flood has ended", |host| host.open.load(Ordering::SeqCst) == 0)
        .await;

    // A command that reads nothing: the client's messages stop, its output does not.
    let mut socket = network.exec("command=wait&stdin=1&stdout=1").await;
    let piece = vec![0_u8; 64 * 1024];
    let mut sent = 0;
    while let Ok(done) = tokio::time::timeout(Duration::from_millis(500), socket.send(frame(0, &piece))).await {
        done.expect("the connection stands");
        sent += 1;
        assert!(
            sent < 1000,
            "{sent} pieces of 64 KiB were taken from a client by nobody"
        );
    }
    network.world.server.close();
    network
        .until("the server's end ends it", |host| host.open.load(Ordering::SeqCst) == 0)
        .await;
}

#[tokio::test]
async fn strangers_and_other_tongues_are_refused() {
    let network = Network::new().await;
    for (query, protocols, token, code, expected) in [
        (
            "command=wait&stdout=1",
            "v5.channel.k8s.io",
            "forged",
            401,
            "Unauthorized",
        ),
        (
            "command=wait&stdout=1",
            "base64.channel.k8s.io",
            TOKEN,
            400,
            "the client offers none of the protocols v5.channel.k8s.io, v4.channel.k8s.io",
        ),
        (
            "command=refused&stdout=1",
            "v4.channel.k8s.io",
            TOKEN,
            400,
            "one ends just now",
        ),
    ] {
        let refused = network.try_exec(query, protocols, token).await.expect_err("refused");
        let Error::Http(answer) = *refused else {
            panic!("{refused}")
        };
        let body: Value = serde_json::from_slice(answer.body().as_deref().unwrap_or_default()).unwrap_or_default();
        assert_eq!(
            (answer.status().as_u16(), body["message"].as_str()),
            (code, Some(expected))
        );
    }
    let (said, _) = all(network
        .try_exec(
            "command=say&command=a&command=&command=0&stdout=1",
            "v4.channel.k8s.io",
            TOKEN,
        )
        .await
        .expect("the older version"))
    .await;
    assert_eq!(status(&said)["status"], "Success");
}
