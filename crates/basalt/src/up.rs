//! `basalt up`: the whole system in one process.

mod definitions;
mod hosting;
mod options;
mod system;

use std::io::Write;
use std::time::Instant;

pub use options::UpOptions;
pub use system::{NodeWords, System, SystemOptions, store_options};

use basalt_runtime::process;

/// Runs the system until it is told to stop.
pub fn main(options: UpOptions) -> anyhow::Result<()> {
    if options.is_demo() {
        return crate::demo::main(options);
    }
    let begun = Instant::now();
    process::run(|mut stop| async move {
        let options = options.resolve()?;
        let mut system = System::start(options).await?;
        announce(&system, begun)?;
        tokio::select! {
            () = stop.wished() => {}
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
    announce_node(&mut out, system)?;
    writeln!(
        out,
        "Data is kept in {}. Stop with Ctrl-C; the next start goes on from there.",
        system.data().display()
    )?;
    out.flush()?;
    Ok(())
}

/// What runs the pods, and what becomes of them.
fn announce_node(out: &mut impl Write, system: &System) -> anyhow::Result<()> {
    if system.nodes() > 0 {
        let nodes = system.nodes();
        writeln!(
            out,
            "There are {nodes} fake nodes: they run pods without running anything."
        )?;
    }
    let Some(node) = system.node() else { return Ok(()) };
    writeln!(out, "This machine is the node {}: {}.", node.name, node.words)?;
    writeln!(out, "Pods run their commands as processes here; no image is pulled.")?;
    if node.single_trust {
        writeln!(
            out,
            "Single-trust mode: without root, all pods run as you and can do what you can do. Run only what you trust."
        )?;
    }
    if !node.stop_pods {
        writeln!(
            out,
            "Pods go on when the server stops, and the next start takes them over (--stop-pods ends them)."
        )?;
    }
    Ok(())
}
