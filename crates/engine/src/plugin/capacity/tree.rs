//! The tree of queues, and what is wrong with it. Only what is wrong waits.

use basalt_api::reason::Code;

use super::super::Refusal;
use crate::model::{Id, Queue, QueueId, ROOT};
use crate::mutants::mutant;
use crate::resources::{Amounts, DimId};
use crate::session::State;

/// The tree, as this cycle sees it.
#[derive(Default)]
pub(super) struct Tree {
    /// None: queues stand side by side.
    root: Option<QueueId>,
    children: Vec<Vec<QueueId>>,
    /// By queue: why its jobs wait, and whose fault it is.
    damage: Vec<Option<Refusal>>,
}

/// A reason does not name more children of a queue than this.
const NAMED_MAX: usize = 3;

/// What a queue is promised, in one of two ways.
#[derive(Clone, Copy)]
struct Kind {
    word: &'static str,
    of: fn(&Queue) -> &Amounts,
}

const KINDS: [Kind; 2] = [
    Kind {
        word: "deserved",
        of: |queue| &queue.deserved,
    },
    Kind {
        word: "guaranteed",
        of: |queue| &queue.guarantee,
    },
];

impl Tree {
    pub(super) fn of(state: &State, hierarchy: bool) -> Tree {
        let queues = &state.model.queues;
        let mut tree = Tree {
            root: queues.find(ROOT).filter(|_| hierarchy),
            children: vec![Vec::new(); queues.slots()],
            damage: vec![None; queues.slots()],
        };
        if !hierarchy {
            return tree;
        }
        for queue in queues.ids().filter(|&queue| queues[queue].present) {
            if let Some(parent) = queues[queue].parent {
                tree.children[parent.index()].push(queue);
            }
        }
        for siblings in &mut tree.children {
            let age = |&queue: &QueueId| (queues[queue].created_ms, queues.name(queue).clone());
            siblings.sort_by_cached_key(age);
        }
        tree.inspect(state);
        tree
    }

    /// The queue above all others.
    pub(super) fn root(&self) -> Option<QueueId> {
        self.root
    }

    pub(super) fn is_root(&self, queue: QueueId) -> bool {
        self.root == Some(queue)
    }

    /// The queues right below a queue, the oldest first.
    pub(super) fn children(&self, queue: QueueId) -> &[QueueId] {
        &self.children[queue.index()]
    }

    /// Whether there are queues below.
    pub(super) fn is_inner(&self, queue: QueueId) -> bool {
        !self.children.get(queue.index()).is_none_or(Vec::is_empty)
    }

    /// Why the jobs of a queue wait.
    pub(super) fn damage(&self, queue: QueueId) -> Option<&Refusal> {
        let damage = self.damage.get(queue.index())?.as_ref();
        damage.filter(|_| !mutant!(ServeInnerQueues))
    }

    fn inspect(&mut self, state: &State) {
        let model = &state.model;
        let mut too_much: Vec<Option<Refusal>> = vec![None; model.queues.slots()];
        for (kind, promised) in KINDS.into_iter().map(|kind| (kind, self.promised(state, kind))) {
            for queue in model.queues.ids().filter(|&queue| !self.is_root(queue)) {
                self.find_overcommitted(state, kind, &promised, queue, &mut too_much);
            }
        }
        for queue in model.queues.ids() {
            let over = model.chain(queue).iter().find_map(|at| too_much[at.index()].clone());
            self.damage[queue.index()] = self
                .broken(state, queue)
                .or(over)
                .or_else(|| self.misplaced(state, queue));
        }
    }

    /// Why a queue hangs in no tree: a queue above it does not exist, or stands above itself.
    fn broken(&self, state: &State, queue: QueueId) -> Option<Refusal> {
        let queues = &state.model.queues;
        let chain = state.model.chain(queue);
        let lost = |above: &&QueueId| !queues[**above].present && !self.is_root(**above);
        let why = if let Some(&missing) = chain.iter().find(lost) {
            format!("{:?} does not exist", queues.name(missing))
        } else {
            let top = chain.last().copied().filter(|&top| !self.is_root(top));
            let again = queues[top?].parent?;
            format!("{:?} stands above itself", queues.name(again))
        };
        Some(Refusal {
            about: Some(why.into()),
            ..Refusal::of(Code::QueueTreeBroken, queue)
        })
    }

    /// Why work does not belong here: there are queues below, or it is the root.
    fn misplaced(&self, state: &State, queue: QueueId) -> Option<Refusal> {
        let names = self.children(queue).iter().map(|&child| state.model.queues.name(child));
        let mut words: Vec<String> = names.map(|name| format!("{name:?}")).take(NAMED_MAX).collect();
        let more = self.children(queue).len() - words.len();
        if more > 0 {
            words.push(format!("{more} more"));
        }
        let about = (!words.is_empty()).then(|| words.join(", ").into());
        (self.is_inner(queue) || self.is_root(queue)).then(|| Refusal {
            about,
            ..Refusal::of(Code::QueueNotLeaf, queue)
        })
    }

    /// By queue: what it has promised. What it does not say itself is what those below it say.
    fn promised(&self, state: &State, kind: Kind) -> Vec<Amounts> {
        let queues = &state.model.queues;
        let mut promised = vec![Amounts::default(); queues.slots()];
        // From the root, so that nobody is met twice.
        let mut order: Vec<QueueId> = self.root.into_iter().collect();
        let mut at = 0;
        while let Some(&queue) = order.get(at) {
            order.extend(self.children(queue));
            at += 1;
        }
        for queue in order.into_iter().rev() {
            let own = (kind.of)(&queues[queue]);
            let below = self
                .children(queue)
                .iter()
                .flat_map(|child| promised[child.index()].iter());
            let below = below.filter(|&(dim, _)| own.get(dim).is_none());
            promised[queue.index()] = Amounts::from_pairs(own.iter().chain(below));
        }
        promised
    }

    /// Notes the youngest children of a queue, as many as have to wait until the rest together are promised no more than
    /// it is itself. What it does not set is not exceeded.
    fn find_overcommitted(
        &self,
        state: &State,
        kind: Kind,
        promised: &[Amounts],
        parent: QueueId,
        too_much: &mut [Option<Refusal>],
    ) {
        let queues = &state.model.queues;
        let amount = |child: QueueId, dim: DimId| promised[child.index()].get(dim).unwrap_or(0);
        for (dim, most) in (kind.of)(&queues[parent]).iter() {
            let mut left: Vec<QueueId> = self.children(parent).to_vec();
            left.retain(|&child| too_much[child.index()].is_none() && amount(child, dim) > 0);
            let sum = |left: &[QueueId]| {
                left.iter()
                    .fold(0_i64, |sum, &child| sum.saturating_add(amount(child, dim)))
            };
            let mut waiting = Vec::new();
            while sum(&left) > most {
                waiting.extend(left.pop());
            }
            let have = most.saturating_sub(sum(&left));
            for child in waiting {
                let about = format!(
                    "{} {} of {:?}",
                    kind.word,
                    state.model.dims.name(dim),
                    queues.name(parent)
                );
                too_much[child.index()] = Some(Refusal {
                    dim: Some(dim),
                    need: amount(child, dim),
                    have,
                    about: Some(about.into()),
                    ..Refusal::of(Code::QueueOvercommitted, child)
                });
            }
        }
    }
}
