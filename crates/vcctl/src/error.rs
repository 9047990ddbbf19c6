//! Everything that can go wrong, each with what to do about it.

use std::io::{self, Write};
use std::time::Duration;

use crate::terminal::{neutral, neutral_text};

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("{0}")]
    Usage(String),
    #[error("no server to talk to: {0}")]
    Kubeconfig(String),
    #[error("cannot reach the server at {server}: {why}")]
    Unreachable { server: String, why: String },
    #[error("{kind} {name} not found")]
    NotFound { kind: String, name: String },
    #[error("the server at {server} does not know {resource}")]
    UnknownResource { server: String, resource: String },
    #[error("cannot {action}: not logged in: {message}")]
    Unauthorized { action: String, message: String },
    #[error("cannot {action}: forbidden: {message}")]
    Forbidden { action: String, message: String },
    #[error("cannot {action}: it exists already")]
    Exists { action: String },
    #[error("cannot {action}: it was changed meanwhile: {message}")]
    Conflict { action: String, message: String },
    #[error("cannot {action}: {message}")]
    Refused { action: String, message: String },
    #[error(transparent)]
    Manifest(#[from] crate::manifest::ManifestError),
    #[error("{failed} of {all} failed")]
    Several { failed: usize, all: usize },
    #[error("{what}: gave up after {limit:?}")]
    Timeout { what: String, limit: Duration },
    #[error("{0}")]
    Unmet(String),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl CliError {
    /// 2 for wrong usage, 1 for the rest.
    pub(crate) fn exit_code(&self) -> u8 {
        if matches!(self, Self::Usage(_)) { 2 } else { 1 }
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// What the reader can do.
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Usage(_) => "--help shows all flags, with an example".to_owned(),
            Self::Kubeconfig(_) => {
                "give --kubeconfig FILE or set KUBECONFIG; `basalt up` starts a server and prints its kubeconfig"
                    .to_owned()
            }
            Self::Unreachable { .. } => {
                "is it running? --kubeconfig, --context and --master choose another one; `basalt up` starts one"
                    .to_owned()
            }
            Self::NotFound { kind, .. } => format!("`vcctl {kind} list` shows what there is"),
            Self::UnknownResource { .. } => {
                "it runs neither Basalt nor Volcano, or their CRDs are not installed".to_owned()
            }
            Self::Unauthorized { .. } => "the token or certificate in the kubeconfig may have expired".to_owned(),
            Self::Forbidden { .. } => "ask whoever runs the cluster for this permission".to_owned(),
            Self::Conflict { .. } => "look at it again, then repeat the command".to_owned(),
            Self::Exists { .. } => "choose another name, or delete it first".to_owned(),
            _ => return None,
        })
    }

    /// Writes the error and its hint as lines for a person.
    pub(crate) fn write_to(&self, err: &mut dyn Write) -> io::Result<()> {
        writeln!(err, "error: {}", neutral_text(&self.to_string()))?;
        match self.hint() {
            Some(hint) => writeln!(err, "hint: {}", neutral(&hint)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do_and_cannot_drive_the_terminal() {
        let check = |error: CliError, code: u8, text: &str| {
            let mut written = Vec::new();
            error.write_to(&mut written).unwrap();
            assert_eq!(
                (error.exit_code(), String::from_utf8(written).unwrap().as_str()),
                (code, text)
            );
        };
        check(
            CliError::NotFound {
                kind: "job".to_owned(),
                name: "default/a\u{1b}[2J".into(),
            },
            1,
            "error: job default/a\\u{1b}[2J not found\nhint: `vcctl job list` shows what there is\n",
        );
        check(
            CliError::Usage("a name is missing".into()),
            2,
            "error: a name is missing\nhint: --help shows all flags, with an example\n",
        );
        check(
            CliError::Refused {
                action: "create queue a".into(),
                message: "line one\nline two".into(),
            },
            1,
            "error: cannot create queue a: line one\nline two\n",
        );
    }
}
