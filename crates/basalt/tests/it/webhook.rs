//! Admission over HTTPS: the table of cases through the webhook, and the real binary against a real API.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use basalt_admission::{Review, Stage, admit};
use basalt_apiserver::http::{FaceOptions, Pki, serve_router};
use basalt_webhook::Webhook;
use kube::client::Body;
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::server::{Server, http_get};

#[path = "../../../admission/tests/cases/table/table.rs"]
#[expect(dead_code, reason = "the table's own tests use the rest")]
mod table;

use table::{Row, World, all};

/// A client that trusts one authority, and waits no longer than a test may.
fn client(url: &str, authority: &str) -> Client {
    let mut config = Config::new(url.parse().expect("a url"));
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).expect("a certificate");
    config.root_cert = Some(vec![authority.to_vec()]);
    config.read_timeout = Some(Duration::from_secs(30));
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

async fn ask(client: &Client, path: &str, review: &Value) -> Result<Value, u16> {
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .expect("a request");
    client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{path}: {other}"),
    })
}

async fn code(client: &Client, path: &str) -> u16 {
    let request = http::Request::get(path).body(Body::empty()).expect("a request");
    client.send(request).await.expect("an answer").status().as_u16()
}

/// An API server that knows about rights alone: everybody has them, or nobody.
fn rights(granted: bool) -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| async move {
        assert_eq!(
            request.uri().path(),
            "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        );
        let review: Value = serde_json::from_slice(&request.into_body().collect_bytes().await?).expect("a review");
        assert_eq!(
            (&review["spec"]["user"], &review["spec"]["groups"]),
            (&json!("alice"), &json!(["people"]))
        );
        assert_eq!(review["spec"]["resourceAttributes"]["resource"], "queues");
        let answer = json!({"status": {"allowed": granted}}).to_string().into_bytes();
        Ok::<_, kube::Error>(http::Response::new(Body::from(answer)))
    });
    Client::new(service, "default")
}

/// A webhook on a free port, until the sender is dropped.
struct Serving {
    client: Client,
    _end: oneshot::Sender<()>,
}

async fn serve(webhook: &Webhook, pki: &Pki) -> Serving {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let (end, ended) = oneshot::channel::<()>();
    let tls = FaceOptions::new(pki.server_config().expect("tls"));
    let router = webhook.router();
    tokio::spawn(async move {
        let over = async { drop(ended.await) };
        serve_router(listener, router, tls, over).await.expect("it serves");
    });
    Serving {
        client: client(&url, pki.authority_pem()),
        _end: end,
    }
}

fn pki(folder: &std::path::Path) -> Pki {
    Pki::load_or_create(folder, &["127.0.0.1".to_owned()]).expect("certificates")
}

/// The answer of the function itself.
fn expected(row: &Row, stage: Stage) -> Value {
    let review = Review::read(row.review().to_string().as_bytes()).expect("a review");
    let decision = admit(&review.request(), &row.world.view(), &row.settings);
    review.answer(stage, &decision, row.granted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_ends_the_same_over_https() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = pki(folder.path());
    let rows = all();
    assert!(rows.len() >= 150, "{} cases", rows.len());
    for row in &rows {
        let webhook = Webhook::with_view(rights(row.granted), row.settings.clone(), row.world.view());
        let serving = serve(&webhook, &pki).await;
        for (stage, word) in [(Stage::Mutate, "mutate"), (Stage::Validate, "validate")] {
            let path = format!("/{}/{word}", row.resource);
            let answer = ask(&serving.client, &path, &row.review()).await;
            assert_eq!(answer, Ok(expected(row, stage)), "{}", row.title);
            if stage == Stage::Validate {
                let allowed = answer.expect("an answer")["response"]["allowed"].clone();
                assert_eq!(allowed, json!(!row.refused), "{}", row.title);
            }
        }
    }
}

#[tokio::test]
async fn what_is_no_review_is_refused_with_a_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = pki(folder.path());
    let row = &all()[0];
    let webhook = Webhook::with_view(rights(true), row.settings.clone(), World::usual().view());
    let serving = serve(&webhook, &pki).await;
    for (path, review, expected) in [
        ("/jobs/validate", json!({"kind": "Pod"}), 400),
        ("/queues/validate", row.review(), 400),
        ("/jobs/look", row.review(), 404),
        ("/secrets/validate", row.review(), 404),
    ] {
        assert_eq!(ask(&serving.client, path, &review).await, Err(expected), "{path}");
    }
    assert_eq!(code(&serving.client, "/readyz").await, 200);

    let blind = serve(&Webhook::new(rights(true), row.settings.clone()), &pki).await;
    assert_eq!(ask(&blind.client, "/jobs/validate", &row.review()).await, Err(503));
    assert_eq!(code(&blind.client, "/readyz").await, 503);
    assert_eq!(code(&blind.client, "/healthz").await, 200);
}

