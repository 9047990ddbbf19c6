//! `basalt up`: the whole system in one process.

mod definitions;
mod options;
mod system;

use std::io::Write;
use std::time::Instant;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

pub use options::UpOptions;
pub use system::{System, SystemOptions, store_options};

/// Runs the system until it is told to stop.
pub fn main(options: UpOptions) -> anyhow::Result<()> {
    let begun = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the async runtime")?;
    runtime.block_on(async {
        // Installed first, so that a signal during the start is not lost.
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let options = options.resolve()?;
        let mut system = System::start(options).await?;
        announce(&system, begun)?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            failure = system.failed() => return Err(failure),
        }
        system.stop().await
    })
}

/// Says that the system is ready and what to type next.
fn announce(system: &System, begun: Instant) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let kubeconfig = system.kubeconfig().display();
    writeln!(
        out,
        "basalt is ready at {} ({} ms)",
        system.url(),
        begun.elapsed().as_millis()
    )?;
    writeln!(out)?;
    writeln!(out, "  export KUBECONFIG={kubeconfig}")?;
    writeln!(out, "  kubectl get nodes")?;
    writeln!(out, "  kubectl apply -f examples/gang.yaml")?;
    writeln!(out, "  kubectl get vcjob,podgroups,pods")?;
    writeln!(out)?;
    if system.nodes() == 0 {
        writeln!(
            out,
            "There are no fake nodes; start with --nodes N to have some that run pods."
        )?;
    }
    writeln!(
        out,
        "Data is kept in {}. Stop with Ctrl-C; the next start goes on from there.",
        system.data().display()
    )?;
    out.flush()?;
    Ok(())
}
