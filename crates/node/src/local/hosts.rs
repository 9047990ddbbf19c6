//! Names that a pod's processes can resolve: the lines of their `/etc/hosts`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::Path;

/// A pod of this machine as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) hostname: String,
    pub(crate) subdomain: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) address: Ipv4Addr,
    pub(crate) ready: bool,
}

/// A Service as far as names go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedService {
    pub(crate) name: String,
    pub(crate) selector: BTreeMap<String, String>,
    /// Whether pods that are not ready belong to it as well.
    pub(crate) unready_too: bool,
}

/// The lines that all pods of a namespace share.
pub(crate) fn shared(namespace: &str, pods: &[Neighbour], services: &[NamedService]) -> String {
    let mut text = String::new();
    for pod in pods {
        if let Some(domain) = &pod.subdomain {
            line(&mut text, pod.address, &format!("{}.{domain}", pod.hostname), namespace);
        }
    }
    for service in services {
        let of_it = |pod: &&Neighbour| {
            (pod.ready || service.unready_too)
                && !service.selector.is_empty()
                && service.selector.iter().all(|(k, v)| pod.labels.get(k) == Some(v))
        };
        for pod in pods.iter().filter(of_it) {
            line(&mut text, pod.address, &service.name, namespace);
        }
    }
    text
}

/// One address with all forms of a name.
fn line(text: &mut String, address: Ipv4Addr, name: &str, namespace: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{address}\t{name} {name}.{namespace} {name}.{namespace}.svc {name}.{namespace}.svc.cluster.local"
    );
}

/// The whole file of one pod.
pub(crate) fn whole(hostname: &str, address: Ipv4Addr, aliases: &[(String, Vec<String>)], shared: &str) -> String {
    let mut text = String::from("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n");
    let _ = writeln!(text, "{address}\t{hostname}");
    text.push_str(shared);
    for (address, names) in aliases {
        let _ = writeln!(text, "{address}\t{}", names.join(" "));
    }
    text
}

/// Replaces the contents in place: the file is mounted, so it must stay the same one.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(hostname: &str, domain: Option<&str>, last: u8, app: &str, ready: bool) -> Neighbour {
        Neighbour {
            hostname: hostname.to_owned(),
            subdomain: domain.map(str::to_owned),
            labels: [("app".to_owned(), app.to_owned())].into(),
            address: Ipv4Addr::new(127, 64, 0, last),
            ready,
        }
    }

    fn service(name: &str, app: Option<&str>, unready_too: bool) -> NamedService {
        NamedService {
            name: name.to_owned(),
            selector: app.map(|app| ("app".to_owned(), app.to_owned())).into_iter().collect(),
            unready_too,
        }
    }

    #[test]
    fn names_of_a_namespace() {
        let check = |pods: &[Neighbour], services: &[NamedService], expected: &[(&str, &str)]| {
            let text = shared("ns", pods, services);
            let found: Vec<(&str, &str)> = text
                .lines()
                .filter_map(|line| line.split_once('\t'))
                .map(|(address, names)| (address, names.split(' ').next().unwrap_or_default()))
                .collect();
            assert_eq!(found, expected, "{pods:?} {services:?}");
        };
        check(&[pod("a", None, 1, "x", true)], &[], &[]);
        check(&[pod("a", Some("j"), 1, "x", false)], &[], &[("127.64.0.1", "a.j")]);
        let two = [pod("a", Some("j"), 1, "x", true), pod("b", Some("j"), 2, "x", false)];
        let names = [("127.64.0.1", "a.j"), ("127.64.0.2", "b.j")];
        check(
            &two,
            &[service("s", Some("x"), false)],
            &[names[0], names[1], ("127.64.0.1", "s")],
        );
        check(
            &two,
            &[service("s", Some("x"), true)],
            &[names[0], names[1], ("127.64.0.1", "s"), ("127.64.0.2", "s")],
        );
        check(&two, &[service("s", Some("y"), true)], &names);
        check(&two, &[service("s", None, true)], &names);
        assert_eq!(
            shared("ns", &two[..1], &[]),
            "127.64.0.1\ta.j a.j.ns a.j.ns.svc a.j.ns.svc.cluster.local\n"
        );
    }

    #[test]
    fn a_file_stays_the_same_one() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        let own = whole(
            "h",
            Ipv4Addr::new(127, 64, 0, 1),
            &[("1.2.3.4".to_owned(), vec!["x".to_owned()])],
            "",
        );
        assert!(own.ends_with("127.64.0.1\th\n1.2.3.4\tx\n"), "{own}");
        write(&path, &own).unwrap();
        let inode = std::fs::metadata(&path).unwrap().ino();
        for text in ["longer than before, by far: ".repeat(20), "short\n".to_owned()] {
            write(&path, &text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert_eq!(std::fs::metadata(&path).unwrap().ino(), inode);
        }
    }
}