/// A child process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// The real binary: certificates of its own, a view from watches, rights from the API server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_binary_watches_a_cluster() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = tokio::task::block_in_place(|| Server::start(&folder.path().join("data"), &["--nodes", "2"]));
    let certificates = folder.path().join("certs");
    let mut child = Command::new(env!("CARGO_BIN_EXE_basalt"))
        .args(["webhook", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"])
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .arg("--cert-dir")
        .arg(&certificates)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let stdout = child.stdout.take().expect("stdout is piped");
    let _running = Running(child);
    let mut lines = BufReader::new(stdout).lines().map(|line| line.expect("text"));
    // Where operators look, and where admission is.
    let mut url = || {
        let line = lines.next().expect("a line");
        line.split_whitespace().last().expect("a url").to_owned()
    };
    let (desk, url) = (url(), url());
    let authority = std::fs::read_to_string(certificates.join("ca.crt")).expect("the authority is kept");
    let client = client(&url, &authority);
    let deadline = Instant::now() + Duration::from_secs(30);
    while code(&client, "/readyz").await != 200 {
        assert!(Instant::now() < deadline, "the webhook is never ready");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let job = table::delivery::build("job", json!("research")).review();
    let answer = ask(&client, "/jobs/validate", &job).await.expect("an answer");
    assert_eq!(answer["response"]["allowed"], false, "{answer}");
    let manifest = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: research}\nspec: {}\n";
    tokio::task::block_in_place(|| crate::helpers::apply(&server, manifest));
    while ask(&client, "/jobs/validate", &job).await.expect("an answer")["response"]["allowed"] != true {
        assert!(Instant::now() < deadline, "the webhook never sees the queue");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The nodes are seen too: 2 of 16 cores.
    let queue = table::queue::build("create", json!(["big", {"deserved": {"cpu": "33"}}])).review();
    let answer = ask(&client, "/queues/validate", &queue).await.expect("an answer");
    let message = answer["response"]["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("nodes offer, which is 32"), "{answer}");
    let desk = desk.trim_start_matches("http://");
    let metrics = tokio::task::block_in_place(|| http_get(desk, "/metrics"));
    let denied = r#"basalt_admission_reviews_total{resource="queues",stage="validate",answer="denied"} 1"#;
    assert!(metrics.contains(denied), "{metrics}");
    assert!(tokio::task::block_in_place(|| http_get(desk, "/readyz")).contains(" 200 "));
}

/// Who is slow, or talks too much before saying anything, is cut.
#[tokio::test]
async fn a_connection_that_says_nothing_ends_and_a_large_head_is_refused() {
    use tokio::io::AsyncReadExt;
    let folder = tempfile::tempdir().expect("a folder");
    let pki = pki(folder.path());
    let webhook = Webhook::with_view(rights(true), all()[0].settings.clone(), World::usual().view());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let options = FaceOptions {
        patience: Duration::from_millis(200),
        head_max: Some(16 * 1024),
        ..FaceOptions::new(pki.server_config().expect("tls"))
    };
    let (_end, ended) = oneshot::channel::<()>();
    tokio::spawn(serve_router(listener, webhook.router(), options, async {
        drop(ended.await);
    }));
    let mut silent = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let read = tokio::time::timeout(Duration::from_secs(20), silent.read(&mut [0; 16])).await;
    assert!(matches!(read, Ok(Ok(0) | Err(_))), "{read:?}");
    let client = client(&format!("https://{address}"), pki.authority_pem());
    for (size, expected) in [(8 * 1024, 200), (32 * 1024, 431)] {
        let request = http::Request::get("/readyz").header("x-large", "a".repeat(size));
        let answer = client.send(request.body(Body::empty()).expect("a request")).await;
        assert_eq!(answer.expect("an answer").status().as_u16(), expected, "{size}");
    }
}
