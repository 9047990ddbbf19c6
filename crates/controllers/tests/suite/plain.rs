//! PodGroups for plain pods.

use std::collections::{BTreeMap, BTreeSet};

use basalt_api::PodGroup;
use basalt_api::slim::Pod;
use basalt_controllers::Change;
use basalt_controllers::podgroup::{PodView, group_name, reconcile};
use serde_json::{Value, json};

/// A pod that is ours, with a merge patch applied.
fn pod(merge: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"schedulerName": "volcano", "containers": [{"resources": {"requests": {"cpu": "2"}}}]},
    });
    json_patch::merge(&mut pod, &merge);
    serde_json::from_value(pod).expect("a pod")
}

fn owned() -> Pod {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs-uid", "controller": true});
    pod(json!({"metadata": {"ownerReferences": [owner]}}))
}

fn changes(pod: &Pod, group_exists: bool, owner_annotations: &[(&str, &str)]) -> Vec<Change> {
    let annotations: BTreeMap<_, _> = owner_annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let schedulers = BTreeSet::from(["volcano".to_owned(), "default-scheduler".to_owned()]);
    let owner_annotations = Some(&annotations).filter(|annotations| !annotations.is_empty());
    let group = PodGroup::default();
    reconcile(&PodView {
        pod,
        group: group_exists.then_some(&group),
        owner_annotations,
        schedulers: &schedulers,
    })
    .changes
}

