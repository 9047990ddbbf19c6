//! The flags of leader election: Volcano's names and values.

use std::time::Duration;

use basalt_api::check::names::dns_subdomain;
use jiff::SignedDuration;

use super::lease::Terms;

/// Several copies may run: one leads, the others stand by.
#[derive(Debug, Clone, clap::Args)]
#[expect(clippy::struct_field_names, reason = "the flags' names are Kubernetes'")]
#[command(next_help_heading = "Leader election")]
pub struct ElectionFlags {
    /// Work only while holding a Lease; without it no other copy may run
    #[arg(
        long,
        value_name = "BOOL",
        action = clap::ArgAction::Set,
        default_value_t = true,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true
    )]
    leader_elect: bool,
    /// The namespace of the Lease: that of Volcano, so that a Volcano that still runs is noticed
    #[arg(long, value_name = "NAMESPACE", default_value = "volcano-system")]
    leader_elect_resource_namespace: String,
    /// The name of the Lease [default: as Volcano has it: that of the scheduler, and vc-controller-manager]
    #[arg(long, value_name = "NAME", value_parser = lease_name)]
    leader_elect_resource_name: Option<String>,
    /// Others take over when they saw no renewal for so long
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = time)]
    leader_elect_lease_duration: Duration,
    /// A leader that could not renew its Lease for so long stops writing
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    leader_elect_renew_deadline: Duration,
    /// Time between two renewals
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    leader_elect_retry_period: Duration,
}

/// The name of an object.
fn lease_name(text: &str) -> Result<String, String> {
    match dns_subdomain(text).as_slice() {
        [] => Ok(text.to_owned()),
        [why, ..] => Err(why.clone()),
    }
}

/// A time as Go writes it: `15s`, `500ms`, `1m30s`.
fn time(text: &str) -> Result<Duration, String> {
    let time: SignedDuration = text
        .parse()
        .map_err(|_| "not a time such as 15s, 500ms or 1m30s".to_owned())?;
    let time = Duration::try_from(time).map_err(|_| "a time must not be negative".to_owned())?;
    let limits = Duration::from_millis(100)..=Duration::from_hours(1);
    if limits.contains(&time) {
        Ok(time)
    } else {
        Err("not between 100ms and 1h".to_owned())
    }
}

impl ElectionFlags {
    /// Whether there is an election.
    pub fn is_on(&self) -> bool {
        self.leader_elect
    }

    /// Where the Lease is.
    pub fn namespace(&self) -> &str {
        &self.leader_elect_resource_namespace
    }

    /// What the Lease is called, if that was said.
    pub fn name(&self) -> Option<&str> {
        self.leader_elect_resource_name.as_deref()
    }

    /// The times, if they fit together.
    pub fn terms(&self) -> anyhow::Result<Terms> {
        let terms = Terms {
            duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        };
        anyhow::ensure!(
            terms.duration > terms.renew_deadline,
            "--leader-elect-lease-duration ({:?}) must be longer than --leader-elect-renew-deadline ({:?})",
            terms.duration,
            terms.renew_deadline
        );
        anyhow::ensure!(
            terms.renew_deadline > terms.retry_period,
            "--leader-elect-renew-deadline ({:?}) must be longer than --leader-elect-retry-period ({:?})",
            terms.renew_deadline,
            terms.retry_period
        );
        Ok(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_writes_them() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(time(text).ok(), expected.map(Duration::from_millis), "{text}");
        };
        check("15s", Some(15_000));
        check("500ms", Some(500));
        check("1m30s", Some(90_000));
        check("1.5s", Some(1_500));
        check("15", None);
        check("-1s", None);
        check("0s", None);
        check("2h", None);
        check("soon", None);
    }
}
