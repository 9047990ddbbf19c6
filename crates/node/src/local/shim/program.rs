//! The last steps before a program: limits, ids, place, environment; then the program itself.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::fs::{Access, FileType, Mode};
use rustix::process::{Pid, Resource, Rlimit, Signal};

use super::stage::Refusal;
use crate::local::plan::{ContainerPlan, User, View};

/// Descriptors that a container may open without asking for more.
const DESCRIPTORS: u64 = 65_536;
/// Where programs are looked for if the container does not say.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Becomes this command of a container, killed together with `keeper` if there is one.
pub(super) fn become_it(
    container: &ContainerPlan,
    command: &[String],
    place: &Path,
    view: View,
    keeper: Option<Pid>,
) -> Result<Infallible, Refusal> {
    // The pod's own folder lies inside a private one, where the user could not go; anywhere else the user goes by itself.
    let own_place = container.working_folder.is_none() && view == View::Shared;
    if own_place {
        enter(place)?;
    }
    if view != View::UserNamespaces
        && let Some(user) = &container.user
    {
        become_user(user)?;
    }
    if !own_place {
        enter(place)?;
    }
    if let Some(keeper) = keeper {
        // After the ids: changing them takes it away again.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| Refusal::setup("death signal", error))?;
        if rustix::process::getppid() != Some(keeper) {
            return Err(Refusal::setup("shim", "it has gone"));
        }
    }
    let (name, arguments) = command
        .split_first()
        .ok_or_else(|| Refusal::setup("command", "it is empty"))?;
    let path = container.env.iter().rev().find(|(name, _)| name == "PATH");
    let program = find(name, path.map_or(USUAL_PATH, |(_, path)| path))?;
    let error = Command::new(&program)
        .arg0(name)
        .args(arguments)
        .env_clear()
        .envs(container.env.iter().map(|(name, value)| (name, value)))
        .exec();
    Err(cannot_run(&program, &error))
}

/// What the server may have raised for itself goes back to what programs expect. To be called before the container's view is
/// there: files of the machine are written.
pub(super) fn bound() {
    // The shim may be protected from the kernel's search for memory; a container is not.
    let file = "/proc/self/oom_score_adj";
    let protected = fs::read_to_string(file).is_ok_and(|text| text.starts_with('-'));
    if protected {
        // Who may not give the protection up is not harmed by it.
        let _ = fs::write(file, "0");
    }
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let descriptors = rustix::process::getrlimit(Resource::Nofile);
    let current = descriptors
        .maximum
        .map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    let cores = rustix::process::getrlimit(Resource::Core);
    let wanted = [
        (Resource::Nofile, current, descriptors.maximum),
        (Resource::Core, 0, cores.maximum),
    ];
    for (resource, current, maximum) in wanted {
        let limit = Rlimit {
            current: Some(current),
            maximum,
        };
        if let Err(error) = rustix::process::setrlimit(resource, limit) {
            eprintln!("limit {resource:?}: {error}");
        }
    }
}

fn enter(place: &Path) -> Result<(), Refusal> {
    rustix::process::chdir(place)
        .map_err(|error| Refusal::setup("working folder", format_args!("{}: {error}", place.display())))
}

fn become_user(user: &User) -> Result<(), Refusal> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    // Without root there is nobody else to become, and groups stay what they are.
    if !rustix::process::geteuid().is_root() {
        let same = rustix::process::geteuid().as_raw() == user.uid && rustix::process::getegid().as_raw() == user.gid;
        return if same {
            Ok(())
        } else {
            Err(Refusal::setup("user", "only root can become another"))
        };
    }
    give_streams(uid, gid);
    setgroups(&groups).map_err(|error| Refusal::setup("groups", error))?;
    setresgid(gid, gid, gid).map_err(|error| Refusal::setup("group", error))?;
    setresuid(uid, uid, uid).map_err(|error| Refusal::setup("user", error))?;
    if uid.is_root() {
        return Ok(());
    }
    // The machine's own set-user-id programs are before the pod's eyes: they give it nothing.
    rustix::thread::set_no_new_privs(true).map_err(|error| Refusal::setup("privileges", error))
}

/// Who is to use the pipes or the terminal may also open them by name (`/dev/stdout`); they are this command's alone.
fn give_streams(uid: Uid, gid: Gid) {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    for stream in [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()] {
        let pipe = rustix::fs::fstat(stream).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_fifo());
        if pipe || rustix::termios::isatty(stream) {
            // Without it the stream can still be used as it is.
            let _ = nix::unistd::fchown(stream, Some(uid), Some(gid));
        }
    }
}

/// Looks a program up as `execvp` does, with words for what is wrong.
fn find(name: &str, path: &str) -> Result<PathBuf, Refusal> {
    if name.contains('/') {
        return usable(Path::new(name)).map(|()| PathBuf::from(name));
    }
    let mut unusable = None;
    for folder in path.split(':').filter(|folder| !folder.is_empty()) {
        let candidate = Path::new(folder).join(name);
        match usable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(refusal) if refusal.code == 126 => unusable = unusable.or(Some(refusal)),
            Err(_) => {}
        }
    }
    Err(unusable.unwrap_or_else(|| Refusal {
        code: 127,
        message: format!("{name}: not found in PATH ({path})"),
    }))
}

fn usable(program: &Path) -> Result<(), Refusal> {
    let refusal = |code, why: &str| {
        let message = format!("{}: {why}", program.display());
        Err(Refusal { code, message })
    };
    let found = match fs::metadata(program) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return refusal(126, "permission denied"),
        Err(error) => return refusal(127, &reason(&error)),
    };
    if found.is_dir() {
        return refusal(126, "is a folder");
    }
    let executable = found.permissions().mode() & 0o111 != 0 && rustix::fs::access(program, Access::EXEC_OK).is_ok();
    if executable {
        Ok(())
    } else {
        refusal(126, "permission denied: not executable")
    }
}

/// What the kernel said when everything looked right.
fn cannot_run(program: &Path, error: &io::Error) -> Refusal {
    let (code, why) = match error.kind() {
        io::ErrorKind::NotFound => (127, "its interpreter is missing".to_owned()),
        _ => (126, reason(error)),
    };
    Refusal {
        code,
        message: format!("{}: {why}", program.display()),
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        _ => error.to_string(),
    }
}
