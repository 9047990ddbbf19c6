//! What is logged, in which form; the filter can be changed while the process runs.

use std::sync::{Mutex, OnceLock, PoisonError};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// The form of the lines on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object on each line.
    Json,
}

/// The flags of every program that logs.
#[derive(Debug, clap::Args)]
pub struct LogFlags {
    /// What is logged on stderr: a level or a filter such as `info` or `basalt_engine=debug`
    #[arg(
        long,
        global = true,
        env = "BASALT_LOG",
        default_value = "warn",
        value_name = "FILTER"
    )]
    log: String,
    /// The form of what is logged
    #[arg(
        long,
        global = true,
        env = "BASALT_LOG_FORMAT",
        default_value = "text",
        value_name = "FORMAT"
    )]
    log_format: LogFormat,
}

struct Control {
    handle: reload::Handle<EnvFilter, Registry>,
    /// The filter in force, as it was given.
    filter: Mutex<String>,
    format: LogFormat,
}

static CONTROL: OnceLock<Control> = OnceLock::new();

fn parse(filter: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(filter).map_err(|error| format!("{filter:?} is not a level or a filter: {error}"))
}

/// Logs go to stderr, so that stdout stays what the user asked for.
pub fn start(flags: &LogFlags) -> anyhow::Result<()> {
    use std::io::IsTerminal;
    let (filter, format) = (flags.log.as_str(), flags.log_format);
    let parsed = parse(filter).map_err(|why| anyhow::anyhow!("--log {why}"))?;
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (parsed, handle) = reload::Layer::new(parsed);
    let text = (format == LogFormat::Text).then(|| fmt::layer().with_writer(std::io::stderr).with_ansi(colour));
    let json = (format == LogFormat::Json).then(|| fmt::layer().json().with_writer(std::io::stderr));
    tracing_subscriber::registry().with(parsed).with(text).with(json).init();
    let filter = Mutex::new(filter.to_owned());
    // A second start would have failed above.
    let _ = CONTROL.set(Control { handle, filter, format });
    Ok(())
}

/// Whether every line is a JSON object.
pub fn is_json() -> bool {
    CONTROL.get().is_some_and(|control| control.format == LogFormat::Json)
}

/// The filter in force.
pub fn filter() -> String {
    let control = CONTROL.get();
    control.map_or_else(String::new, |control| {
        control.filter.lock().unwrap_or_else(PoisonError::into_inner).clone()
    })
}

/// Puts another filter in force; a bad one leaves the old one as it is.
pub fn change(filter: &str) -> Result<(), String> {
    let parsed = parse(filter)?;
    let Some(control) = CONTROL.get() else {
        return Err("logging was not started".to_owned());
    };
    let mut known = control.filter.lock().unwrap_or_else(PoisonError::into_inner);
    control.handle.reload(parsed).map_err(|error| error.to_string())?;
    filter.clone_into(&mut known);
    Ok(())
}
