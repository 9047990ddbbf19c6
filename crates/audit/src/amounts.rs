//! Amounts by dimension, dense: what pods ask for and nodes offer, added up.

use std::collections::BTreeMap;

use crate::quantity::Nano;

/// A dimension: an index into the names that a world has met.
pub(crate) type Dim = usize;

/// The dimension of milli-cpu is always there first …
pub(crate) const CPU: Dim = 0;
/// … and that of pods second.
pub(crate) const PODS: Dim = 1;

/// One unit.
pub(crate) const ONE: Nano = 1_000_000_000;

/// What is written in a list of resources: only the dimensions that stand there.
pub(crate) type Written = BTreeMap<Dim, Nano>;

/// The finest step in which the scheduler counts: a thousandth of a cpu, one of everything else.
pub(crate) fn step(dim: Dim) -> Nano {
    if dim == CPU { ONE / 1_000 } else { ONE }
}

/// Amounts in every dimension; what is not there is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts(Vec<Nano>);

impl Amounts {
    /// The amount in one dimension.
    pub(crate) fn get(&self, dim: Dim) -> Nano {
        self.0.get(dim).copied().unwrap_or(0)
    }

    fn cell(&mut self, dim: Dim) -> &mut Nano {
        if self.0.len() <= dim {
            self.0.resize(dim + 1, 0);
        }
        &mut self.0[dim]
    }

    /// Puts an amount in the place of what is there.
    pub(crate) fn set(&mut self, dim: Dim, amount: Nano) {
        *self.cell(dim) = amount;
    }

    /// Adds in one dimension.
    pub(crate) fn grow(&mut self, dim: Dim, by: Nano) {
        let cell = self.cell(dim);
        *cell = cell.saturating_add(by);
    }

    /// Adds a request.
    pub(crate) fn take(&mut self, request: &[(Dim, Nano)]) {
        for &(dim, amount) in request {
            self.grow(dim, amount);
        }
    }

    /// Adds up.
    pub(crate) fn add(&mut self, other: &Amounts) {
        for (dim, &amount) in other.0.iter().enumerate() {
            self.grow(dim, amount);
        }
    }

    /// Dimensions and amounts that are not zero.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Dim, Nano)> {
        self.0.iter().copied().enumerate().filter(|(_, amount)| *amount != 0)
    }
}
