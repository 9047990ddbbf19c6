//! `vcctl links`: this program under the names of Volcano's small tools.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::CliError;
use crate::session::Session;
use crate::terminal::neutral;
use crate::tools::Tool;

#[derive(Debug, Args)]
#[command(
    after_help = "A link that is there already stays; another file of that name is never touched.\n\nExamples:\n  vcctl links ~/.local/bin\n  sudo vcctl links /usr/local/bin"
)]
pub(crate) struct LinksArgs {
    /// Folder that the links go to; it should be on the PATH
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn execute(args: &LinksArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let program = std::env::current_exe().map_err(|error| refused("find this program", &error))?;
    let own = program.file_stem().unwrap_or_default().to_owned();
    for name in Tool::NAMES
        .into_iter()
        .chain([crate::PROGRAM])
        .filter(|name| own != *name)
    {
        let link = args.folder.join(name);
        make(&program, &link)?;
        session.print(&format!("{}\n", neutral(&link.display().to_string())))?;
    }
    Ok(())
}

fn make(program: &Path, link: &Path) -> Result<(), CliError> {
    let action = format!("link {}", link.display());
    match symlink(program, link) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let same = std::fs::read_link(link).is_ok_and(|target| target == program);
            same.then_some(())
                .ok_or_else(|| refused(&action, &"there is something else of that name"))
        }
        Err(error) => Err(refused(&action, &error)),
    }
}

fn refused(action: &str, why: &dyn std::fmt::Display) -> CliError {
    CliError::Refused {
        action: action.to_owned(),
        message: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_made_once_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let (program, link) = (folder.path().join("vcctl"), folder.path().join("vjobs"));
        std::fs::write(&program, "").unwrap();
        make(&program, &link).unwrap();
        make(&program, &link).unwrap();
        assert_eq!(std::fs::read_link(&link).unwrap(), program);
        assert!(make(&folder.path().join("other"), &link).is_err());
        assert!(make(&program, &program).is_err());
        assert!(make(&program, &folder.path().join("none/vjobs")).is_err());
        assert_eq!(std::fs::read(&program).unwrap(), b"");
    }
}
