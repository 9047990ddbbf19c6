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
