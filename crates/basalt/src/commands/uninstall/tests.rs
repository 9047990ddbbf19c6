use std::sync::Mutex;

use kube::api::PostParams;
use serde_json::{Value, json};

use super::*;
use basalt_webhook::test_server as embedded;

/// Creates whatever it is.
async fn create(client: &Client, path: &str, object: Value) {
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())
        .expect("a request");
    let _made: Value = client.request(request).await.expect("it is made");
}

async fn furnish(client: &Client) {
    let registration = "/apis/admissionregistration.k8s.io/v1";
    for (kind, resource, name) in [
        (
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            WEBHOOK_VALIDATE,
        ),
        (
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            WEBHOOK_MUTATE,
        ),
        (
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            "others",
        ),
    ] {
        let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
        create(client, &format!("{registration}/{resource}"), object).await;
    }
    for (name, finalizers) in [
        ("held", json!([names::QUEUE_FINALIZER])),
        ("shared", json!(["other.example/keep", names::QUEUE_FINALIZER])),
    ] {
        let object = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
            "metadata": {"name": name, "finalizers": finalizers}, "spec": {}});
        create(client, "/apis/scheduling.volcano.sh/v1beta1/queues", object).await;
    }
    let [key, value] = MADE_BY;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": WEBHOOK_SECRET, "labels": {key: value}}});
    create(client, "/api/v1/namespaces/default/secrets", secret).await;
}

async fn finalizers(client: &Client) -> Vec<(String, Vec<String>)> {
    let api: Api<Queue> = Api::all(client.clone());
    let queues = api.list(&ListParams::default()).await.expect("queues");
    let of = |queue: &Queue| (queue.name_any(), queue.finalizers().to_vec());
    let mut all: Vec<_> = queues.iter().map(of).collect();
    all.sort();
    all
}

/// What is said.
async fn uninstall(client: &Client, dry_run: bool) -> Vec<String> {
    let said = Mutex::new(Vec::new());
    let removal = Removal {
        client: client.clone(),
        namespace: "default".to_owned(),
        timeout: Duration::from_secs(5),
        dry_run,
        say: |line| said.lock().expect("no panic").push(line),
    };
    removal.run().await.expect("it is uninstalled");
    said.into_inner().expect("no panic")
}

#[tokio::test]
async fn what_would_get_in_the_way_goes_and_the_rest_stays() {
    let client = embedded::client().await;
    furnish(&client).await;
    let before = finalizers(&client).await;

    let would = uninstall(&client, true).await;
    let expected = [
        "ValidatingWebhookConfiguration/basalt-validate: removed",
        "MutatingWebhookConfiguration/basalt-mutate: removed",
        "Queue/held: released from its finalizer",
        "Queue/shared: released from its finalizer",
        "Secret/basalt-webhook-tls: removed",
    ];
    assert_eq!(would, expected.map(|line| line.replace(": ", ": would be ")));
    assert_eq!(finalizers(&client).await, before, "nothing was done");

    assert_eq!(uninstall(&client, false).await, expected);
    let other = "other.example/keep".to_owned();
    let after = [("held", vec![]), ("shared", vec![other])];
    assert_eq!(
        finalizers(&client).await,
        after.map(|(name, left)| (name.to_owned(), left))
    );
    let left: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let left = left.list(&ListParams::default()).await.expect("a list");
    assert_eq!(left.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["others"]);

    let again = [
        "ValidatingWebhookConfiguration/basalt-validate: not there",
        "MutatingWebhookConfiguration/basalt-mutate: not there",
        "queues: none has our finalizer",
    ];
    assert_eq!(uninstall(&client, false).await, again);
}

#[tokio::test]
async fn a_secret_of_somebody_else_stays() {
    let client = embedded::client().await;
    let api: Api<Secret> = Api::namespaced(client.clone(), "default");
    let mut secret = Secret::default();
    secret.metadata.name = Some(WEBHOOK_SECRET.to_owned());
    api.create(&PostParams::default(), &secret).await.expect("made");
    uninstall(&client, false).await;
    assert!(api.get_opt(WEBHOOK_SECRET).await.expect("an answer").is_some());
}

/// What a write is worth that failed with this code and message.
#[test]
fn a_webhook_that_is_still_asked_is_waited_for() {
    let refusal = |code: u16, message: &str| {
        let status = kube::core::Status::failure(message, "").with_code(code);
        kube::Error::Api(Box::new(status))
    };
    for (code, message, expected) in [
        (409, "the object has been modified", true),
        (500, "failed calling webhook \"queues.mutate.basalt.sh\"", true),
        (
            403,
            "admission webhook \"queues.validate.basalt.sh\" denied the request: it has children",
            true,
        ),
        (403, "queues is forbidden: User cannot patch", false),
        (422, "invalid", false),
        (404, "not found", false),
    ] {
        assert_eq!(is_passing(&refusal(code, message)), expected, "{code} {message}");
    }
}
