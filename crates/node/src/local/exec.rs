//! Commands inside running containers, started by the server: `kubectl exec`.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll};

use rustix::fs::OFlags;
use rustix::process::Signal;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::folder::PodFolder;
use super::process;
use super::shim::{self, enter::Entry};
use super::state::{Now, PodState, ProcessId};

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// There is no such container, or it does not run now.
    #[error("container {0} does not run")]
    NotRunning(String),
    /// The system refused it.
    #[error("cannot start the command: {0}")]
    System(#[from] io::Error),
}

/// A command to be run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecPlan {
    /// Program and arguments; never empty.
    pub command: Vec<String>,
    /// Whether there will be input; else it is empty.
    pub stdin: bool,
    /// Whether it runs on a terminal, which has one output.
    pub tty: bool,
}

/// What the command is given.
pub type Input = Pin<Box<dyn AsyncWrite + Send>>;
/// What it says.
pub type Output = Pin<Box<dyn AsyncRead + Send>>;

/// A running command; dropped before its end, it is killed with all of its process group.
pub struct Execution {
    /// Its standard input, if it was asked for; dropping it ends the input (but not that of a terminal).
    pub stdin: Option<Input>,
    /// Its standard output, or that of the terminal.
    pub stdout: Option<Output>,
    /// Its standard error; none with a terminal.
    pub stderr: Option<Output>,
    terminal: Option<OwnedFd>,
    child: Child,
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Execution")
            .field("child", &self.child)
            .finish_non_exhaustive()
    }
}

/// Starts a command in a container of the pod of this folder. `program` is [`shim::program`], but for tests.
/// To be called on a thread that lives as long as the runtime.
pub fn start(program: &Path, folder: &PodFolder, container: &str, plan: &ExecPlan) -> Result<Execution, ExecError> {
    let inside = running(folder, container).ok_or_else(|| ExecError::NotRunning(container.to_owned()))?;
    let entry = Entry {
        container,
        pid: inside.pid,
        started: inside.started,
        terminal: plan.tty,
        kept: false,
    };
    let mut command = Command::new(program);
    command
        .arg0("basalt")
        .args([shim::WORD, "exec"])
        .arg(std::path::absolute(folder.path())?)
        .args(entry.words())
        .args(&plan.command)
        .env_clear()
        .current_dir("/")
        .kill_on_drop(true);
    if plan.tty {
        on_terminal(command, plan)
    } else {
        on_pipes(command, plan)
    }
}

/// The first process of a container, if it runs.
fn running(folder: &PodFolder, container: &str) -> Option<ProcessId> {
    let state: PodState = serde_json::from_slice(&fs::read(folder.state()).ok()?).ok()?;
    match &state.containers.get(container)?.now {
        Now::Running { process, .. } => process.alive().then(|| process.clone()),
        _ => None,
    }
}

fn on_pipes(mut command: Command, plan: &ExecPlan) -> Result<Execution, ExecError> {
    let mut child = command
        .stdin(if plan.stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    Ok(Execution {
        stdin: child.stdin.take().map(|stdin| Box::pin(stdin) as Input),
        stdout: child.stdout.take().map(|stdout| Box::pin(stdout) as Output),
        stderr: child.stderr.take().map(|stderr| Box::pin(stderr) as Output),
        terminal: None,
        child,
    })
}

fn on_terminal(mut command: Command, plan: &ExecPlan) -> Result<Execution, ExecError> {
    let own = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = rustix::pty::openpt(own).map_err(io::Error::from)?;
    rustix::pty::grantpt(&terminal).map_err(io::Error::from)?;
    rustix::pty::unlockpt(&terminal).map_err(io::Error::from)?;
    let side = rustix::pty::ioctl_tiocgptpeer(&terminal, own).map_err(io::Error::from)?;
    let child = command
        .stdin(side.try_clone()?)
        .stdout(side.try_clone()?)
        .stderr(side)
        .spawn()?;
    // The command holds its side of the terminal; while anybody else does, its end would not be seen here.
    drop(command);
    let flags = rustix::fs::fcntl_getfl(&terminal).map_err(io::Error::from)?;
    rustix::fs::fcntl_setfl(&terminal, flags | OFlags::NONBLOCK).map_err(io::Error::from)?;
    let stdin = plan
        .stdin
        .then(|| pipe::Sender::from_owned_fd_unchecked(terminal.try_clone()?));
    let stdout = Hearing(pipe::Receiver::from_owned_fd_unchecked(terminal.try_clone()?)?);
    Ok(Execution {
        stdin: stdin.transpose()?.map(|stdin| Box::pin(stdin) as Input),
        stdout: Some(Box::pin(stdout)),
        stderr: None,
        terminal: Some(terminal),
        child,
    })
}

/// Reads a terminal: that the other side has gone is the end, not an error.
struct Hearing(pipe::Receiver);

impl AsyncRead for Hearing {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.0).poll_read(context, into) {
            Poll::Ready(Err(error)) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }
}

impl Execution {
    /// The terminal has another size; nothing without one.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        let Some(terminal) = &self.terminal else { return Ok(()) };
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(rustix::termios::tcsetwinsize(terminal, size)?)
    }

    /// Waits for its end: the exit code, 128 + signal if it was killed. Can be dropped and called again.
    pub async fn wait(&mut self) -> io::Result<i32> {
        let status = self.child.wait().await?;
        Ok(status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        // It has a number as long as nobody has waited for it, so nobody else can have got that.
        if let Some(pid) = self.child.id()
            && let Err(error) = process::kill_group(pid, Signal::KILL)
        {
            tracing::warn!(pid, %error, "cannot kill a command");
        }
    }
}
