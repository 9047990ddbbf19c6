//! What one admission decision takes: the decision alone, and as a write through the embedded API.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use basalt_admission::{Operation, Request, Settings, User, Verdict, View, admit};
use basalt_api::{names, resource_kind};
use basalt_apiserver::http::{Server, ServerOptions};
use basalt_apiserver::store::{Backend, Store};
use kube::Client;
use serde::Serialize;
use serde_json::{Value, json};

use crate::measure::Spread;
use basalt::up::store_options;

/// No decision may take longer.
const LIMIT_US: f64 = 2_000.0;
/// Levels of the tree.
const LEVELS: u32 = 5;
/// Children of a queue in the largest tree.
const FAN_MAX: u32 = 20;
/// Fewer of those that are also written.
const WRITES_MAX: u32 = 500;

/// One kind of decision in one shape of the tree.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    /// `tree` (five levels) or `flat` (one parent of all).
    shape: &'static str,
    /// What was asked for.
    operation: &'static str,
    /// `decision`, or `write`: decided, stored in memory and answered.
    part: &'static str,
    #[serde(flatten)]
    spread: Spread,
    /// For the decision alone.
    limit_us: Option<f64>,
}

/// Prints lines as a table.
pub(super) fn print(lines: &[Line]) {
    println!(
        "{:<6} {:<26} {:<9} {:>9} {:>9} {:>9}  limit",
        "shape", "admission of", "part", "p50 µs", "p99 µs", "max µs"
    );
    for line in lines {
        let Spread {
            p50_us, p99_us, max_us, ..
        } = line.spread;
        let limit = line.limit_us.map_or(String::new(), |limit| {
            let verdict = if max_us <= limit { "within" } else { "OVER" };
            format!("{limit:.0} µs: {verdict}")
        });
        println!(
            "{:<6} {:<26} {:<9} {p50_us:>9.1} {p99_us:>9.1} {max_us:>9.1}  {limit}",
            line.shape, line.operation, line.part
        );
    }
}

/// A shape of the tree: every queue's name and spec, parents before children, leaves last.
struct Shape {
    name: &'static str,
    queues: Vec<(String, Value)>,
    leaves: usize,
}

fn amounts(cpu_milli: u64) -> Value {
    json!({"cpu": format!("{cpu_milli}m"), "memory": format!("{cpu_milli}Mi")})
}

/// A spec as admission leaves it, so that nothing is filled in any more.
fn spec(parent: &str, deserved: &Value) -> Value {
    json!({"parent": parent, "weight": 1, "reclaimable": true, "state": "Open", "deserved": deserved, "capability": {"cpu": "500k"},
        "guarantee": {"resource": {"cpu": "1m"}}})
}

impl Shape {
    /// Five levels, every queue with as many children as it takes.
    fn tree(count: u32) -> Self {
        let room = |fan: &u32| (1..=LEVELS).map(|level| u64::from(*fan).pow(level)).sum::<u64>();
        let fan = (2..=FAN_MAX)
            .find(|fan| room(fan) >= u64::from(count))
            .unwrap_or(FAN_MAX);
        let is_inner = |index: u32| u64::from(index) * u64::from(fan) + u64::from(fan) < u64::from(count);
        let mut queues: Vec<(String, Value)> = Vec::new();
        for index in 0..count {
            // The queues under root are the first; then each queue's children in turn.
            let parent = match index.checked_sub(fan) {
                None => "root".to_owned(),
                Some(rest) => format!("q{}", rest / fan),
            };
            let mut spec = spec(&parent, &amounts(10));
            // Above the leaves cpu is set; further up nothing is, so that sums reach through to the root.
            if is_inner(index) {
                let deep = !is_inner(index * fan + fan);
                spec["guarantee"] = json!({});
                spec["capability"] = json!({"cpu": "1000k"});
                spec["deserved"] = if deep { json!({"cpu": "100"}) } else { json!({}) };
            }
            queues.push((format!("q{index}"), spec));
        }
        let leaves = (0..count).filter(|index| !is_inner(*index)).count();
        Self {
            name: "tree",
            queues,
            leaves,
        }
    }

