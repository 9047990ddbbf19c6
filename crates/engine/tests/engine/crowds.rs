//! Who waits alike: jobs that differ in nothing but age and name. Each case has two jobs for which there is no room at first;
//! they differ in one thing, by which the younger one can be served once there is some, and the older one cannot.

use std::sync::Arc;

use basalt_engine::facts::{
    NodeFacts, NodeOperator, NodeRequirement, PodFacts, PodGroupFacts, PodPhase, PodSelector, PodTerm,
    PriorityClassFacts, QueueFacts, QuotaFacts, Resources, Ties,
};
use basalt_engine::{Conf, Engine, Event, Options};

const CONF: &str = "
actions: enqueue, allocate, preempt
tiers:
- plugins: [{name: priority}, {name: sla}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: predicates}, {name: resourcequota}]
";

type Twin = (PodGroupFacts, Vec<PodFacts>);

fn cpu(cores: i64) -> Resources {
    Resources::from([("cpu".into(), cores * 1000)])
}

fn twin(key: &str, created_ms: i64) -> Twin {
    let group = PodGroupFacts {
        key: key.into(),
        uid: format!("uid-{key}").into(),
        queue: "q".into(),
        created_ms,
        min_member: 1,
        min_resources: None,
        ..PodGroupFacts::default()
    };
    (group, vec![pod(key, key, created_ms)])
}

fn pod(key: &str, group: &str, created_ms: i64) -> PodFacts {
    PodFacts {
        key: format!("{key}-0").into(),
        uid: format!("uid-{key}-0").into(),
        scheduler: "volcano".into(),
        group: Some(group.into()),
        created_ms,
        requests: cpu(1),
        preempts: true,
        ..PodFacts::default()
    }
}

fn node(cores: i64) -> Event {
    let mut allocatable = cpu(cores);
    allocatable.insert("pods".into(), 20);
    Event::Node(NodeFacts {
        name: "n".into(),
        labels: [(Arc::from("host"), Arc::from("n"))].into(),
        allocatable,
        ..NodeFacts::default()
    })
}

fn tell(engine: &mut Engine, (group, pods): &Twin) {
    engine.apply(&Event::PodGroup(group.clone()));
    for pod in pods {
        engine.apply(&Event::Pod(pod.clone()));
    }
}

/// Who gets a place, in order, once there is room for some; `before` is told first.
fn served(before: &[Event], twins: &[Twin], cores: i64) -> Vec<String> {
    let mut engine = Engine::new(Conf::parse(CONF).expect("a configuration"), Options::default());
    let queue = QueueFacts {
        name: "q".into(),
        ..QueueFacts::default()
    };
    engine.apply(&Event::Queue(queue));
    engine.apply(&Event::PriorityClass(PriorityClassFacts {
        name: "high".into(),
        value: 9,
        ..PriorityClassFacts::default()
    }));
    engine.apply(&node(0));
    for event in before {
        engine.apply(event);
    }
    for twin in twins {
        tell(&mut engine, twin);
    }
    // They are looked at often enough to be found alike.
    for now_ms in [0, 1, 2] {
        engine.apply(&node(0));
        assert_eq!(engine.cycle(now_ms, 0).binds().count(), 0, "there is no room");
    }
    engine.apply(&node(cores));
    let mut places: Vec<String> = Vec::new();
    for now_ms in [100, 200] {
        let plan = engine.cycle(now_ms, 0);
        places.extend(plan.binds().map(|bind| bind.pod.trim_end_matches("-0").to_owned()));
    }
    places
}

/// Two twins of which the younger is changed: it alone is served.
fn check(what: &str, before: &[Event], change: impl Fn(&mut Twin, &mut Twin)) {
    let (mut older, mut younger) = (twin("ns/older", 1), twin("ns/younger", 2));
    change(&mut older, &mut younger);
    let key = younger.0.key.to_string();
    assert_eq!(served(before, &[older, younger], 1), vec![key], "{what}");
}

#[test]
fn the_first_of_a_crowd_is_served_first() {
    // Told in another order than that of their age; of the same age the name decides.
    let twins = [twin("ns/c", 7), twin("ns/b", 7), twin("ns/d", 3), twin("ns/a", 9)];
    assert_eq!(served(&[], &twins, 3), ["ns/d", "ns/b", "ns/c"]);
}

