//! Words in, settings, refusals and warnings out.

use super::{Configured, Plugin, check, implied, read};
use crate::Job;

/// A job from its spec in YAML.
fn job(spec: &str) -> Job {
    let yaml = format!("metadata: {{name: train, namespace: ns}}\nspec: {spec}\n");
    let mut value: serde_json::Value = serde_saphyr::from_str(&yaml).expect("yaml");
    value["apiVersion"] = "batch.volcano.sh/v1alpha1".into();
    value["kind"] = "Job".into();
    serde_json::from_value(value).expect("a job")
}

/// The one plugin of `{plugin: words}`, shown with its settings, and the warnings.
fn read_one(plugin: &str, words: &[&str]) -> (String, Vec<String>) {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let mut job = job("{tasks: [{name: master, replicas: 1}, {name: worker, replicas: 2}]}");
    job.spec.plugins.insert(plugin.to_owned(), words);
    let reading = read(&job);
    assert_eq!(reading.errors, [], "{plugin}");
    let settings = format!("{:?}", reading.plugins.first().expect("one plugin"));
    (settings, reading.warnings.iter().map(ToString::to_string).collect())
}

#[track_caller]
fn check_words(plugin: &str, words: &[&str], shows: &[&str], warnings: &[&str]) {
    let (settings, seen) = read_one(plugin, words);
    for show in shows {
        assert!(settings.contains(show), "{words:?}: {settings} lacks {show}");
    }
    assert_eq!(seen, warnings, "{words:?}");
}

#[test]
fn words_are_read_as_go_does() {
    let port = |words: &[&str], port: &str| check_words("pytorch", words, &[&format!("port: Port({port})")], &[]);
    port(&[], "23456");
    port(&["--port=1"], "1");
    port(&["-port=65535"], "65535");
    port(&["--port", "80"], "80");
    port(&["-port", "80", "--master=master"], "80");
    port(&["--port=80", "--port=81"], "81");
    check_words(
        "pytorch",
        &["--master", "--worker"],
        &["master: \"--worker\""],
        &[
            "plugin pytorch: the job has no task \"--worker\" (--master), so pods get no MASTER_ADDR, WORLD_SIZE or RANK",
        ],
    );
    check_words(
        "pytorch",
        &["--master=a=b"],
        &["master: \"a=b\""],
        &["plugin pytorch: the job has no task \"a=b\" (--master), so pods get no MASTER_ADDR, WORLD_SIZE or RANK"],
    );
    check_words(
        "svc",
        &["--disable-network-policy"],
        &["disable_network_policy: true"],
        &[],
    );
    check_words(
        "svc",
        &["-disable-network-policy=F"],
        &["disable_network_policy: false"],
        &[],
    );
    check_words("svc", &["--inject-hosts-env=false"], &["inject_hosts_env: false"], &[]);
}

#[test]
fn what_is_not_understood_is_named_and_left_out() {
    const BAD_PORT: &str = "plugin pytorch: --port must be a port from 1 to 65535: the default is used";
    for bad in [
        "0",
        "-1",
        "70000",
        "65536",
        "abc",
        "",
        "8O",
        "１２",
        "99999999999999999999",
    ] {
        check_words(
            "pytorch",
            &[&format!("--port={bad}")],
            &["port: Port(23456)"],
            &[BAD_PORT],
        );
    }
    let wait = "plugin pytorch: --wait-master-timeout must be a number of seconds, 1 or more: the default is used";
    check_words(
        "pytorch",
        &["--wait-master-timeout=0"],
        &["wait_timeout: Seconds(300)"],
        &[wait],
    );
    check_words(
        "pytorch",
        &["--port"],
        &["port: Port(23456)"],
        &["plugin pytorch: --port must be followed by a value: the default is used"],
    );
    // Volcano drops what follows an argument that it does not know; here the rest counts.
    check_words(
        "mpi",
        &["--slots=4", "--port=5000"],
        &["port: Port(5000)"],
        &["plugin mpi has no argument --slots (it has --master, --worker, --port): it is ignored"],
    );
    check_words(
        "env",
        &["--naïve\u{202e}=x", "y", "-"],
        &["Env"],
        &[
            "plugin env: word 1 is no argument and is ignored",
            "plugin env: word 2 is no argument and is ignored",
            "plugin env: word 3 is no argument and is ignored",
        ],
    );
    check_words(
        "svc",
        &["--", "--disable-network-policy"],
        &["disable_network_policy: false"],
        &["plugin svc: word 2 is no argument and is ignored"],
    );
    let folder =
        "plugin ssh: --ssh-key-file-path must be a path that begins with / and has no colon: the default is used";
    for bad in ["", "home/me", "/home:me", "~/.ssh"] {
        check_words("ssh", &["--ssh-key-file-path", bad], &["\"/root/.ssh\""], &[folder]);
    }
    let image = "plugin pytorch: --wait-master-image must be the name of an image: the default is used";
    check_words("pytorch", &["--wait-master-image= "], &["\"busybox:1.36.1\""], &[image]);
    check_words(
        "svc",
        &["--inject-hosts-env=maybe"],
        &["inject_hosts_env: true"],
        &["plugin svc: --inject-hosts-env must be true or false: the default is used"],
    );
}