    /// One parent of all.
    fn flat(count: u32) -> Self {
        let mut top = spec("root", &amounts(100_000_000));
        top["guarantee"] = json!({"resource": {"cpu": "1k"}});
        top["capability"] = json!({"cpu": "1000k"});
        let children = (1..count).map(|index| (format!("q{index}"), spec("q0", &amounts(10))));
        Self {
            name: "flat",
            queues: std::iter::once(("q0".to_owned(), top)).chain(children).collect(),
            leaves: count as usize - 1,
        }
    }

    fn spec_of(&self, name: &str) -> Value {
        let index = name.strip_prefix('q').and_then(|index| index.parse::<usize>().ok());
        let found = index.and_then(|index| self.queues.get(index));
        found.map(|(_, spec)| spec.clone()).unwrap_or_default()
    }

    /// One of the leaves, another one each time.
    fn leaf(&self, time: u32) -> String {
        let step = (time as usize).wrapping_mul(7_919) % self.leaves.max(1);
        format!("q{}", self.queues.len() - 1 - step)
    }

    fn parent_of(&self, name: &str) -> String {
        self.spec_of(name)["parent"].as_str().unwrap_or_default().to_owned()
    }

    /// An ancestor of a queue, so many levels up, but below root.
    fn ancestor(&self, name: &str, levels: u32) -> String {
        (0..levels).fold(self.parent_of(name), |here, _| match self.parent_of(&here) {
            above if above == "root" => here,
            above => above,
        })
    }
}

fn queue(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": resource_kind::QUEUE.api_version, "kind": resource_kind::QUEUE.kind, "spec": spec,
        "metadata": {"name": name, "uid": format!("uid-{name}"), "finalizers": ["basalt.sh/queue"]}, "status": {"state": "Closed"}})
}

fn node() -> Value {
    json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "450k", "memory": "1Pi", "pods": "1M"},
        "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn view(shape: &Shape) -> View {
    let mut view = View::default();
    view.put("nodes", &Arc::new(node()));
    for name in ["root", "default"] {
        view.put("queues.scheduling.volcano.sh", &Arc::new(queue(name, &json!({}))));
    }
    for (name, spec) in &shape.queues {
        view.put("queues.scheduling.volcano.sh", &Arc::new(queue(name, spec)));
    }
    view
}

/// One request that is decided again and again.
struct Question {
    operation: &'static str,
    verb: Operation,
    group: &'static str,
    resource: &'static str,
    name: String,
    object: Option<Value>,
    old: Option<Value>,
    allowed: bool,
}

impl Question {
    fn request<'a>(&'a self, user: &'a User) -> Request<'a> {
        Request {
            operation: self.verb,
            group: self.group,
            resource: self.resource,
            subresource: None,
            namespace: if self.resource == "queues" { "" } else { "default" },
            name: &self.name,
            user,
            object: self.object.as_ref(),
            old: self.old.as_ref(),
            dry_run: false,
        }
    }
}

/// A question about a queue: what it becomes, and what it is.
fn about(operation: &'static str, name: &str, new: Option<Value>, old: Option<Value>) -> Question {
    let verb = match (&new, &old) {
        (Some(_), None) => Operation::Create,
        (Some(_), Some(_)) => Operation::Update,
        (None, _) => Operation::Delete,
    };
    Question {
        operation,
        verb,
        group: names::SCHEDULING_GROUP,
        resource: "queues",
        name: name.to_owned(),
        object: new.map(|spec| queue(name, &spec)),
        old: old.map(|spec| queue(name, &spec)),
        allowed: true,
    }
}

