//! The demo in a pipe: one line per change.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use basalt_vcctl::lines::Said;
use tokio::sync::mpsc;

use super::{LOOK, Left, Stage};

/// Lines of output that are shown of each job.
const FIRST: usize = 3;

/// Shows until all jobs have ended.
pub(super) async fn show(mut stage: Stage, mut said: mpsc::Receiver<Said>) -> anyhow::Result<Left> {
    let begun = stage.begun;
    tell(begun.elapsed(), &format!("basalt is ready at {}", stage.url))?;
    let mut phases: BTreeMap<String, &'static str> = BTreeMap::new();
    let mut heard: BTreeMap<String, usize> = BTreeMap::new();
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            Some(Said { pod, line: Ok(line) }) = said.recv() => {
                let job = stage.company.job_names().find(|job| belongs(&pod, job)).unwrap_or_else(|| pod.clone());
                let count = heard.entry(job).or_default();
                *count = count.saturating_add(1);
                if *count <= FIRST {
                    tell(begun.elapsed(), &format!("  {pod}: {}", String::from_utf8_lossy(&line)))?;
                }
            }
            _ = look.tick() => {
                let view = stage.look().await?;
                for job in &view.jobs {
                    let before = phases.insert(job.name.clone(), job.phase());
                    if before != Some(job.phase()) && !job.phase().is_empty() {
                        let reason = if job.reason.is_empty() { String::new() } else { format!(": {}", job.reason) };
                        tell(view.elapsed, &format!("{} in {} is {}{reason}", job.name, job.queue, job.phase()))?;
                    }
                }
                if view.is_over() {
                    tell(view.elapsed, "all jobs have ended")?;
                    return Ok(Left::Over);
                }
            }
        }
    }
}

/// Whether a pod is one of the job's: `job-task-index`.
fn belongs(pod: &str, job: &str) -> bool {
    let rest = pod.strip_prefix(job).and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| rest.split('-').count() == 2)
}

fn tell(at: Duration, text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:6.2} s  {text}", at.as_secs_f64())?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::belongs;

    #[test]
    fn pods_belong_to_their_jobs() {
        for (pod, job, expected) in [
            ("train-vision-worker-0", "train-vision", true),
            ("train-vision-worker-0", "train", false),
            ("train-vision-worker-0", "augment", false),
        ] {
            assert_eq!(belongs(pod, job), expected, "{pod} {job}");
        }
    }
}
