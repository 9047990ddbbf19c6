use serde_json::{Value, json};

use super::super::fields::tests::around;
use super::*;

const NO_USERS: Users = Users {
    owner: None,
    shared_group: false,
};

fn trouble(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Waits { event, message, .. } => format!("{event}: {message}"),
        Trouble::Refused { reason, message } => format!("{reason}: {message}"),
    }
}

fn sources() -> Sources {
    let map = json!({"metadata": {"name": "m"}, "data": {"a": "1", "b": "2"}, "binaryData": {"c": "/w=="}});
    let secret = json!({"metadata": {"name": "s"}, "data": {"key": "c2VjcmV0"}});
    Sources {
        config_maps: [("m".to_owned(), serde_json::from_value(map).unwrap())].into(),
        secrets: [("s".to_owned(), serde_json::from_value(secret).unwrap())].into(),
        claims: vec!["claim".to_owned()],
    }
}

fn pod() -> Pod {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "ns", "labels": {"x": "y"}},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]},
    });
    serde_json::from_value(pod).unwrap()
}

#[test]
fn contents_of_volumes() {
    let check = |volume: Value, expected: Result<&[(&str, &str, u32)], &str>| {
        let mut named = volume.clone();
        named["name"] = json!("v");
        let volume: Volume = serde_json::from_value(named).unwrap();
        assert!(has_contents(&volume));
        let found = contents(&pod(), &volume, &around(), &sources());
        let found = found
            .map(|files| {
                let plain = |f: &files::FileText| {
                    (
                        f.path.display().to_string(),
                        String::from_utf8_lossy(&f.bytes).into_owned(),
                        f.mode,
                    )
                };
                files.iter().map(plain).collect::<Vec<_>>()
            })
            .map_err(|found| trouble(&found));
        let expected = expected
            .map(|files| {
                files
                    .iter()
                    .map(|(p, t, m)| ((*p).to_owned(), (*t).to_owned(), *m))
                    .collect()
            })
            .map_err(str::to_owned);
        assert_eq!(found, expected, "{volume:?}");
    };
    check(
        json!({"configMap": {"name": "m"}}),
        Ok(&[("a", "1", 0o644), ("b", "2", 0o644), ("c", "\u{fffd}", 0o644)]),
    );
    check(
        json!({"configMap": {"name": "m", "defaultMode": 0o400, "items": [{"key": "a", "path": "d/e"}, {"key": "b", "path": "f", "mode": 0o755}]}}),
        Ok(&[("d/e", "1", 0o400), ("f", "2", 0o755)]),
    );
    check(
        json!({"configMap": {"name": "no"}}),
        Err("FailedMount: volume \"v\": configmap \"no\" not found"),
    );
    check(json!({"configMap": {"name": "no", "optional": true}}), Ok(&[]));
    let missing_key = json!([{"key": "zz", "path": "p"}]);
    check(
        json!({"configMap": {"name": "m", "items": missing_key}}),
        Err("FailedMount: volume \"v\": configmap \"m\" has no key \"zz\""),
    );
    check(
        json!({"configMap": {"name": "m", "items": missing_key, "optional": true}}),
        Ok(&[]),
    );
    for path in ["../x", "/x", "a/../../x", "..x", ""] {
        let message = format!("InvalidVolume: volume \"v\": {path:?} is no path below it");
        check(
            json!({"configMap": {"name": "m", "items": [{"key": "a", "path": path}]}}),
            Err(&message),
        );
    }
    check(json!({"secret": {"secretName": "s"}}), Ok(&[("key", "secret", 0o644)]));
    check(
        json!({"secret": {"secretName": "no"}}),
        Err("FailedMount: volume \"v\": secret \"no\" not found"),
    );
    check(
        json!({"downwardAPI": {"items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}, "mode": 0o600},
        ]}}),
        Ok(&[("cpu", "2", 0o600), ("labels", "x=\"y\"", 0o644)]),
    );
    check(
        json!({"projected": {"defaultMode": 0o440, "sources": [
            {"configMap": {"name": "m", "items": [{"key": "a", "path": "one"}]}},
            {"secret": {"name": "s"}},
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        ]}}),
        Ok(&[("key", "secret", 0o440), ("name", "p", 0o440), ("one", "1", 0o440)]),
    );
    check(
        json!({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}),
        Err("UnsupportedVolume: volume \"v\": of projections this node has configMap, secret and downwardAPI"),
    );
}