/// The questions about one leaf and one of its ancestors, others each time.
fn questions(shape: &Shape, time: u32) -> Vec<Question> {
    let child = &*shape.leaf(time);
    let parent = &*shape.ancestor(child, time % LEVELS);
    let (above, below) = (shape.spec_of(parent), shape.spec_of(child));
    let with = |spec: &Value, pointer: &str, value: Value| {
        let mut spec = spec.clone();
        spec[pointer] = value;
        Some(spec)
    };
    let new = spec(&shape.parent_of(child), &amounts(10));
    let closed = with(&above, "state", json!("Closed"));
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"metadata": {"name": "j", "namespace": "default"}, "spec": {"queue": child, "minAvailable": 1, "maxRetry": 3,
        "schedulerName": "volcano", "tasks": [{"name": "a", "replicas": 1, "template": template}]}});
    let target = json!({"apiVersion": resource_kind::QUEUE.api_version, "kind": resource_kind::QUEUE.kind, "name": parent, "uid": format!("uid-{parent}")});
    let command = json!({"metadata": {"name": "c", "namespace": "default"}, "action": "CloseQueue", "target": target});
    let other = |operation, group, resource, object| Question {
        operation,
        verb: Operation::Create,
        group,
        resource,
        name: "x".to_owned(),
        object: Some(object),
        old: None,
        allowed: true,
    };
    let refused = Question {
        allowed: false,
        ..about(
            "create queue, too much",
            "new",
            with(&new, "deserved", json!({"cpu": "499k"})),
            None,
        )
    };
    vec![
        about("create queue", "new", Some(new), None),
        refused,
        about(
            "raise deserved",
            child,
            with(&below, "deserved", amounts(11)),
            Some(below.clone()),
        ),
        about(
            "set deserved of parent",
            parent,
            with(&above, "deserved", json!({"cpu": "100k", "memory": "90Ti"})),
            Some(above.clone()),
        ),
        about(
            "lower capability of parent",
            parent,
            with(
                &above,
                "capability",
                json!({"cpu": if parent == shape.parent_of(child) { "900k" } else { "1000k" }}),
            ),
            Some(above.clone()),
        ),
        about(
            "move queue",
            child,
            with(&below, "parent", json!("root")),
            Some(below.clone()),
        ),
        about(
            "move subtree",
            parent,
            with(&above, "parent", json!("root")),
            Some(above.clone()),
        ),
        about("close parent", parent, closed.clone(), Some(above)),
        about("delete parent", parent, None, closed),
        other("create job", names::BATCH_GROUP, "jobs", job),
        other(
            "create podgroup",
            names::SCHEDULING_GROUP,
            "podgroups",
            json!({"metadata": {"name": "g", "namespace": "default"}, "spec": {"queue": child}}),
        ),
        other("create command", names::BUS_GROUP, "commands", command),
    ]
}

/// How often each question is put: whoever shares the machine only adds to the time, so the fastest counts.
const TRIES: u32 = 5;

