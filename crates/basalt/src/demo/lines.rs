//! The demo in a pipe: one line per change.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use basalt_vcctl::lines::Said;
use tokio::sync::mpsc;

use super::view::JobRow;
use super::{LOOK, Left, Stage};

/// Lines of output that are shown of each job.
const FIRST: usize = 3;

/// Shows until all jobs have ended.
pub(super) async fn show(mut stage: Stage, mut said: mpsc::Receiver<Said>) -> anyhow::Result<Left> {
    let begun = stage.begun;
    tell(begun.elapsed(), &format!("basalt is ready at {}", stage.url))?;
    let mut told: BTreeMap<String, Told> = BTreeMap::new();
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
                    if let Some(text) = told.entry(job.name.clone()).or_default().news(job) {
                        tell(view.elapsed, &text)?;
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

/// What was told of a job last.
#[derive(Default)]
struct Told {
    phase: &'static str,
    with_reason: bool,
}

impl Told {
    /// A line for a new phase, and one more if its reason is known only later.
    fn news(&mut self, job: &JobRow) -> Option<String> {
        let phase = job.phase();
        let with_reason = !job.reason.is_empty();
        let is_new = phase != self.phase || (with_reason && !self.with_reason);
        if phase.is_empty() || !is_new {
            return None;
        }
        *self = Self { phase, with_reason };
        let reason = if with_reason {
            format!(": {}", job.reason)
        } else {
            String::new()
        };
        Some(format!("{} in {} is {phase}{reason}", job.name, job.queue))
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
    use basalt_api::job::JobPhase;

    use super::{JobRow, Told, belongs};

    #[test]
    fn a_phase_is_told_once_and_its_reason_when_it_is_known() {
        let mut told = Told::default();
        let steps = [
            (None, "", None),
            (Some(JobPhase::Pending), "", Some("a in q is Pending")),
            (Some(JobPhase::Pending), "", None),
            (Some(JobPhase::Pending), "no room", Some("a in q is Pending: no room")),
            (Some(JobPhase::Pending), "less room", None),
            (Some(JobPhase::Pending), "", None),
            (Some(JobPhase::Pending), "no room", None),
            (Some(JobPhase::Running), "", Some("a in q is Running")),
            (Some(JobPhase::Pending), "no room", Some("a in q is Pending: no room")),
        ];
        for (phase, reason, expected) in steps {
            let job = JobRow {
                name: "a".to_owned(),
                queue: "q".to_owned(),
                phase,
                running: 0,
                pods: 1,
                age_s: 0,
                reason: reason.to_owned(),
            };
            assert_eq!(told.news(&job).as_deref(), expected, "{phase:?} {reason}");
        }
    }

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
