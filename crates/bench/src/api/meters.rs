//! What processes used, and what the API server counted.

use std::collections::BTreeMap;

use anyhow::Context;
use http::Request;
use kube::Client;
use serde::Serialize;

/// The kernel's unit of CPU time in /proc; 100 on every Linux that counts.
const TICKS_PER_SECOND: f64 = 100.0;
/// The API server's own counter of requests.
const REQUESTS: &str = "apiserver_request_total{";

/// CPU time and memory of a process.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Used {
    /// Which.
    pub(super) pid: u32,
    /// Its name.
    pub(super) name: String,
    /// Seconds of CPU time, user and system.
    pub(super) cpu_s: f64,
    /// Memory in RAM now.
    pub(super) rss_mb: f64,
    /// The most it ever had.
    pub(super) rss_max_mb: f64,
}

/// Requests by what was asked: verb, resource and subresource.
pub(super) type Requests = BTreeMap<String, u64>;

/// A look at all meters.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) processes: Vec<Used>,
    /// Absent where the server does not say.
    pub(super) requests: Option<Requests>,
}

impl Reading {
    /// What happened since an earlier one.
    pub(super) fn since(&self, before: &Self) -> Self {
        let processes = self
            .processes
            .iter()
            .map(|now| {
                let then = before.processes.iter().find(|then| then.pid == now.pid);
                Used {
                    cpu_s: now.cpu_s - then.map_or(0.0, |then| then.cpu_s),
                    ..now.clone()
                }
            })
            .collect();
        let requests = self.requests.as_ref().zip(before.requests.as_ref()).map(|(now, then)| {
            let delta = |(key, count): (&String, &u64)| {
                let more = count.saturating_sub(then.get(key).copied().unwrap_or(0));
                (more > 0).then(|| (key.clone(), more))
            };
            now.iter().filter_map(delta).collect()
        });
        Self { processes, requests }
    }
}

/// The meters that are read before and after.
pub(super) struct Meters {
    client: Client,
    pids: Vec<u32>,
    counts: bool,
}

impl Meters {
    /// Looks whether all of them can be read.
    pub(super) async fn new(client: Client, pids: &[u32]) -> anyhow::Result<Self> {
        for pid in pids {
            used(*pid)?;
        }
        let mut meters = Self {
            client,
            pids: pids.to_vec(),
            counts: true,
        };
        meters.counts = meters.requests().await.is_some_and(|requests| !requests.is_empty());
        Ok(meters)
    }

    /// Reads them.
    pub(super) async fn read(&self) -> anyhow::Result<Reading> {
        Ok(Reading {
            processes: self.pids.iter().map(|pid| used(*pid)).collect::<anyhow::Result<_>>()?,
            requests: if self.counts { self.requests().await } else { None },
        })
    }

    async fn requests(&self) -> Option<Requests> {
        let request = Request::get("/metrics").body(Vec::new()).ok()?;
        let text = self.client.request_text(request).await.ok()?;
        Some(parse_requests(&text))
    }
}

/// `VERB resource/subresource` and how often it was done.
fn parse_requests(text: &str) -> Requests {
    let mut requests = Requests::new();
    for line in text.lines() {
        let Some((labels, count)) = line.strip_prefix(REQUESTS).and_then(|rest| rest.rsplit_once("} ")) else {
            continue;
        };
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\""))?;
            rest.split_once('"').map(|(value, _)| value)
        };
        // "subresource" ends with "resource", so the latter is looked for behind a comma.
        let resource = label(",resource").or_else(|| label("resource")).unwrap_or_default();
        let subresource = label("subresource").unwrap_or_default();
        let slash = if subresource.is_empty() { "" } else { "/" };
        let key = format!("{} {resource}{slash}{subresource}", label("verb").unwrap_or_default());
        // Go writes large counts as 1.2e+06.
        let count = count.parse::<f64>().unwrap_or(0.0).max(0.0) as u64;
        *requests.entry(key).or_default() += count;
    }
    requests
}

fn used(pid: u32) -> anyhow::Result<Used> {
    let read = |file: &str| {
        let path = format!("/proc/{pid}/{file}");
        std::fs::read_to_string(&path).with_context(|| format!("--pid {pid}: reading {path}"))
    };
    let (stat, status) = (read("stat")?, read("status")?);
    parse_used(pid, &stat, &status).with_context(|| format!("--pid {pid}: /proc says nothing that we understand"))
}

fn parse_used(pid: u32, stat: &str, status: &str) -> Option<Used> {
    // The name stands in brackets and may have anything in it; user and system time are the 12th and 13th word behind.
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let mut words = after.split_whitespace().skip(11);
    let mut ticks = || words.next()?.parse::<f64>().ok();
    let cpu_s = (ticks()? + ticks()?) / TICKS_PER_SECOND;
    let megabytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
    };
    Some(Used {
        pid,
        name,
        cpu_s,
        rss_mb: megabytes("VmRSS:").unwrap_or(0.0),
        rss_max_mb: megabytes("VmHWM:").unwrap_or(0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_count_is_read_by_verb_and_resource() {
        let text = "\
# HELP apiserver_request_total Counter
apiserver_request_total{code=\"201\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"pods\",scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1\"} 7
apiserver_request_total{code=\"409\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"pods\",scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1\"} 2
apiserver_request_total{code=\"201\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"pods\",scope=\"resource\",subresource=\"binding\",verb=\"POST\",version=\"v1\"} 1.2e+06
other_total{resource=\"pods\"} 3
apiserver_request_total{broken 3
";
        let expected = [("POST pods", 9), ("POST pods/binding", 1_200_000)];
        let expected: Requests = expected.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        assert_eq!(parse_requests(text), expected);
    }

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = "12 (a ) b) S 1 1 1 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 1 1 1";
        let used = parse_used(12, stat, "Name:\ta\nVmHWM:\t  4096 kB\nVmRSS:\t  2048 kB\n").unwrap();
        assert_eq!(
            (used.name.as_str(), used.cpu_s, used.rss_mb, used.rss_max_mb),
            ("a ) b", 3.0, 2.0, 4.0)
        );
        for stat in ["", "12 a S", "12 (a) S 1"] {
            assert!(parse_used(12, stat, "").is_none(), "{stat}");
        }
        assert!(used_of_this_process() > 0.0);
    }

    fn used_of_this_process() -> f64 {
        used(std::process::id()).unwrap().rss_mb
    }
}
