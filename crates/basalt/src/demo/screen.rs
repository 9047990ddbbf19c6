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
    let jobs = u16::try_from(view.jobs.len()).unwrap_or(u16::MAX).saturating_add(3);
    let [head, middle, output] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(jobs), Constraint::Min(3)]).areas(frame.area());
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
    let fixed = [15, 9, 11, 5, 4].map(Constraint::Length);
    let widths = fixed.into_iter().chain([Constraint::Min(10)]);
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