#[test]
fn paths_of_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let inside = base.join("open");
    fs::create_dir_all(inside.join("sub")).unwrap();
    fs::create_dir_all(base.join("closed")).unwrap();
    fs::write(inside.join("file"), "").unwrap();
    std::os::unix::fs::symlink(base.join("closed"), inside.join("out")).unwrap();
    std::os::unix::fs::symlink(inside.join("sub"), inside.join("in")).unwrap();
    let check = |path: &str, kind: &str, allowed: bool, expected: Result<&str, &str>| {
        let source = HostPathVolumeSource {
            path: if path.starts_with('/') {
                path.to_owned()
            } else {
                base.join(path).display().to_string()
            },
            type_: Some(kind.to_owned()),
        };
        let prefixes = if allowed { vec![inside.clone()] } else { Vec::new() };
        let found = host_path("v", &source, &prefixes)
            .map(|laid| laid.path.strip_prefix(&base).unwrap().display().to_string())
            .map_err(|found| trouble(&found).split(':').next().unwrap_or_default().to_owned());
        assert_eq!(
            found.as_deref().map_err(String::as_str),
            expected,
            "{path} {kind} {allowed}"
        );
    };
    let no = "HostPathNotAllowed";
    check("open/sub", "", true, Ok("open/sub"));
    check("open/sub", "", false, Err(no));
    check("open", "Directory", true, Ok("open"));
    check("closed", "", true, Err(no));
    check("open/out", "", true, Err(no));
    check("open/out/x", "DirectoryOrCreate", true, Err(no));
    check("open/in", "Directory", true, Ok("open/sub"));
    check("open/../closed", "", true, Err(no));
    check("/", "", true, Err(no));
    check("open/none", "", true, Err("FailedMount"));
    check("open/none", "Directory", true, Err("FailedMount"));
    check("open/file", "Directory", true, Err("FailedMount"));
    check("open/file", "File", true, Ok("open/file"));
    check("open/file", "Socket", true, Err("FailedMount"));
    check("open/file", "Odd", true, Err(no));
    check("open/made/deep", "DirectoryOrCreate", true, Ok("open/made/deep"));
    check("open/made/file", "FileOrCreate", true, Ok("open/made/file"));
    assert!(!base.join("closed/x").exists());
}

/// Lays one volume of a pod in this data folder.
fn lay_one(data: &Path, volume: Value) -> Result<BTreeMap<String, Laid>, String> {
    let folder = PodFolder::at(data.join("pod"));
    let rules = Rules {
        claims: data.join("volumes"),
        host_paths: Vec::new(),
    };
    let mut pod = pod();
    let mut named = volume;
    named["name"] = json!("v");
    if let Some(spec) = &mut pod.spec {
        spec.volumes = Some(vec![serde_json::from_value(named).unwrap()]);
    }
    lay_all(&pod, &folder, &around(), &sources(), &rules, NO_USERS).map_err(|found| trouble(&found))
}

#[test]
fn volumes_are_laid() {
    let data = tempfile::tempdir().unwrap();
    let lay_one = |volume: Value| lay_one(data.path(), volume);
    assert_eq!(
        lay_one(json!({"persistentVolumeClaim": {"claimName": "none"}})).unwrap_err(),
        "FailedMount: persistentvolumeclaim \"none\" not found"
    );
    lay_one(json!({"persistentVolumeClaim": {"claimName": "claim"}})).unwrap();
    assert!(data.path().join("volumes/ns/claim").is_dir());
    let kind = lay_one(json!({"nfs": {"server": "s", "path": "/"}})).unwrap_err();
    assert!(kind.starts_with("UnsupportedVolume"), "{kind}");
}