fn decide(shape: &Shape, times: u32) -> anyhow::Result<Vec<Line>> {
    let view = view(shape);
    let (user, settings) = (User::default(), Settings::default());
    let mut spent: Vec<(&'static str, Vec<Duration>)> = Vec::new();
    for time in 0..times {
        for (index, question) in questions(shape, time).into_iter().enumerate() {
            let request = question.request(&user);
            let mut fastest = Duration::MAX;
            for _ in 0..TRIES {
                let begun = Instant::now();
                let decision = admit(black_box(&request), &view, &settings);
                fastest = fastest.min(begun.elapsed());
                let refused = matches!(decision.verdict, Verdict::Refuse(_));
                let (operation, verdict) = (question.operation, decision.verdict);
                anyhow::ensure!(refused != question.allowed, "{operation} ({}): {verdict:?}", shape.name);
            }
            match spent.get_mut(index) {
                Some((_, spent)) => spent.push(fastest),
                None => spent.push((question.operation, vec![fastest])),
            }
        }
    }
    let line = |(operation, spent)| Line {
        shape: shape.name,
        operation,
        part: "decision",
        spread: Spread::of(spent),
        limit_us: Some(LIMIT_US),
    };
    Ok(spent.into_iter().map(line).collect())
}

/// A server in memory with the queues of the shape.
async fn server(shape: &Shape) -> anyhow::Result<Server> {
    let server = Server::new(Store::open(store_options(Backend::Memory))?, ServerOptions::default());
    server.bootstrap().await?;
    let client = server.client("system:admin");
    for definition in basalt_api::crd::all() {
        send(
            &client,
            "POST",
            &resource_kind::CUSTOM_RESOURCE_DEFINITION.collection_path(""),
            &json!(definition),
        )
        .await?;
    }
    send(
        &client,
        "POST",
        &resource_kind::NODE.collection_path(""),
        &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": node()["status"]}),
    )
    .await?;
    let queues = resource_kind::QUEUE.collection_path("");
    for name in ["root", "default"] {
        send(&client, "POST", &queues, &queue(name, &json!({}))).await?;
    }
    for (name, spec) in &shape.queues {
        send(&client, "POST", &queues, &queue(name, spec)).await?;
    }
    Ok(server)
}

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
    let form = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", form)
        .body(serde_json::to_vec(body)?)?;
    client
        .request(request)
        .await
        .with_context(|| format!("{method} {path}"))
}

/// Whole writes, in-process: create a queue, raise what a queue deserves, change the weight of the parent.
async fn write(shape: &Shape, times: u32) -> anyhow::Result<Vec<Line>> {
    let client = server(shape).await?.client("system:admin");
    let leaf = shape.leaf(0);
    let above = shape.parent_of(&leaf);
    let queues = resource_kind::QUEUE.collection_path("");
    let (parent, child) = (format!("{queues}/{above}"), format!("{queues}/{leaf}"));
    let mut spent: [(&'static str, Vec<Duration>); 3] = [
        ("create queue", Vec::new()),
        ("raise deserved", Vec::new()),
        ("change weight of parent", Vec::new()),
    ];
    for time in 0..times {
        let new = queue(&format!("new{time}"), &spec(&above, &amounts(10)));
        let raised = json!({"spec": {"deserved": amounts(11 + u64::from(time))}});
        let weight = json!({"spec": {"weight": 2 + time % 2}});
        let steps = [
            ("POST", &*queues, new),
            ("PATCH", &*child, raised),
            ("PATCH", &*parent, weight),
        ];
        for ((method, path, body), (_, spent)) in steps.iter().zip(&mut spent) {
            let begun = Instant::now();
            send(&client, method, path, body).await?;
            spent.push(begun.elapsed());
        }
    }
    let line = |(operation, spent)| Line {
        shape: shape.name,
        operation,
        part: "write",
        spread: Spread::of(spent),
        limit_us: None,
    };
    Ok(spent.into_iter().map(line).collect())
}

/// Measures both shapes.
pub(super) async fn measure(queues: u32, times: u32) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for shape in [Shape::tree(queues), Shape::flat(queues)] {
        lines.extend(decide(&shape, times)?);
        lines.extend(write(&shape, times.min(WRITES_MAX)).await?);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every question ends as it should, in both shapes, and every write is accepted.
    #[tokio::test]
    async fn the_measurement_measures_what_it_says() {
        let lines = measure(100, 7).await.expect("it measures");
        assert_eq!(lines.len(), 2 * (12 + 3));
        assert!(lines.iter().all(|line| line.spread.count == 7));
    }

    /// Without optimisation, and still within the limit: no decision walks over all queues.
    #[test]
    fn no_decision_walks_over_all_queues() {
        for shape in [Shape::tree(3_000), Shape::flat(3_000)] {
            for line in decide(&shape, 5).expect("it measures") {
                assert!(line.spread.max_us <= LIMIT_US, "{line:?}");
            }
        }
    }
}