#[test]
fn a_private_key_never_shows() {
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----\n";
    let spellings: [&[&str]; 4] = [
        &["--ssh-private-key", key],
        &[&format!("--ssh-private-key={key}")],
        &["--ssh-privat-key", key],
        &[&format!("--ssh-privat-key={key}")],
    ];
    for words in spellings {
        let (settings, warnings) = read_one("ssh", words);
        assert!(
            !format!("{settings} {warnings:?}").contains("c2VjcmV0"),
            "{settings} {warnings:?}"
        );
    }
}

#[test]
fn ssh_has_a_pair_of_keys_and_a_home() {
    let half = "plugin ssh: --ssh-private-key and --ssh-public-key belong together: ";
    let ignored = format!("{half}a new pair is made, and the public key is ignored");
    let derived = format!("{half}the public key is taken from the private one if that is in OpenSSH's format");
    check_words("ssh", &["--ssh-public-key=b"], &[], &[&ignored]);
    check_words("ssh", &["--ssh-private-key=a"], &["PrivateKey(…)"], &[&derived]);
    check_words(
        "ssh",
        &["--ssh-private-key=a", "--ssh-public-key=b"],
        &["public_key: \"b\""],
        &[],
    );
    check_words(
        "ssh",
        &["--no-root"],
        &["no_root: true"],
        &["plugin ssh: with --no-root say where the keys go: --ssh-key-file-path=/home/USER/.ssh"],
    );
    check_words(
        "ssh",
        &["--no-root", "--ssh-key-file-path=/home/me/.ssh"],
        &["\"/home/me/.ssh\""],
        &[],
    );
}

/// Refusals and warnings of a whole job.
#[track_caller]
fn check_job(spec: &str, errors: &[&str], warnings: &[&str]) {
    let (seen_errors, seen_warnings) = check(&job(spec));
    let shown = |seen: Vec<String>| seen;
    assert_eq!(
        shown(seen_errors.iter().map(ToString::to_string).collect()),
        errors,
        "{spec}"
    );
    assert_eq!(
        shown(seen_warnings.iter().map(ToString::to_string).collect()),
        warnings,
        "{spec}"
    );
}

#[test]
fn plugins_are_compared_with_the_job() {
    check_job("{plugins: {svc: [], env: []}}", &[], &[]);
    check_job(
        "{plugins: {evn: [], Svc: []}}",
        &[
            "there is no plugin \"Svc\"; there are env, svc, ssh, pytorch, tensorflow, mpi, ray, hcclrank",
            "there is no plugin \"evn\"; there are env, svc, ssh, pytorch, tensorflow, mpi, ray, hcclrank",
        ],
        &[],
    );
    check_job(
        "{plugins: {mpi: []}, tasks: [{name: launcher}, {name: worker}]}",
        &["plugin mpi needs a task \"master\"; name the right one with --master"],
        &[],
    );
    check_job(
        "{plugins: {mpi: [--master=launcher]}, tasks: [{name: launcher}, {name: worker}]}",
        &[],
        &[],
    );
    check_job(
        "{plugins: {ray: []}, tasks: [{name: worker, template: {spec: {containers: [{name: main}]}}}]}",
        &["plugin ray needs a task \"head\"; name the right one with --head"],
        &["plugin ray: task \"worker\" has no container \"worker\" (--workerContainer), so nothing starts there"],
    );
    check_job(
        "{plugins: {svc: []}, tasks: [{name: a, replicas: 2, template: {spec: {hostname: h, containers: []}}}]}",
        &[],
        &["plugin svc: task \"a\" sets a hostname, so its 2 pods share that name"],
    );
}

#[test]
fn names_that_no_service_can_have_are_refused() {
    for (name, good) in [
        ("train", true),
        ("9", true),
        ("a.b", false),
        ("A", false),
        ("a-", false),
        ("", false),
    ] {
        let mut job = job("{plugins: {svc: []}}");
        job.metadata.name = Some(name.to_owned());
        assert_eq!(check(&job).0.is_empty(), good, "{name:?}");
    }
    let mut unnamed = job("{plugins: {svc: []}}");
    unnamed.metadata.name = None;
    assert_eq!(check(&unnamed), (vec![], vec![]), "a name that is made later");
}

#[test]
fn plugins_bring_what_they_need() {
    let check = |given: &[&str], adds: &[Plugin]| {
        let given = given.iter().map(|name| ((*name).to_owned(), Vec::new())).collect();
        assert_eq!(implied(&given), adds, "{given:?}");
    };
    check(&[], &[]);
    check(&["env", "hcclrank", "ssh"], &[]);
    check(&["pytorch"], &[Plugin::Svc]);
    check(&["tensorflow", "svc"], &[]);
    check(&["mpi"], &[Plugin::Svc, Plugin::Ssh]);
    check(&["ray", "mpi", "ssh"], &[Plugin::Svc]);
}

#[test]
fn the_order_is_fixed() {
    let all: Vec<String> = Plugin::ALL.iter().map(|plugin| format!("{plugin}: []")).collect();
    let spec = format!(
        "{{plugins: {{{}}}, tasks: [{{name: master}}, {{name: worker}}, {{name: head}}]}}",
        all.join(", ")
    );
    let order: Vec<Plugin> = read(&job(&spec)).plugins.iter().map(Configured::plugin).collect();
    assert_eq!(order, Plugin::ALL);
}