#[test]
fn who_differs_is_not_of_the_crowd() {
    check("what the minimum needs", &[], |older, _| {
        older.0.min_resources = Some(cpu(90));
    });
    check("importance", &[], |_, younger| younger.0.priority_class = "high".into());
    check("how long it may wait", &[], |older, younger| {
        older.0.min_resources = Some(cpu(90));
        younger.0.min_resources = Some(cpu(90));
        younger.0.sla_ms = Some(5);
    });
    let quota = Event::Quota(QuotaFacts {
        key: "full/quota".into(),
        hard: cpu(1),
        used: cpu(1),
        ..QuotaFacts::default()
    });
    check("whose quota counts", &[quota], |older, younger| {
        *older = twin("full/older", 1);
        older.0.min_resources = Some(cpu(1));
        younger.0.min_resources = Some(cpu(1));
    });
    check("how many pods it needs", &[], |older, _| older.0.min_member = 2);
    check("which pods it needs", &[], |older, _| {
        older.0.min_task_member.insert("chief".into(), 1);
    });
    check("pods behind a gate", &[], |older, _| older.1[0].gated = true);
    check("what its pods ask for", &[], |older, _| older.1[0].requests = cpu(2));
}

/// A pod is there that does not want some labels near it.
#[test]
fn labels_count_where_somebody_looks_at_them() {
    let label = NodeRequirement {
        key: "app".into(),
        on_name: false,
        operator: NodeOperator::In,
        values: vec!["web".into()],
    };
    let apart = PodTerm {
        pods: PodSelector {
            namespaces: vec!["ns".into()],
            namespace_labels: None,
            labels: Some(vec![label]),
        },
        topology: "host".into(),
    };
    let grump = PodFacts {
        key: "ns/grump".into(),
        uid: "uid-grump".into(),
        node: Some("n".into()),
        phase: PodPhase::Running,
        ties: Arc::new(Ties {
            apart: vec![apart],
            ..Ties::default()
        }),
        ..PodFacts::default()
    };
    check("labels", &[Event::Pod(grump)], |older, _| {
        older.1[0].labels = [(Arc::from("app"), Arc::from("web"))].into();
    });
}

/// Only one of them may have others go for it.
#[test]
fn who_may_preempt_counts() {
    let low = PodGroupFacts {
        key: "ns/low".into(),
        uid: "uid-low".into(),
        queue: "q".into(),
        ..PodGroupFacts::default()
    };
    let victim = PodFacts {
        node: Some("n".into()),
        phase: PodPhase::Running,
        preemptable: true,
        ..pod("ns/low", "ns/low", 0)
    };
    let mut engine = Engine::new(Conf::parse(CONF).expect("a configuration"), Options::default());
    engine.apply(&Event::Queue(QueueFacts {
        name: "q".into(),
        ..QueueFacts::default()
    }));
    engine.apply(&node(1));
    engine.apply(&Event::PriorityClass(PriorityClassFacts {
        name: "high".into(),
        value: 9,
        ..PriorityClassFacts::default()
    }));
    let (mut older, mut younger) = (twin("ns/older", 1), twin("ns/younger", 2));
    for twin in [&mut older, &mut younger] {
        twin.0.priority_class = "high".into();
        twin.1[0].priority = 9;
    }
    older.1[0].preempts = false;
    engine.apply(&Event::PodGroup(low));
    // Not there yet to be asked to go: both wait.
    engine.apply(&Event::Pod(PodFacts {
        phase: PodPhase::Pending,
        ..victim.clone()
    }));
    tell(&mut engine, &older);
    tell(&mut engine, &younger);
    engine.apply(&Event::Pod(victim));
    let plan = engine.cycle(1, 0);
    let for_whom: Vec<&str> = plan
        .transactions
        .iter()
        .filter(|transaction| !transaction.evictions.is_empty())
        .map(|transaction| &*transaction.pod_group)
        .collect();
    assert_eq!(for_whom, ["ns/younger"]);
}