/// The group that is made, and the patch of the pod.
fn made(pod: &Pod, owner_annotations: &[(&str, &str)]) -> (Value, Value) {
    match changes(pod, false, owner_annotations).as_slice() {
        [Change::Create { object, .. }, Change::Patch { merge, uid, .. }] => {
            assert_eq!(uid.as_deref(), Some("u"));
            (object.clone(), merge.clone())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lone_pod_gets_its_own_group() {
    let (group, patch) = made(&pod(json!({})), &[]);
    assert_eq!(group["metadata"]["name"], json!("podgroup-u"));
    assert_eq!(group["metadata"]["ownerReferences"][0]["kind"], json!("Pod"));
    assert_eq!(
        (&group["spec"]["minMember"], &group["spec"]["queue"]),
        (&json!(1), &json!("default"))
    );
    assert_eq!(group["spec"]["minResources"]["cpu"], json!("2"));
    assert_eq!(
        patch,
        json!({"metadata": {"annotations": {"scheduling.k8s.io/group-name": "podgroup-u"}}})
    );
}

#[test]
fn pods_of_one_controller_share_a_group() {
    let (group, _) = made(
        &owned(),
        &[
            ("scheduling.volcano.sh/group-min-member", "3"),
            ("volcano.sh/x", "y"),
            ("z", "z"),
        ],
    );
    assert_eq!(group["metadata"]["name"], json!("podgroup-rs-uid"));
    assert_eq!(group["metadata"]["ownerReferences"][0]["kind"], json!("ReplicaSet"));
    assert_eq!(group["metadata"]["annotations"], json!({"volcano.sh/x": "y"}));
    assert_eq!(
        (&group["spec"]["minMember"], &group["spec"]["minResources"]["cpu"]),
        (&json!(3), &json!("6"))
    );
    for wrong in ["-1", "many", ""] {
        let (group, _) = made(&owned(), &[("scheduling.volcano.sh/group-min-member", wrong)]);
        assert_eq!(group["spec"]["minMember"], json!(1), "{wrong:?}");
    }
}

#[test]
fn what_a_pod_says_goes_into_its_group() {
    let annotations = json!({
        "scheduling.volcano.sh/queue-name": "q", "volcano.sh/preemptable": "true", "other": "x",
        "volcano.sh/network-topology-mode": "soft", "volcano.sh/network-topology-highest-tier": "2",
    });
    let labels = json!({"volcano.sh/cooldown-time": "10s", "app": "x"});
    let metadata = json!({"annotations": annotations, "labels": labels});
    let (group, _) = made(
        &pod(json!({"metadata": metadata, "spec": {"priorityClassName": "high"}})),
        &[],
    );
    assert_eq!(
        (&group["spec"]["queue"], &group["spec"]["priorityClassName"]),
        (&json!("q"), &json!("high"))
    );
    assert_eq!(
        group["spec"]["networkTopology"],
        json!({"mode": "soft", "highestTierAllowed": 2})
    );
    assert_eq!(
        group["metadata"]["annotations"],
        json!({"volcano.sh/preemptable": "true"})
    );
    assert_eq!(group["metadata"]["labels"], json!({"volcano.sh/cooldown-time": "10s"}));
}

#[test]
fn only_the_annotation_is_missing_where_the_group_exists() {
    let changes = changes(&owned(), true, &[]);
    assert!(matches!(changes.as_slice(), [Change::Patch { .. }]), "{changes:?}");
}

#[test]
fn a_group_that_was_deleted_is_made_again() {
    let marked = |merge: Value, group: &str| {
        let mut pod = pod(merge);
        pod.metadata.annotations = Some(BTreeMap::from([(
            "scheduling.k8s.io/group-name".to_owned(),
            group.to_owned(),
        )]));
        pod
    };
    let controlled_by = |api_version: &str, kind: &str| {
        let owner =
            json!({"apiVersion": api_version, "kind": kind, "name": "podgroup", "uid": "o", "controller": true});
        json!({"metadata": {"ownerReferences": [owner]}})
    };
    let cases = [
        ("of a lone pod", marked(json!({}), "podgroup-u"), true),
        (
            "of a set",
            marked(controlled_by("apps/v1", "ReplicaSet"), "podgroup-o"),
            true,
        ),
        ("of somebody else", marked(json!({}), "podgroup-x"), false),
        (
            "of a Volcano Job named podgroup",
            marked(controlled_by("batch.volcano.sh/v1alpha1", "Job"), "podgroup-o"),
            false,
        ),
        (
            "of a pod that has a node",
            marked(json!({"spec": {"nodeName": "n"}}), "podgroup-u"),
            false,
        ),
    ];
    for (title, pod, again) in cases {
        let made = changes(&pod, false, &[]);
        match made.as_slice() {
            [Change::Create { object, .. }] if again => {
                assert_eq!(
                    object["metadata"]["name"].as_str(),
                    group_name(&pod).as_deref(),
                    "{title}"
                );
            }
            [] if !again => {}
            other => panic!("{title}: {other:?}"),
        }
        assert_eq!(changes(&pod, true, &[]), [], "{title}: nothing is missing");
    }
}

#[test]
fn other_pods_are_left_alone() {
    let others = [
        ("of another scheduler", json!({"spec": {"schedulerName": "other"}})),
        (
            "with a group",
            json!({"metadata": {"annotations": {"scheduling.k8s.io/group-name": "g"}}}),
        ),
        ("bound", json!({"spec": {"nodeName": "n"}})),
        ("ended", json!({"status": {"phase": "Succeeded"}})),
        (
            "being deleted",
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ),
        ("never stored", json!({"metadata": {"uid": null}})),
    ];
    for (title, merge) in others {
        assert_eq!(changes(&pod(merge), false, &[]), [], "{title}");
    }
    assert_eq!(group_name(&pod(json!({"metadata": {"uid": null}}))), None);
    let by_default = pod(json!({"spec": {"schedulerName": null}}));
    assert_eq!(
        changes(&by_default, false, &[]).len(),
        2,
        "no scheduler means the default one"
    );
}

/// A world with a pod of a ReplicaSet, whose group follows what its owner says.
#[test]
fn the_owner_says_how_large_the_group_is_and_when_it_goes() {
    use basalt_api::NamespacedName;
    use basalt_controllers::cache::Origin;
    use basalt_controllers::world::{Work, World};
    let now = jiff::Timestamp::UNIX_EPOCH;
    let mut world = World::new(BTreeSet::from(["volcano".to_owned()]));
    let owner = |min: &str| {
        serde_json::from_value(json!({
            "name": "rs", "namespace": "default", "uid": "rs-uid",
            "annotations": {"scheduling.volcano.sh/group-min-member": min, "volcano.sh/x": "y", "other": "z"},
        }))
        .expect("metadata")
    };
    world.upsert_owner(&owner("2"), Some(2));
    let work = world.upsert_pod(owned(), Origin::Watch);
    let pod = work.iter().find(|work| matches!(work, Work::Pod(_))).expect("the pod");
    let made = world.look_at(pod, now).changes;
    let Some(Change::Create { object, .. }) = made.first() else {
        panic!("{made:?}");
    };
    assert_eq!(object["spec"]["minMember"], 2);
    assert_eq!(object["metadata"]["annotations"], json!({"volcano.sh/x": "y"}));
    let mut group = object.clone();
    group["metadata"]["uid"] = json!("group-uid");
    world.upsert_group(serde_json::from_value(group).expect("a group"), Origin::Watch);

    let work = world.upsert_owner(&owner("3"), Some(3));
    assert_eq!(work.first(), Some(pod));
    let merge = |changes: &[Change]| match changes.first() {
        Some(Change::Patch { merge, .. }) => merge["spec"]["minMember"].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(merge(&world.look_at(pod, now).changes), 3);

    let idle = world.upsert_owner(&owner("3"), Some(0));
    let idle = idle.last().expect("work");
    assert_eq!(world.look_at(idle, now).changes, [], "its pods are still there");
    let key = NamespacedName::of(&owned());
    assert!(world.remove_pod(&key, "u").contains(idle));
    assert!(
        matches!(world.look_at(idle, now).changes.as_slice(), [Change::Delete { target, .. }] if &*target.name == "podgroup-rs-uid")
    );
}
