//! A deadline passes although nothing happens.

use basalt_engine::facts::{NodeFacts, Phase, PodGroupFacts, QueueFacts};
use basalt_engine::{Conf, Engine, Event, Options};

const CONF: &str = "
actions: enqueue
tiers:
- plugins: [{name: sla}, {name: gang}]
- plugins: [{name: overcommit}]
";

#[test]
fn an_overdue_group_is_let_in_when_its_time_comes() {
    let mut engine = Engine::new(Conf::parse(CONF).expect("a configuration"), Options::default());
    let node = NodeFacts {
        name: "n".into(),
        allocatable: [("cpu".into(), 1000)].into(),
        ..NodeFacts::default()
    };
    let queue = QueueFacts {
        name: "q".into(),
        ..QueueFacts::default()
    };
    let group = PodGroupFacts {
        key: "ns/g".into(),
        queue: "q".into(),
        created_ms: 500,
        min_resources: Some([("cpu".into(), 9000)].into()),
        sla_ms: Some(1000),
        ..PodGroupFacts::default()
    };
    for event in [Event::Node(node), Event::Queue(queue), Event::PodGroup(group)] {
        engine.apply(&event);
    }
    let mut phase = |now_ms: i64| {
        let plan = engine.cycle(now_ms, 0);
        (plan.transactions.first().and_then(|t| t.phase), engine.next_wake())
    };
    assert_eq!(phase(600), (None, Some(1500)));
    assert_eq!(phase(1499), (None, Some(1500)));
    assert_eq!(phase(1500), (Some(Phase::Inqueue), None));
}
