//! Who a container's processes run as, and what is not given to them.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::super::plan::User;
use super::super::status::containers_of;
use super::super::trouble::Trouble;

/// `nobody`, and its group.
const NOBODY: u32 = 65_534;

/// What the server may do for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Powers {
    /// The server's own user.
    pub(crate) own: u32,
    /// Whether pods may be root.
    pub(crate) allow_root: bool,
}

impl Powers {
    /// Whether the server can give processes to other users.
    pub(crate) fn is_root(self) -> bool {
        self.own == 0
    }
}

/// Who a container runs as; absent: as the server.
pub(crate) fn user_of(pod: &Pod, container: &Container, powers: Powers) -> Result<Option<User>, Trouble> {
    let of_pod = pod.spec.as_ref().and_then(|s| s.security_context.as_ref());
    let own = container.security_context.as_ref();
    let about = |message: String| format!("container {}: {message}", container.name);
    let asked = own.and_then(|c| c.run_as_user).or(of_pod.and_then(|c| c.run_as_user));
    let asked_group = own.and_then(|c| c.run_as_group).or(of_pod.and_then(|c| c.run_as_group));
    let not_root = own
        .and_then(|c| c.run_as_non_root)
        .or(of_pod.and_then(|c| c.run_as_non_root))
        == Some(true);
    let id = |value: i64| {
        u32::try_from(value)
            .ok()
            .filter(|id| *id != u32::MAX)
            .ok_or_else(|| Trouble::refused("InvalidUser", about(format!("{value} is no id of a user or group"))))
    };
    let asked = asked.map(id).transpose()?;
    let asked_group = asked_group.map(id).transpose()?;
    let becomes = asked.unwrap_or(if powers.is_root() { NOBODY } else { powers.own });
    if not_root && becomes == 0 {
        let message = about("runAsNonRoot is set, and it would run as root".to_owned());
        return Err(Trouble::refused("RunAsNonRoot", message));
    }
    if !powers.is_root() {
        return match asked {
            Some(asked) if asked != powers.own => Err(Trouble::refused(
                "RunAsUserNotPossible",
                about(format!(
                    "runAsUser {asked} is not possible: the server is not root and runs as {}",
                    powers.own
                )),
            )),
            _ => Ok(None),
        };
    }
    let gid = asked_group.unwrap_or_else(|| group_of(becomes));
    let mut groups = Vec::new();
    let more = of_pod
        .and_then(|c| c.supplemental_groups.as_ref())
        .into_iter()
        .flatten();
    for group in more.chain(of_pod.and_then(|c| c.fs_group.as_ref())) {
        let group = id(*group)?;
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    if !powers.allow_root && (becomes == 0 || gid == 0 || groups.contains(&0)) {
        let message = about("user and group 0 are not allowed here; basalt up --allow-root allows them".to_owned());
        return Err(Trouble::refused("RootNotAllowed", message));
    }
    if !powers.allow_root {
        let of_machine = asked.filter(|user| is_users(*user)).map(|user| ("user", user));
        let of_machine = of_machine.or_else(|| {
            let mut all = asked_group.iter().chain(&groups);
            all.find(|group| is_groups(**group)).map(|group| ("group", *group))
        });
        if let Some((what, id)) = of_machine {
            let message = about(format!(
                "{what} {id} is somebody's on this machine, with all that it may do; basalt up --allow-root allows it"
            ));
            return Err(Trouble::refused("MachineUserNotAllowed", message));
        }
    }
    Ok(Some(User {
        uid: becomes,
        gid,
        groups,
    }))
}

/// Whether the machine knows a user, other than nobody. Some are as good as root, and others are people.
fn is_users(user: u32) -> bool {
    user != NOBODY && !matches!(nix::unistd::User::from_uid(user.into()), Ok(None))
}

/// Whether the machine knows a group, other than nobody's.
fn is_groups(group: u32) -> bool {
    group != NOBODY && !matches!(nix::unistd::Group::from_gid(group.into()), Ok(None))
}

/// The group that the machine gives to a user; root's is not taken for somebody who is not root.
fn group_of(user: u32) -> u32 {
    if user == NOBODY {
        return NOBODY;
    }
    let known = nix::unistd::User::from_uid(user.into()).ok().flatten();
    known
        .map(|known| known.gid.as_raw())
        .filter(|group| *group != 0 || user == 0)
        .unwrap_or(if user == 0 { 0 } else { NOBODY })
}

/// The home of a user, if it is there.
pub(crate) fn home_of(user: u32) -> String {
    let known = nix::unistd::User::from_uid(user.into()).ok().flatten();
    known
        .filter(|known| known.dir.is_dir() && user != NOBODY)
        .and_then(|known| known.dir.into_os_string().into_string().ok())
        .unwrap_or_else(|| "/tmp".to_owned())
}

/// What a pod asks for that this node does not give: refused where it would be less safe to run without, else told.
pub(crate) fn extras(pod: &Pod) -> Result<Vec<String>, Trouble> {
    let Some(spec) = &pod.spec else { return Ok(Vec::new()) };
    let (init, main) = containers_of(pod);
    let mut ignored = Vec::new();
    for container in init.iter().chain(main) {
        let context = container.security_context.as_ref();
        if context.and_then(|c| c.privileged) == Some(true) {
            let message = format!("container {}: privileged containers are not run here", container.name);
            return Err(Trouble::refused("PrivilegedNotAllowed", message));
        }
        if context.is_some_and(|c| c.capabilities.as_ref().is_some_and(|c| c.add.is_some())) {
            ignored.push(format!("container {}: capabilities are not added", container.name));
        }
        if container.volume_devices.as_ref().is_some_and(|d| !d.is_empty()) {
            let message = format!("container {}: block devices are not given here", container.name);
            return Err(Trouble::refused("UnsupportedVolume", message));
        }
    }
    for (name, asked) in [("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc)] {
        if asked == Some(true) {
            ignored.push(format!(
                "{name} is ignored: processes of this node share these with the machine anyway"
            ));
        }
    }
    Ok(ignored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// User, group, further groups; or the reason of the refusal.
    type Expected<'a> = Result<Option<(u32, u32, &'a [u32])>, &'a str>;

    #[test]
    fn who_a_container_runs_as() {
        let check = |of_pod: Value, own: Value, powers: (u32, bool), expected: Expected<'_>| {
            let pod: Pod =
                serde_json::from_value(json!({"spec": {"securityContext": of_pod, "containers": []}})).unwrap();
            let container: Container = serde_json::from_value(json!({"name": "c", "securityContext": own})).unwrap();
            let powers = Powers {
                own: powers.0,
                allow_root: powers.1,
            };
            let found = user_of(&pod, &container, powers).map_err(|trouble| match trouble {
                Trouble::Refused { reason, .. } => reason,
                Trouble::Waits { .. } => "waits",
            });
            let expected = expected.map(|user| {
                user.map(|(uid, gid, groups)| User {
                    uid,
                    gid,
                    groups: groups.to_vec(),
                })
            });
            assert_eq!(found, expected, "{of_pod} {own} {powers:?}");
        };
        let no = json!({});
        let user = |id: i64| json!({"runAsUser": id});
        let (root, root_too, other) = ((0, false), (0, true), (1_000_123, false));
        check(no.clone(), no.clone(), root, Ok(Some((65_534, 65_534, &[]))));
        check(user(1_234_567), no.clone(), root, Ok(Some((1_234_567, 65_534, &[]))));
        check(
            user(1_234_567),
            user(1_234_568),
            root,
            Ok(Some((1_234_568, 65_534, &[]))),
        );
        check(user(0), no.clone(), root, Err("RootNotAllowed"));
        check(user(0), no.clone(), root_too, Ok(Some((0, 0, &[]))));
        check(json!({"runAsGroup": 0}), no.clone(), root, Err("RootNotAllowed"));
        check(
            json!({"supplementalGroups": [0]}),
            no.clone(),
            root,
            Err("RootNotAllowed"),
        );
        check(
            json!({"runAsGroup": 1_234_007, "supplementalGroups": [1_234_005, 1_234_006, 1_234_005], "fsGroup": 1_234_009}),
            no.clone(),
            root,
            Ok(Some((65_534, 1_234_007, &[1_234_005, 1_234_006, 1_234_009]))),
        );
        // Every Linux system knows user and group 1.
        for known in [
            json!({"runAsUser": 1}),
            json!({"runAsGroup": 1}),
            json!({"fsGroup": 1}),
            json!({"supplementalGroups": [1_234_005, 1]}),
        ] {
            check(known.clone(), no.clone(), root, Err("MachineUserNotAllowed"));
        }
        check(
            json!({"runAsGroup": 1, "supplementalGroups": [1]}),
            no.clone(),
            root_too,
            Ok(Some((65_534, 1, &[1]))),
        );
        check(
            json!({"runAsUser": 65_534, "fsGroup": 65_534}),
            no.clone(),
            root,
            Ok(Some((65_534, 65_534, &[65_534]))),
        );
        check(
            json!({"runAsUser": 0, "runAsNonRoot": true}),
            no.clone(),
            root_too,
            Err("RunAsNonRoot"),
        );
        check(
            json!({"runAsNonRoot": true}),
            no.clone(),
            root,
            Ok(Some((65_534, 65_534, &[]))),
        );
        check(user(-1), no.clone(), root, Err("InvalidUser"));
        check(no.clone(), no.clone(), other, Ok(None));
        check(user(1_000_123), no.clone(), other, Ok(None));
        check(user(5), no, other, Err("RunAsUserNotPossible"));
    }

    #[test]
    fn what_is_not_given() {
        let check = |spec: Value, expected: Result<usize, &str>| {
            let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
            let found = extras(&pod).map(|told| told.len()).map_err(|trouble| match trouble {
                Trouble::Refused { reason, .. } => reason,
                Trouble::Waits { .. } => "waits",
            });
            assert_eq!(found, expected, "{spec}");
        };
        let with = |context: Value| json!({"containers": [{"name": "c", "securityContext": context}]});
        check(with(json!({})), Ok(0));
        check(with(json!({"privileged": true})), Err("PrivilegedNotAllowed"));
        check(with(json!({"capabilities": {"add": ["SYS_ADMIN"]}})), Ok(1));
        check(json!({"hostPID": true, "hostIPC": true, "containers": []}), Ok(2));
    }
}
