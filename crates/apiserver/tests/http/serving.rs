//! The network side: TLS with our own authority, both protocols, and an orderly end.

use basalt_apiserver::http::{FaceOptions, Pki, Server, ServerOptions, index, serve_tls};
use basalt_apiserver::store::{Backend, Options, Store};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{World, widget, widgets};

/// A connection that trusts only the authority.
pub(crate) async fn connect(
    address: std::net::SocketAddr,
    authority: &str,
) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.as_bytes()).expect("a certificate"))
        .expect("an authority");
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config
        .expect("protocols")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.expect("a connection");
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    connector.connect(name, stream).await.expect("a handshake")
}

/// Sends one request over TLS and reads the answer to its end.
async fn ask(address: std::net::SocketAddr, authority: &str, token: &str, path: &str) -> String {
    let mut stream = connect(address, authority).await;
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text");
    answer
}

#[tokio::test]
async fn the_token_gets_in_over_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = ["127.0.0.1".to_owned()];
    let first = Pki::load_or_create(folder.path(), &hosts).expect("made");
    let pki = Pki::load_or_create(folder.path(), &hosts).expect("loaded");
    assert_eq!(
        (first.token(), first.authority_pem()),
        (pki.token(), pki.authority_pem()),
        "they survive a restart"
    );

    let store = Store::open(Options {
        indexer: index,
        ..Options::new(Backend::Memory)
    })
    .expect("a store");
    let server = Server::new(
        store,
        ServerOptions {
            token: Some(pki.token()),
            ..ServerOptions::default()
        },
    );
    server.bootstrap().await.expect("bootstrap");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let options = FaceOptions::new(pki.server_config().expect("a configuration"));
    let serving = tokio::spawn(serve_tls(listener, server, options, async {
        let _end = ended.await;
    }));

    // The certificate is made anew at each start; the authority that clients know signed both.
    let answer = ask(
        address,
        first.authority_pem(),
        &first.token(),
        "/api/v1/namespaces/default",
    )
    .await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.contains("\"kind\":\"Namespace\""),
        "{answer}"
    );
    let answer = ask(address, first.authority_pem(), "forged", "/api/v1/namespaces").await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");

    let path = folder.path().join("kubeconfig");
    pki.write_kubeconfig(&path, &format!("https://{address}"))
        .expect("written");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).expect("a file").permissions());
    assert_eq!(mode & 0o777, 0o600);
    let config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("JSON is YAML");
    assert_eq!(config["users"][0]["user"]["token"], *first.token());

    end.send(()).expect("it listens");
    serving.await.expect("it ends").expect("in order");
}

#[test]
fn definitions_and_objects_survive_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = "/apis/example.com/v1/namespaces/default/widgets/a";
    // A runtime of its own for each life: when it is dropped, so is every task that holds the store.
    let live = |life: &dyn Fn(World) -> futures::future::LocalBoxFuture<'static, serde_json::Value>| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let backend = Backend::Disk(folder.path().join("store"));
            let store = Store::open(Options {
                indexer: index,
                ..Options::new(backend)
            })
            .expect("a store");
            let server = Server::new(store, ServerOptions::default());
            server.bootstrap().await.expect("bootstrap");
            life(World::over(server)).await
        })
    };
    let made = live(&|world| {
        Box::pin(async move {
            world
                .made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
                .await;
            world
                .made("/apis/example.com/v1/namespaces/default/widgets", widget("a"))
                .await
        })
    });
    let found = live(&|world| Box::pin(async move { world.get(path).await.body }));
    assert_eq!(found, made);
}

#[tokio::test]
async fn the_router_is_the_same_server() {
    use tower::ServiceExt;
    let world = World::new().await;
    let request = http::Request::builder()
        .uri("/version")
        .body(axum::body::Body::empty())
        .expect("a request");
    let response = world.server.router().oneshot(request).await.expect("an answer");
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn a_server_that_cannot_write_is_not_ready() {
    let world = World::new().await;
    assert_eq!(world.get("/readyz").await.code, 200);
    world.server.store().close();
    assert_eq!(world.get("/readyz").await.code, 500);
    assert_eq!(world.get("/livez").await.code, 200);
}
