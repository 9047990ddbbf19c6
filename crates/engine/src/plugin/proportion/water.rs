//! Water-filling: a whole is poured into vessels by weight, round by round; what does not fit into one flows to the
//! others. Integers throughout, with a fraction of 2⁻²⁰, so that rounding never shows in whole units.

/// One unit.
const UNIT: i128 = 1 << 20;
/// Rounding loses less than this in all rounds together.
const DUST: i128 = 1 << 10;
/// Nobody waits longer than this for the last drop.
const ROUNDS_MAX: usize = 1000;

/// A queue's vessel; one number per dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Vessel {
    weight: i128,
    /// How much it can use.
    wants: Vec<i128>,
    /// How much it may hold.
    holds: Vec<i128>,
    /// How much it has in any case.
    floor: Vec<i128>,
    /// How much it has been given.
    pub(super) level: Vec<i128>,
    full: bool,
}

fn units(amounts: impl Iterator<Item = i64>) -> Vec<i128> {
    amounts.map(|amount| i128::from(amount) * UNIT).collect()
}

/// A level in whole units, rounded down.
pub(super) fn whole(level: i128) -> i64 {
    i64::try_from((level + DUST) / UNIT).unwrap_or(i64::MAX)
}

/// A level with its fraction.
pub(super) fn exact(level: i128) -> f64 {
    level as f64 / UNIT as f64
}

impl Vessel {
    pub(super) fn new(
        weight: u32,
        wants: impl Iterator<Item = i64>,
        holds: impl Iterator<Item = i64>,
        floor: impl Iterator<Item = i64>,
    ) -> Self {
        let wants = units(wants);
        Vessel {
            weight: i128::from(weight),
            level: vec![0; wants.len()],
            wants,
            holds: units(holds),
            floor: units(floor),
            full: false,
        }
    }

    /// Takes its part of what is left; gives back how its level changed.
    fn pour(&mut self, left: &[i128], weights: i128) -> Vec<i128> {
        let old = self.level.clone();
        for (dim, level) in self.level.iter_mut().enumerate() {
            let part = left[dim] * self.weight / weights;
            let most = self.holds[dim].min(self.wants[dim]);
            *level = (*level + part).min(most).max(self.floor[dim]);
        }
        let satisfied = self.wants.iter().zip(&self.level).all(|(wants, level)| wants <= level);
        self.full = satisfied || self.level == old;
        self.level.iter().zip(&old).map(|(new, old)| new - old).collect()
    }
}

/// Pours the whole into the vessels.
pub(super) fn fill(vessels: &mut [Vessel], whole: impl Iterator<Item = i64>) {
    let mut left = units(whole);
    for _ in 0..ROUNDS_MAX {
        let open = vessels.iter_mut().filter(|vessel| !vessel.full);
        let weights: i128 = open.map(|vessel| vessel.weight).sum();
        if weights == 0 {
            return;
        }
        let before = left.clone();
        for vessel in vessels.iter_mut().filter(|vessel| !vessel.full) {
            let changes = vessel.pour(&before, weights);
            for (left, change) in left.iter_mut().zip(changes) {
                *left -= change;
            }
        }
        for left in &mut left {
            *left = (*left).max(0);
        }
        if left == before || left.iter().all(|&left| left == 0) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Vessel, fill, whole};

    /// A queue: weight, and in each of two dimensions what it asks for, may have, and is guaranteed.
    type Queue = (u32, [i64; 2], [i64; 2], [i64; 2]);

    fn queue() -> impl Strategy<Value = Queue> {
        let amounts = |most: i64| prop::array::uniform2(0..most);
        let limit = prop::array::uniform2(prop_oneof![Just(i64::MAX), 0..60_i64]);
        let guarantee = prop_oneof![2 => Just([0, 0]), 1 => amounts(12)];
        (1..6_u32, amounts(60), limit, guarantee)
    }

    fn dues(queues: &[Queue], total: [i64; 2]) -> Vec<[i64; 2]> {
        let guaranteed = |dim: usize| queues.iter().map(|queue| queue.3[dim]).sum::<i64>();
        let vessel = |&(weight, wants, most, floor): &Queue| {
            let holds = [0, 1].map(|dim| ((total[dim] - guaranteed(dim)).max(0) + floor[dim]).min(most[dim]));
            Vessel::new(weight, wants.into_iter(), holds.into_iter(), floor.into_iter())
        };
        let mut vessels: Vec<Vessel> = queues.iter().map(vessel).collect();
        fill(&mut vessels, total.into_iter());
        vessels
            .iter()
            .map(|vessel| [0, 1].map(|dim| whole(vessel.level[dim])))
            .collect()
    }

    #[test]
    fn one_round_is_weight_by_total() {
        let queue = |weight| (weight, [100, 100], [i64::MAX; 2], [0, 0]);
        assert_eq!(
            dues(&[queue(1), queue(2), queue(5)], [16, 80]),
            [[2, 10], [4, 20], [10, 50]]
        );
    }

    #[test]
    fn thirds_do_not_lose_a_unit() {
        let queue = |wants| (1, [wants, wants], [i64::MAX; 2], [0, 0]);
        assert_eq!(dues(&[queue(9), queue(9), queue(1)], [7, 7]), [[3, 3], [3, 3], [1, 1]]);
    }

    proptest! {
        #[test]
        fn nothing_is_given_twice(mut queues in prop::collection::vec(queue(), 1..7), total in prop::array::uniform2(0..100_i64)) {
            for queue in &mut queues {
                queue.3 = [0, 0];
            }
            for (dim, &total) in total.iter().enumerate() {
                let dues = dues(&queues, [total, total]);
                prop_assert!(dues.iter().map(|due| due[dim]).sum::<i64>() <= total);
                for (due, queue) in dues.iter().zip(&queues) {
                    prop_assert!(due[dim] <= queue.1[dim].min(queue.2[dim]));
                }
            }
        }

        #[test]
        fn a_larger_guarantee_never_lowers_the_due(
            queues in prop::collection::vec(queue(), 1..6),
            total in prop::array::uniform2(0..100_i64),
            more in prop::array::uniform2(0..9_i64),
        ) {
            let before = dues(&queues, total)[0];
            let mut raised = queues;
            raised[0].3 = [0, 1].map(|dim| raised[0].3[dim] + more[dim]);
            let after = dues(&raised, total)[0];
            prop_assert!([0, 1].iter().all(|&dim| after[dim] >= before[dim]), "{before:?} then {after:?}");
        }
    }
}
