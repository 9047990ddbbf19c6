//! `basalt-bench store`: durable writes, in-process, over the network, and etcd's on the same disk.

mod etcd;
mod network;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use basalt_apiserver::store::{Backend, Draft, Expect, Key, Options, Store, Write};
use serde::Serialize;

use super::measure::{Load, Writer, load};

/// How many objects each writer writes in turn: enough that they are not always the same, few enough
/// that the store does not grow with the length of the run.
const KEYS_PER_WRITER: u64 = 16;

/// The options of `basalt-bench store`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Numbers of concurrent writers.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 1024])]
    writers: Vec<usize>,
    /// The size of a value in bytes.
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    bytes: u32,
    /// How many seconds to measure each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Where to put the data of all that is measured; a new folder is made in it and removed again.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// The etcd to compare with, through its network API, on the same disk.
    #[arg(long, value_name = "PATH")]
    etcd: Option<PathBuf>,
    /// A running server to measure over the network, with ConfigMaps in the namespace `default`.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// How to print.
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

/// One line of the result.
#[derive(Debug, Serialize)]
struct Line {
    /// `store` (in-process), `server` (over the network) or `etcd`.
    peer: &'static str,
    #[serde(flatten)]
    load: Load,
    /// How many times etcd's writes per second at the same number of writers.
    ratio: Option<f64>,
}

/// The whole result.
#[derive(Debug, Serialize)]
struct Report {
    value_bytes: u32,
    seconds: u32,
    /// In-process reads of one object among 100,000, on one core.
    gets_per_s: f64,
    lines: Vec<Line>,
}

/// Measures and prints.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let folder = args.dir.join(format!("basalt-bench-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let measured = measure(&args, &folder).await;
    let removed = std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()));
    let report = measured?;
    removed?;
    match args.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        Output::Table => print(&report),
    }
    Ok(())
}

async fn measure(args: &Args, folder: &std::path::Path) -> anyhow::Result<Report> {
    let time = Duration::from_secs(u64::from(args.seconds));
    let value: Arc<[u8]> = std::iter::repeat_n(b'x', args.bytes as usize).collect();
    let mut lines: Vec<Line> = Vec::new();
    if let Some(binary) = &args.etcd {
        let etcd = etcd::Etcd::start(binary, &folder.join("etcd")).await?;
        for &writers in &args.writers {
            lines.push(Line {
                peer: "etcd",
                load: etcd.load(writers, time, &value).await?,
                ratio: None,
            });
        }
    }
    for &writers in &args.writers {
        let store = Store::open(Options::new(Backend::Disk(folder.join(format!("store-{writers}")))))?;
        lines.push(Line {
            peer: "store",
            load: in_process(&store, writers, time, &value).await?,
            ratio: None,
        });
        store.close();
    }
    if let Some(path) = &args.kubeconfig {
        let server = network::Server::connect(path).await?;
        for &writers in &args.writers {
            lines.push(Line {
                peer: "server",
                load: server.load(writers, time, args.bytes).await?,
                ratio: None,
            });
        }
    }
    for at in 0..lines.len() {
        let etcd = lines
            .iter()
            .find(|line| line.peer == "etcd" && line.load.writers == lines[at].load.writers);
        lines[at].ratio = etcd.map(|etcd| lines[at].load.writes_per_s / etcd.load.writes_per_s);
    }
    let gets_per_s = gets(&value).await?;
    Ok(Report {
        value_bytes: args.bytes,
        seconds: args.seconds,
        gets_per_s,
        lines,
    })
}

const BEFORE_VALUE: &[u8] = br#""},"data":""#;
const AFTER_VALUE: &[u8] = br#""}"#;

/// A body around the value, with the place of the revision.
fn draft(value: &[u8]) -> Draft {
    let mut draft = Draft::new(br#"{"metadata":{"resourceVersion":""#, b"");
    let after = draft.after();
    after.reserve_exact(value.len() + BEFORE_VALUE.len() + AFTER_VALUE.len());
    after.extend_from_slice(BEFORE_VALUE);
    after.extend_from_slice(value);
    after.extend_from_slice(AFTER_VALUE);
    draft
}

/// The name of the object that a writer writes next.
fn name(writer: usize, count: u64) -> String {
    format!("writer-{writer}-{}", count % KEYS_PER_WRITER)
}

/// Writes into a store of this process.
struct InProcess {
    store: Store,
    keys: Vec<Key>,
    value: Arc<[u8]>,
}

impl Writer for InProcess {
    async fn write(&mut self, count: u64) -> anyhow::Result<()> {
        let put = Write::Put {
            key: self.keys[(count % KEYS_PER_WRITER) as usize].clone(),
            expect: Expect::Any,
            draft: draft(&self.value),
        };
        self.store.commit(vec![put]).await?;
        Ok(())
    }
}

async fn in_process(store: &Store, writers: usize, time: Duration, value: &Arc<[u8]>) -> anyhow::Result<Load> {
    let writer = |number| {
        let (resource, namespace): (Arc<str>, Arc<str>) = ("configmaps".into(), "default".into());
        let key = |count| Key::new(Arc::clone(&resource), Arc::clone(&namespace), name(number, count));
        InProcess {
            store: store.clone(),
            keys: (0..KEYS_PER_WRITER).map(key).collect(),
            value: Arc::clone(value),
        }
    };
    load(writers, time, writer).await
}

/// Reads of objects spread over a store of 100,000.
async fn gets(value: &[u8]) -> anyhow::Result<f64> {
    const OBJECTS: usize = 100_000;
    const READS: usize = 1_000_000;
    let store = Store::open(Options::new(Backend::Memory))?;
    let keys: Vec<Key> = (0..OBJECTS)
        .map(|n| Key::new("pods", format!("team-{}", n % 10), format!("pod-{n:06}")))
        .collect();
    for key in &keys {
        let put = Write::Put {
            key: key.clone(),
            expect: Expect::Any,
            draft: draft(&value[..value.len().min(256)]),
        };
        store.commit(vec![put]).await?;
    }
    // A stride that visits all, in no order that a cache likes.
    let begin = Instant::now();
    let found = (0..READS)
        .filter(|n| store.get(&keys[n * 7919 % OBJECTS]).is_some())
        .count();
    anyhow::ensure!(found == READS, "only {found} of {READS} reads found their object");
    Ok(READS as f64 / begin.elapsed().as_secs_f64())
}

fn print(report: &Report) {
    println!(
        "durable writes of {} bytes, {} s each",
        report.value_bytes, report.seconds
    );
    println!(
        "{:<8} {:>8} {:>12} {:>10} {:>10} {:>8}",
        "PEER", "WRITERS", "WRITES/S", "P50 MS", "P99 MS", "X ETCD"
    );
    for Line { peer, load, ratio } in &report.lines {
        let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        println!(
            "{peer:<8} {:>8} {:>12.0} {:>10.3} {:>10.3} {ratio:>8}",
            load.writers, load.writes_per_s, load.p50_ms, load.p99_ms
        );
    }
    println!("in-process reads: {:.0}/s on one core", report.gets_per_s);
}
