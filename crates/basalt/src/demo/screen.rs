//! The demo on a terminal: one screen that changes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use basalt_api::job::JobPhase;
use basalt_vcctl::lines::Said;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Table};
use tokio::sync::mpsc;

use super::view::{JobRow, QueueRow, View};
use super::{LOOK, Left, Stage};

/// Lines of output that are kept.
const KEPT: usize = 200;
/// How often keys are looked for.
const KEYS: Duration = Duration::from_millis(100);
/// Cells of a bar.
const BAR: usize = 14;

/// What a line of output was said by, and what.
type Spoken = (String, String);

/// Shows until somebody leaves.
pub(super) async fn show(mut stage: Stage, mut said: mpsc::Receiver<Said>) -> anyhow::Result<Left> {
    let mut terminal = ratatui::try_init()?;
    let _restored = Restored;
    let (press, mut pressed) = mpsc::channel(16);
    let over = Over(Arc::default());
    let watching = over.0.clone();
    // Reading keys blocks, and a runtime's thread must not.
    std::thread::spawn(move || read_keys(&watching, &press));
    let mut spoken: VecDeque<Spoken> = VecDeque::with_capacity(KEPT);
    let mut view = stage.look().await?;
    let mut look = tokio::time::interval(LOOK);
    loop {
        terminal.draw(|frame| draw(frame, &view, &spoken))?;
        tokio::select! {
            key = pressed.recv() => match key {
                Some(Some(left)) => return Ok(left),
                Some(None) => terminal.clear()?,
                None => return Ok(Left::Screen),
            },
            Some(Said { pod, line }) = said.recv() => {
                note(&mut spoken, pod, line);
                // Many lines at once are drawn once.
                while let Ok(Said { pod, line }) = said.try_recv() {
                    note(&mut spoken, pod, line);
                }
            }
            _ = look.tick() => view = stage.look().await?,
        }
    }
}

fn note(spoken: &mut VecDeque<Spoken>, pod: String, line: Result<Vec<u8>, String>) {
    let Ok(line) = line else { return };
    if spoken.len() >= KEPT {
        spoken.pop_front();
    }
    let line = String::from_utf8_lossy(&line);
    let visible = line.chars().filter(|letter| !letter.is_control()).collect();
    spoken.push_back((pod, visible));
}

/// Gives the terminal back, however the screen ends.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Tells the reader of keys that nobody listens any more.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Hands on how the screen is left, or nothing when it is to be drawn anew.
fn read_keys(over: &AtomicBool, press: &mpsc::Sender<Option<Left>>) {
    while !over.load(Ordering::Relaxed) {
        let meaning = match event::poll(KEYS) {
            Ok(false) => continue,
            Ok(true) => event::read().map(|event| meaning(&event)),
            Err(error) => Err(error),
        };
        match meaning {
            Ok(None) => {}
            Ok(Some(meaning)) => {
                if press.blocking_send(meaning).is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

#[expect(
    clippy::option_option,
    reason = "not a key for us; the screen is to be drawn anew; how it is left"
)]
fn meaning(event: &Event) -> Option<Option<Left>> {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Some(Left::All)),
            KeyCode::Char('q' | 'Q') | KeyCode::Esc => Some(Some(Left::Screen)),
            _ => None,
        },
        Event::Resize(..) => Some(None),
        _ => None,
    }
}

/// Draws everything.
fn draw(frame: &mut Frame<'_>, view: &View, spoken: &VecDeque<Spoken>) {
    // Borders, a head, and the lines of the machine.
    let rows = view
        .jobs
        .len()
        .saturating_add(3)
        .max(view.queues.len().saturating_add(7));
    let rows = u16::try_from(rows).unwrap_or(u16::MAX);
    let [head, middle, output] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(rows), Constraint::Min(3)]).areas(frame.area());
    let [left, right] = Layout::horizontal([Constraint::Length(52), Constraint::Min(40)]).areas(middle);
    let [tree, machine] = Layout::vertical([Constraint::Min(4), Constraint::Length(5)]).areas(left);
    frame.render_widget(header(view), head);
    frame.render_widget(queues(&view.queues), tree);
    frame.render_widget(machine_use(view), machine);
    frame.render_widget(job_table(&view.jobs), right);
    frame.render_widget(latest(spoken, output), output);
}

fn header(view: &View) -> Paragraph<'_> {
    let over = if view.is_over() { "all jobs have ended   " } else { "" };
    Paragraph::new(Line::from(vec![
        Span::from(" basalt ").black().on_cyan().bold(),
        Span::from(format!("  {}   {} s   {over}", view.url, view.elapsed.as_secs())),
        Span::from("q leaves, Ctrl-C ends").dim(),
    ]))
}

fn bar(part: f64) -> String {
    let full = (part.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(BAR.saturating_sub(full)))
}

fn queues(queues: &[QueueRow]) -> Table<'_> {
    let rows = queues.iter().map(|queue| {
        let colour = if queue.share > 1.0 { Color::Yellow } else { Color::Green };
        let name = format!("{}{}", "  ".repeat(queue.depth), queue.name);
        let waiting = match queue.waiting {
            0 => Span::from(""),
            waiting => Span::from(format!("{waiting} wait")).yellow(),
        };
        Row::new([
            Span::from(name),
            Span::styled(bar(queue.share), Style::new().fg(colour)),
            Span::from(format!("{:>5}", queue.cpu)),
            Span::from(format!("{} run", queue.running)),
            waiting,
        ])
    });
    let widths = [14, BAR as u16, 6, 6, 6].map(Constraint::Length);
    Table::new(rows, widths).block(Block::bordered().title(" queues: cpu held of what is deserved "))
}