#[test]
fn volumes_are_mounted() {
    let data = tempfile::tempdir().unwrap();
    let lay_one = |volume: Value| lay_one(data.path(), volume);
    let laid = lay_one(json!({"emptyDir": {}})).unwrap();
    let fixed = lay_one(json!({"configMap": {"name": "m"}})).unwrap();
    fs::write(data.path().join("outside"), "").unwrap();
    std::os::unix::fs::symlink(data.path(), laid["v"].path.join("link")).unwrap();
    let mut variables = Variables::default();
    variables.set("WHO", "me".to_owned());
    let check = |laid: &BTreeMap<String, Laid>, mount: Value, expected: Result<(&str, &str, bool), &str>| {
        let container: Container = serde_json::from_value(json!({"name": "c", "volumeMounts": [mount]})).unwrap();
        let root = laid["v"].path.canonicalize().unwrap();
        let found = mounts(&container, laid, &variables, NO_USERS).map_err(|found| trouble(&found));
        let found = found.map(|all| {
            assert_eq!(all[0].source, root);
            (
                all[0].beneath.clone().unwrap_or_default().display().to_string(),
                all[0].target.display().to_string(),
                all[0].read_only,
            )
        });
        let expected = expected
            .map(|(s, t, r)| (s.to_owned(), t.to_owned(), r))
            .map_err(str::to_owned);
        assert_eq!(found, expected, "{mount}");
    };
    check(&laid, json!({"name": "v", "mountPath": "/a"}), Ok(("", "/a", false)));
    check(
        &laid,
        json!({"name": "v", "mountPath": "/a", "readOnly": true}),
        Ok(("", "/a", true)),
    );
    check(
        &laid,
        json!({"name": "v", "mountPath": "/a", "subPath": "x/y"}),
        Ok(("x/y", "/a", false)),
    );
    check(
        &laid,
        json!({"name": "v", "mountPath": "/a", "subPathExpr": "$(WHO)"}),
        Ok(("me", "/a", false)),
    );
    check(&fixed, json!({"name": "v", "mountPath": "/a"}), Ok(("", "/a", true)));
    check(
        &fixed,
        json!({"name": "v", "mountPath": "/f", "subPath": "a"}),
        Ok(("a", "/f", true)),
    );
    let refused = |what: &str| format!("InvalidMount: container c: {what}");
    check(
        &laid,
        json!({"name": "no", "mountPath": "/a"}),
        Err(&refused("there is no volume \"no\"")),
    );
    check(
        &laid,
        json!({"name": "v", "mountPath": "/"}),
        Err(&refused("\"/\" is no place for a volume")),
    );
    check(
        &laid,
        json!({"name": "v", "mountPath": "/a/../b"}),
        Err(&refused("\"/a/../b\" is no place for a volume")),
    );
    for place in ["/proc", "/proc/self/x", "//sys/./fs"] {
        let what = format!("{place:?} is the kernel's: no place for a volume");
        check(&laid, json!({"name": "v", "mountPath": place}), Err(&refused(&what)));
    }
    check(
        &laid,
        json!({"name": "v", "mountPath": "/process"}),
        Ok(("", "/process", false)),
    );
    for below in ["../x", "/etc", "link/outside", "link/new"] {
        let mount = json!({"name": "v", "mountPath": "/a", "subPath": below});
        check(
            &laid,
            mount,
            Err(&refused(&format!(
                "subPath {below:?} of volume \"v\" leaves the volume"
            ))),
        );
    }
    assert!(!data.path().join("new").exists());
}
