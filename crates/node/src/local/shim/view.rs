//! Finds out by trying how containers can get a view of their own here.

use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::local::plan::View;

/// The word that makes a shim try.
pub(super) const WORD: &str = "view";

const NAMESPACES: u8 = 0;
const USER_NAMESPACES: u8 = 10;
const SHARED: u8 = 11;

/// Asks a process of its own, which tries and ends: nothing of this process changes.
pub fn find_view(program: &Path) -> View {
    let tried = Command::new(program)
        .args([super::WORD, WORD])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match tried.map(|status| status.code().and_then(|code| u8::try_from(code).ok())) {
        Ok(Some(NAMESPACES)) => View::Namespaces,
        Ok(Some(USER_NAMESPACES)) => View::UserNamespaces,
        Ok(_) => View::Shared,
        Err(error) => {
            tracing::warn!(%error, program = %program.display(), "what the machine permits could not be tried");
            View::Shared
        }
    }
}

/// Tries.
pub(super) fn main() -> ExitCode {
    let own = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS;
    // In a user namespace a pod is outside still who the server is: that must not be root.
    let root = rustix::process::geteuid().is_root();
    let found = if unshare(own).is_ok() && can_mount().is_ok() {
        NAMESPACES
    } else if !root && unshare(own | CloneFlags::CLONE_NEWUSER).is_ok() && can_mount().is_ok() {
        USER_NAMESPACES
    } else {
        SHARED
    };
    ExitCode::from(found)
}

fn can_mount() -> io::Result<()> {
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
    mount(Some("tmpfs"), "/tmp", Some("tmpfs"), MsFlags::empty(), nothing)?;
    Ok(())
}