fn machine_use(view: &View) -> Paragraph<'_> {
    let gib = |kib: u64| kib as f64 / 1024.0 / 1024.0;
    let machine = &view.machine;
    let part = |used: f64, all: f64| if all > 0.0 { used / all } else { 0.0 };
    let memory = part(machine.memory_kib as f64, machine.memory_all_kib as f64);
    let line = |name: &str, share: f64, text: String| {
        Line::from(vec![
            Span::from(format!("{name:<8}")),
            Span::from(bar(share)).cyan(),
            Span::from(format!("  {text}")),
        ])
    };
    let cpu = format!("{:.0} %   {} pods run", machine.cpu * 100.0, view.pods);
    let held = format!(
        "{:.1} of {:.1} GiB",
        gib(machine.memory_kib),
        gib(machine.memory_all_kib)
    );
    let (given, gpus) = view.gpus;
    let lines = vec![
        line("cpu", machine.cpu, cpu),
        line("memory", memory, held),
        line(
            "gpu",
            part(given as f64, gpus as f64),
            format!("{given} of {gpus} given"),
        ),
    ];
    Paragraph::new(lines).block(Block::bordered().title(" this machine "))
}

fn colour(phase: Option<JobPhase>) -> Color {
    match phase {
        Some(JobPhase::Running) => Color::Green,
        Some(JobPhase::Completed) => Color::DarkGray,
        Some(JobPhase::Failed | JobPhase::Terminated | JobPhase::Aborted) => Color::Red,
        _ => Color::Yellow,
    }
}

fn job_table(jobs: &[JobRow]) -> Table<'_> {
    let rows = jobs.iter().map(|job| {
        Row::new([
            Span::from(job.name.as_str()),
            Span::from(job.queue.as_str()).dim(),
            Span::styled(job.phase(), Style::new().fg(colour(job.phase))),
            Span::from(format!("{}/{}", job.running, job.pods)),
            Span::from(format!("{}s", job.age_s)),
            Span::from(job.reason.as_str()).dim(),
        ])
    });
    let fixed = [15, 9, 10, 5, 4].map(Constraint::Length);
    let widths = fixed.into_iter().chain([Constraint::Min(8)]);
    let head = Row::new(["job", "queue", "phase", "pods", "age", "why"]).bold();
    Table::new(rows, widths)
        .header(head)
        .block(Block::bordered().title(" jobs "))
}

fn latest(spoken: &VecDeque<Spoken>, area: Rect) -> Paragraph<'_> {
    let room = usize::from(area.height.saturating_sub(2));
    let skipped = spoken.len().saturating_sub(room);
    let lines = spoken.iter().skip(skipped).map(|(pod, line)| {
        Line::from(vec![
            Span::from(format!("{pod:<24} ")).cyan(),
            Span::from(line.as_str()),
        ])
    });
    Paragraph::new(lines.collect::<Vec<_>>()).block(Block::bordered().title(" what they say "))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn job(name: &str, phase: JobPhase, reason: &str) -> JobRow {
        JobRow {
            name: name.to_owned(),
            queue: "vision".to_owned(),
            phase: Some(phase),
            running: 2,
            pods: 4,
            age_s: 7,
            reason: reason.to_owned(),
        }
    }

    fn view() -> View {
        let queue = |depth, name: &str, share, waiting| QueueRow {
            depth,
            name: name.to_owned(),
            share,
            cpu: "80m".to_owned(),
            running: 1,
            waiting,
        };
        View {
            elapsed: Duration::from_secs(12),
            url: "https://127.0.0.1:6443".to_owned(),
            queues: vec![queue(0, "root", 0.5, 1), queue(1, "vision", 1.5, 0)],
            jobs: vec![
                job("train-vision", JobPhase::Running, ""),
                job("monthly-report", JobPhase::Pending, "no room"),
            ],
            machine: super::super::machine::Use {
                cpu: 0.5,
                memory_kib: 1024 * 1024,
                memory_all_kib: 4 * 1024 * 1024,
            },
            gpus: (1, 2),
            pods: 9,
        }
    }

    fn shown(width: u16, height: u16, spoken: &VecDeque<Spoken>) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &view(), spoken)).expect("drawn");
        let buffer = terminal.backend().buffer().clone();
        let cells: Vec<&str> = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        let lines = cells.chunks(usize::from(width)).map(<[&str]>::concat);
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn everything_that_counts_is_on_the_screen() {
        let mut spoken = VecDeque::new();
        for number in 0..30 {
            note(
                &mut spoken,
                "train-vision-worker-0".to_owned(),
                Ok(format!("\u{1b}[31mline {number}").into()),
            );
        }
        let text = shown(110, 24, &spoken);
        for expected in [
            "https://127.0.0.1:6443",
            "  vision       ██████████████",
            "root           ███████░░░░░░░",
            "1 wait",
            "train-vision    vision    Running    2/4   7s",
            "monthly-report  vision    Pending    2/4   7s   no room",
            "50 %   9 pods run",
            "1.0 of 4.0 GiB",
            "1 of 2 given",
            "train-vision-worker-0    [31mline 29",
            "q leaves",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
        assert!(!text.contains("line 3 "), "only the latest lines\n{text}");
    }

    #[test]
    fn a_small_terminal_is_enough_to_draw_on() {
        for (width, height) in [(1, 1), (20, 5), (80, 24), (300, 100)] {
            shown(width, height, &VecDeque::new());
        }
    }

    #[test]
    fn keys_leave_the_screen_or_end_everything() {
        let key = |code, modifiers| meaning(&Event::Key(event::KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Some(Left::Screen)));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Some(Left::All)));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(meaning(&Event::Resize(3, 4)), Some(None));
    }
}
