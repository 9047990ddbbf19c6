//! What nodes are to a queue that has nothing on them: the same for all such queues, so it is worked out once a round.

use smallvec::SmallVec;

use super::ask::Ask;
use super::site::{Family, QueueNumber, Site};
use super::{Candidate, Dimension, Dimensions};

/// So many are kept, however many different things are asked for: each holds all nodes.
const KEPT_MAX: usize = 8;

/// All nodes by one way to look at them.
#[derive(Debug)]
struct Outlook {
    evicts: bool,
    dimensions: Vec<Option<Dimension>>,
    /// By place.
    nodes: Vec<Candidate>,
}

/// The ways in which the nodes are looked at in a round.
#[derive(Debug)]
pub struct Outlooks {
    kept: Vec<Outlook>,
    /// By place: whose pods stand there.
    queues: Vec<SmallVec<[QueueNumber; 4]>>,
}

impl Outlooks {
    /// What the asks of a round have in common.
    pub fn of_asks<'a>(asks: impl Iterator<Item = &'a Ask>, sites: &[&Site], dimensions: &Dimensions) -> Self {
        let mut wanted: Vec<(bool, Vec<Option<Dimension>>, usize)> = Vec::new();
        for ask in asks {
            let resource =
                (!ask.resource.is_empty()).then(|| dimensions.find_all(ask.resource.iter().map(|(name, _)| name)));
            let share = ask
                .share
                .as_ref()
                .map(|share| dimensions.find_all(share.dimensions.iter()));
            for names in resource.into_iter().chain(share) {
                let same = |known: &&mut (bool, Vec<_>, usize)| known.0 == ask.evicts && known.1 == names;
                if let Some((_, _, times)) = wanted.iter_mut().find(same) {
                    *times = times.saturating_add(1);
                } else if wanted.len() < KEPT_MAX {
                    wanted.push((ask.evicts, names, 1));
                }
            }
        }
        let nobody = Family::default();
        let often = wanted.into_iter().filter(|(_, _, times)| *times > 1);
        let kept = often.map(|(evicts, dimensions, _)| Outlook {
            nodes: sites
                .iter()
                .map(|site| site.figures(&nobody, evicts, &dimensions))
                .collect(),
            evicts,
            dimensions,
        });
        Self {
            kept: kept.collect(),
            queues: sites.iter().map(|site| site.queues().collect()).collect(),
        }
    }

    /// All nodes by place, as nobody's; nothing where this way was not worth keeping.
    pub fn of(&self, evicts: bool, dimensions: &[Option<Dimension>]) -> Option<&[Candidate]> {
        let same = |outlook: &&Outlook| outlook.evicts == evicts && outlook.dimensions == dimensions;
        self.kept.iter().find(same).map(|outlook| outlook.nodes.as_slice())
    }

    /// Whether a queue of `family` has pods on the node, or is to have.
    pub fn is_on(&self, family: &Family, place: usize) -> bool {
        let queues = self.queues.get(place);
        queues.is_some_and(|queues| queues.iter().any(|queue| family.has(*queue)))
    }
}
