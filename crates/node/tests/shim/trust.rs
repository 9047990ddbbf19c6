//! What a pod does to get at more than it was given, and does not get.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use basalt_node::local::plan::{Mount, View};
use basalt_node::local::shim::find_view;

use crate::rig::{Rig, is_root, main_ended, program, shell};
use crate::view::{mount, volume};

/// The container does not begin, and says why.
async fn check_refused(rig: &mut Rig, expected: &str) {
    let state = rig.run().await;
    let ended = main_ended(&state);
    assert_eq!(
        (ended.exit_code, ended.reason.as_str()),
        (128, "StartError"),
        "{ended:?} {:?}",
        rig.output()
    );
    assert!(ended.message.contains(expected), "{expected:?}: {ended:?}");
}

#[tokio::test]
async fn a_part_of_a_volume_is_never_outside_of_it() {
    let check = async |part: &str, link: Option<&str>, expected: Result<&str, &str>| {
        let mut rig = Rig::new(vec![shell("cat /mnt/passwd")]);
        let path = volume(rig.folder.path(), "v");
        std::fs::create_dir(path.join("real")).unwrap();
        std::fs::write(path.join("real/passwd"), "inside\n").unwrap();
        if let Some(link) = link {
            symlink(link, path.join("link")).unwrap();
        }
        let mut shown = mount(path, "/mnt", true);
        shown.beneath = Some(PathBuf::from(part));
        rig.plan.containers.first_mut().unwrap().mounts = vec![shown];
        let state = rig.run().await;
        match expected {
            Ok(line) => assert_eq!(rig.output(), [line], "{part} {link:?}: {:?}", main_ended(&state)),
            Err(why) => {
                let ended = main_ended(&state);
                assert_eq!(ended.exit_code, 128, "{part} {link:?}: {ended:?} {:?}", rig.output());
                assert!(ended.message.contains(why), "{part} {link:?}: {ended:?}");
            }
        }
    };
    check("real", None, Ok("inside")).await;
    check("link", Some("real"), Ok("inside")).await;
    check("link", Some("./real/../real"), Ok("inside")).await;
    check("link", Some("/etc"), Err("volume link")).await;
    check("link", Some("../../../../../../etc"), Err("volume link")).await;
    check("link/etc", Some("/proc/self/root"), Err("volume link/etc")).await;
    check("../v/real", None, Err("volume ../v/real")).await;
    check("no", None, Err("volume no")).await;
}

/// What a pod shows, given one volume of its own and a folder that is not its own.
type Shown = fn(&Path, &Path) -> Vec<Mount>;

/// A pod whose volumes and place for last words are these is refused, and the folder outside stays empty.
async fn check_outside_untouched(shown: Shown, message_path: &str, expected: &str) {
    let mut rig = Rig::new(vec![shell("exit 0")]);
    let (own, outside) = (volume(rig.folder.path(), "v"), rig.folder.path().join("outside"));
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, own.join("out")).unwrap();
    symlink(outside.join("new"), own.join("dangling")).unwrap();
    symlink("/proc", own.join("proc")).unwrap();
    let plan = rig.plan.containers.first_mut().unwrap();
    plan.mounts = shown(&own, &outside);
    plan.message_path = PathBuf::from(message_path);
    check_refused(&mut rig, expected).await;
    let found: Vec<_> = std::fs::read_dir(&outside).unwrap().collect();
    assert!(found.is_empty(), "{message_path} {expected}: {found:?}");
}

const LOG: &str = "/dev/termination-log";

#[tokio::test]
async fn mount_points_are_not_made_through_links() {
    let one: Shown = |own, _| vec![mount(own.to_owned(), "/mnt", false)];
    let link = "is a link";
    check_outside_untouched(one, "/mnt/out/nologin", link).await;
    check_outside_untouched(one, "/mnt/out/deep/nologin", link).await;
    check_outside_untouched(one, "/mnt/dangling", link).await;
    check_outside_untouched(one, "/mnt/dangling/x", link).await;
    let nested: Shown = |own, _| {
        vec![
            mount(own.to_owned(), "/mnt", false),
            mount(volume(own, "w"), "/mnt/out/new", false),
        ]
    };
    check_outside_untouched(nested, LOG, link).await;
    // The machine's own links lead into a volume as well.
    let other_name: Shown = |own, _| {
        let folder = own.parent().unwrap();
        let (real, alias) = (folder.join("real"), folder.join("alias"));
        std::fs::create_dir(&real).unwrap();
        symlink(&real, &alias).unwrap();
        let target = |path: PathBuf| path.to_str().unwrap().to_owned();
        vec![
            mount(own.to_owned(), &target(real), false),
            mount(volume(own, "w"), &target(alias.join("first")), false),
            mount(volume(own, "w").join("file"), &target(alias.join("dangling")), false),
        ]
    };
    check_outside_untouched(other_name, LOG, link).await;
}

#[tokio::test]
async fn the_kernels_own_folders_are_not_covered() {
    let kernel = "kernel's own";
    for target in ["/proc", "/sys", "/proc/self", "/proc/none", "/sys/fs/cgroup"] {
        let mut rig = Rig::new(vec![shell("exit 0")]);
        let own = volume(rig.folder.path(), "v");
        std::fs::create_dir(own.join("self")).unwrap();
        let kept = rig.folder.path().join("kept");
        std::fs::write(&kept, "kept").unwrap();
        symlink(&kept, own.join("self/oom_score_adj")).unwrap();
        rig.plan.containers.first_mut().unwrap().mounts = vec![mount(own, target, false)];
        check_refused(&mut rig, kernel).await;
        assert_eq!(std::fs::read(&kept).unwrap(), b"kept", "{target}");
    }
    let one: Shown = |own, _| vec![mount(own.to_owned(), "/mnt", false)];
    for message_path in ["/proc/uptime", "/sys/none", "/mnt/proc/uptime"] {
        check_outside_untouched(one, message_path, kernel).await;
    }
    let linked: Shown = |own, outside| {
        vec![
            mount(own.to_owned(), "/mnt", false),
            mount(outside.to_owned(), "/mnt/proc", false),
        ]
    };
    check_outside_untouched(linked, LOG, kernel).await;
    let below: Shown = |own, outside| {
        vec![
            mount(own.to_owned(), "/mnt", false),
            mount(outside.to_owned(), "/mnt/proc/sys", false),
        ]
    };
    check_outside_untouched(below, LOG, kernel).await;
}

#[tokio::test]
async fn a_working_folder_is_entered_by_the_user() {
    // Without root the pod is the server's own user, and may go where that may.
    if !is_root() {
        return;
    }
    let mut rig = Rig::new(vec![shell("cat file")]);
    let inner = volume(rig.folder.path(), "inner");
    let mode = std::fs::metadata(rig.folder.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    rig.plan.containers.first_mut().unwrap().working_folder = Some(inner);
    check_refused(&mut rig, "working folder").await;
}

#[test]
fn root_without_mounts_gets_no_user_namespace() {
    // Mapped onto itself, root would be root outside as well.
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let check = |without: &str, expected: View| {
        let path = folder.path().join("limited");
        let text = format!(
            "#!/bin/sh\nexec setpriv --bounding-set=-{without} {} \"$@\"\n",
            program().display()
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_view(&path), expected, "{without}");
    };
    check("sys_admin", View::Shared);
    check("sys_time", find_view(program()));
}
