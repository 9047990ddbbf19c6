//! What is told of a decision: numbers, and where the queue stands.

use basalt_api::queue::Reservation;

use super::ask::Ask;
use super::choose::{Choice, Kind, Lack, shortage};
use super::row::{Dimensions, Row, quantity};
use super::site::{Family, Holding, Site};

/// What a round decided for one queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What is to be written; nothing: nothing is reserved.
    pub reservation: Option<Reservation>,
    /// Where the queue stands.
    pub outlook: Option<Outlook>,
}

impl Decision {
    /// The nodes that are to be locked; nothing where nothing is reserved.
    pub fn nodes(&self) -> Option<&[String]> {
        self.reservation
            .as_ref()
            .map(|reservation| reservation.nodes.as_slice())
    }

    /// By what they were chosen.
    pub fn kind(&self) -> Kind {
        self.outlook.as_ref().map_or(Kind::Resource, |outlook| outlook.kind)
    }
}

/// Where a queue stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// In one word.
    pub stand: Stand,
    /// In one sentence, with numbers.
    pub message: String,
    /// Pods that have not begun to leave although some of them must; 0 where those that are leaving are enough.
    pub staying: u32,
    /// By what the nodes were chosen.
    pub kind: Kind,
}

/// Where a queue stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// All that was asked for is there.
    Met,
    /// Pods of others must end.
    WaitingForPods,
    /// Pods of others are evicted.
    Evicting,
    /// The nodes that it may have are not enough.
    NoSetReachesTarget,
    /// Its share is less than one node.
    PercentageTooSmall,
    /// All nodes together are not enough.
    ClusterTooSmall,
}

impl Stand {
    /// The word as it is written.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Met => "Met",
            Self::WaitingForPods => "WaitingForPods",
            Self::Evicting => "Evicting",
            Self::NoSetReachesTarget => "NoSetReachesTarget",
            Self::PercentageTooSmall => "PercentageTooSmall",
            Self::ClusterTooSmall => "ClusterTooSmall",
        }
    }
}

/// `1 node`, `2 nodes`.
fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Puts a choice into words and numbers; `nodes` are those that may be written now.
pub(super) fn report(
    ask: &Ask,
    choice: &Choice,
    nodes: &[(&str, &Site)],
    family: &Family,
    dimensions: &Dimensions,
) -> Decision {
    let each: Vec<Holding> = nodes.iter().map(|(_, site)| site.holding(family, ask.evicts)).collect();
    let mut sum = Holding::default();
    for holding in &each {
        sum.worth.add(&holding.worth);
        sum.used.add(&holding.used);
        sum.idle.add(&holding.idle);
        sum.foreign = sum.foreign.saturating_add(holding.foreign);
        sum.staying = sum.staying.saturating_add(holding.staying);
        sum.freed.add(&holding.freed);
    }
    let target: Vec<(&str, i64)> = match (choice.kind, &ask.share) {
        (Kind::Share, Some(share)) => {
            let names = share.dimensions.iter().map(String::as_str);
            names.map(|name| (name, sum.worth.get(dimensions.find(name)))).collect()
        }
        _ => ask
            .resource
            .iter()
            .map(|(name, amount)| (name.as_str(), *amount))
            .collect(),
    };
    let mut ready: Row = sum.idle.clone();
    ready.add(&sum.used);
    let all: Vec<(String, i64, i64)> = target
        .iter()
        .map(|(name, needs)| ((*name).to_owned(), ready.get(dimensions.find(name)), *needs))
        .collect();
    // Only as many pods go as are in the way: those that may stay hold up nobody.
    let blocking = all
        .iter()
        .any(|(name, has, needs)| has.saturating_add(sum.freed.get(dimensions.find(name))) < *needs);
    let busy = each.iter().filter(|holding| holding.foreign > 0).count();
    let (stand, message) = stand(ask, choice, &all, &sum, (nodes.len(), busy));
    let amounts = target
        .iter()
        .map(|(name, amount)| ((*name).to_owned(), quantity(name, *amount)));
    let reservation = Reservation {
        nodes: nodes.iter().map(|(name, _)| (*name).to_owned()).collect(),
        resource: dimensions.list(&sum.idle),
        used: dimensions.list(&sum.used),
        target: amounts.collect(),
        waiting_for: if stand == Stand::Met {
            0
        } else {
            i32::try_from(sum.foreign).unwrap_or(i32::MAX)
        },
    };
    Decision {
        reservation: Some(reservation),
        outlook: Some(Outlook {
            stand,
            message,
            staying: if blocking { sum.staying } else { 0 },
            kind: choice.kind,
        }),
    }
}

fn stand(
    ask: &Ask,
    choice: &Choice,
    all: &[(String, i64, i64)],
    sum: &Holding,
    (nodes, busy): (usize, usize),
) -> (Stand, String) {
    let kept = match nodes {
        0 => String::new(),
        nodes => format!("; {} stay locked", count(nodes, "node")),
    };
    match &choice.lack {
        Some(Lack::Cluster(lack)) => {
            let message = format!(
                "the nodes that can serve the queue offer {} in all{kept}",
                shortage(lack)
            );
            return (Stand::ClusterTooSmall, message);
        }
        Some(Lack::Free(lack)) => {
            let lack = match lack.as_slice() {
                [] => "no more nodes than it has".to_owned(),
                lack => shortage(lack),
            };
            let message = format!("the nodes that the queue may lock now come to {lack}{kept}");
            return (Stand::NoSetReachesTarget, message);
        }
        Some(Lack::Percentage(all)) => {
            let value = ask
                .share
                .as_ref()
                .map(|share| share.value.to_string())
                .unwrap_or_default();
            let message = format!("{value} of {} is less than one node{kept}", count(*all, "node"));
            return (Stand::PercentageTooSmall, message);
        }
        None => {}
    }
    let short: Vec<(String, i64, i64)> = all.iter().filter(|(_, has, needs)| has < needs).cloned().collect();
    if short.is_empty() {
        let verb = if all.len() == 1 { "is" } else { "are" };
        let message = format!("{} {verb} ready on {}", shortage(all), count(nodes, "node"));
        return (Stand::Met, message);
    }
    let pods = count(usize::try_from(sum.foreign).unwrap_or(usize::MAX), "pod");
    let on = count(busy, "node");
    let missing = shortage(&short);
    if ask.evicts {
        (Stand::Evicting, format!("{missing}, evicting {pods} on {on}"))
    } else {
        (
            Stand::WaitingForPods,
            format!("{missing}, waiting for {pods} to end on {on}"),
        )
    }
}
