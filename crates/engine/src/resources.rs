//! Integer resource arithmetic over dense dimensions.
//!
//! A dimension is a resource name with a small index, chosen when the name is first seen. Amounts are exact integers:
//! milli-units for cpu, whole units (bytes, pods, devices) for everything else.

use crate::mutants::mutant;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Resources as they cross the engine's border: name → amount in the engine's units.
pub type Resources = std::collections::BTreeMap<Arc<str>, i64>;

/// No amount is larger than this (1 PiB, or a thousand billion cores): sums of thousands of them stay far from overflow.
/// What asks for more than that fits nowhere anyway.
pub(crate) const AMOUNT_MAX: i64 = 1 << 50;

/// Limits of queues are sums over many nodes, and are not summed up further.
const LIMIT_MAX: i64 = 1 << 61;

/// Index of a resource dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DimId(pub u16);

/// cpu, in milli-cores.
pub(crate) const CPU: DimId = DimId(0);
/// memory, in bytes.
pub(crate) const MEMORY: DimId = DimId(1);
/// pods, counted.
pub(crate) const PODS: DimId = DimId(2);

/// All names past the bound on dimensions.
const OTHER: DimId = DimId(1023);

impl DimId {
    /// The column's number.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The dimensions known so far. They are only ever added.
#[derive(Clone, Debug)]
pub(crate) struct Dims {
    names: Vec<Arc<str>>,
    index: FxHashMap<Arc<str>, DimId>,
}

impl Default for Dims {
    fn default() -> Self {
        let mut dims = Dims {
            names: Vec::new(),
            index: FxHashMap::default(),
        };
        for name in ["cpu", "memory", "pods"] {
            dims.intern(name);
        }
        dims
    }
}

impl Dims {
    /// The dimension of this name, added if it is new. Resource names come from pods, so their number is bounded: past
    /// the bound all new names share one dimension that no node offers, and what asks for it waits.
    pub(crate) fn intern(&mut self, name: &str) -> DimId {
        if let Some(&dim) = self.index.get(name) {
            return dim;
        }
        if self.names.len() > OTHER.index() {
            return OTHER;
        }
        let dim = DimId(self.names.len() as u16);
        let name = if dim == OTHER { "other" } else { name };
        let name: Arc<str> = Arc::from(name);
        self.names.push(name.clone());
        self.index.insert(name, dim);
        dim
    }

    /// The dimension of this name, if it is known.
    pub(crate) fn find(&self, name: &str) -> Option<DimId> {
        self.index.get(name).copied()
    }

    /// The name of a dimension.
    pub(crate) fn name(&self, dim: DimId) -> &Arc<str> {
        &self.names[dim.index()]
    }

    /// How many dimensions there are.
    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// Turns named resources into amounts; negative amounts count as zero, huge ones as [`AMOUNT_MAX`].
    pub(crate) fn amounts(&mut self, resources: &Resources) -> Amounts {
        self.clamped(resources, AMOUNT_MAX)
    }

    /// As [`Dims::amounts`], for what a queue may have.
    pub(crate) fn limits(&mut self, resources: &Resources) -> Amounts {
        self.clamped(resources, LIMIT_MAX)
    }

    fn clamped(&mut self, resources: &Resources, max: i64) -> Amounts {
        let pairs = resources
            .iter()
            .map(|(name, &amount)| (self.intern(name), amount.clamp(0, max)));
        Amounts::from_pairs(pairs)
    }

    /// As [`Dims::amounts`], for what a node offers.
    pub(crate) fn offers(&mut self, resources: &Resources) -> Amounts {
        let mut amounts = self.amounts(resources);
        amounts.0.retain(|&mut (dim, _)| dim != OTHER);
        amounts
    }

    /// Turns amounts back into named resources.
    pub(crate) fn resources(&self, amounts: &Amounts) -> Resources {
        amounts
            .iter()
            .map(|(dim, amount)| (self.name(dim).clone(), amount))
            .collect()
    }
}

/// A sparse vector: the dimensions that are set, in order. An absent dimension is *unset*; where that means zero the
/// reader says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Amounts(SmallVec<[(DimId, i64); 4]>);

impl Amounts {
    /// Builds from pairs in any order; equal dimensions are added up.
    pub(crate) fn from_pairs(pairs: impl IntoIterator<Item = (DimId, i64)>) -> Self {
        let mut amounts = Amounts::default();
        for (dim, amount) in pairs {
            match amounts.0.binary_search_by_key(&dim, |&(d, _)| d) {
                Ok(at) => amounts.0[at].1 = amounts.0[at].1.saturating_add(amount),
                Err(at) => amounts.0.insert(at, (dim, amount)),
            }
        }
        amounts
    }

    /// Without the dimensions whose amount is zero.
    #[must_use]
    pub(crate) fn non_zero(mut self) -> Self {
        self.0.retain(|&mut (_, amount)| amount != 0);
        self
    }

    /// The dimensions that are set, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DimId, i64)> + '_ {
        self.0.iter().copied()
    }

    /// The amount of one dimension, if set.
    pub(crate) fn get(&self, dim: DimId) -> Option<i64> {
        self.0
            .binary_search_by_key(&dim, |&(d, _)| d)
            .ok()
            .map(|at| self.0[at].1)
    }

    /// True when nothing but `pods` is asked for: a best-effort pod.
    pub(crate) fn is_best_effort(&self) -> bool {
        self.0.iter().all(|&(dim, amount)| dim == PODS || amount <= 0)
    }
}

/// A table of amounts: one column per dimension, one row per object (node, job or queue). A dimension that has no
/// column yet reads as zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    rows: usize,
    columns: Vec<Vec<i64>>,
}

impl Columns {
    /// Makes room for this many rows and dimensions.
    pub(crate) fn reserve(&mut self, rows: usize, dims: usize) {
        self.rows = self.rows.max(rows);
        if self.columns.len() < dims {
            self.columns.resize_with(dims, Vec::new);
        }
        for column in &mut self.columns {
            column.resize(self.rows, 0);
        }
    }

    /// One cell.
    pub(crate) fn get(&self, row: usize, dim: DimId) -> i64 {
        self.columns.get(dim.index()).map_or(0, |column| column[row])
    }

    /// Adds to a row. Wraps on overflow, so that adding and taking away are exact inverses whatever came from outside;
    /// [`AMOUNT_MAX`] keeps real sums away from the edge.
    pub(crate) fn add(&mut self, row: usize, amounts: &Amounts) {
        self.shift(row, amounts, 1);
    }

    /// Takes away from a row; the exact inverse of [`Columns::add`].
    pub(crate) fn sub(&mut self, row: usize, amounts: &Amounts) {
        self.shift(row, amounts, -1);
    }

    /// Adds `sign` (1 or −1) times the amounts.
    pub(crate) fn shift(&mut self, row: usize, amounts: &Amounts, sign: i64) {
        for &(dim, amount) in &amounts.0 {
            let cell = &mut self.columns[dim.index()][row];
            *cell = cell.wrapping_add(amount.wrapping_mul(sign));
        }
    }

    /// Adds to one cell; wraps as [`Columns::add`] does.
    pub(crate) fn shift_cell(&mut self, row: usize, dim: DimId, amount: i64) {
        let cell = &mut self.columns[dim.index()][row];
        *cell = cell.wrapping_add(amount);
    }

    /// Sets one cell.
    pub(crate) fn set(&mut self, row: usize, dim: DimId, amount: i64) {
        self.columns[dim.index()][row] = amount;
    }

    /// Whether a row has at least these amounts. Only the dimensions that are asked for count: a node that is
    /// over-committed in memory still takes a pod that asks for none.
    pub(crate) fn fits(&self, row: usize, amounts: &Amounts) -> bool {
        mutant!(IgnoreRoom) || amounts.0.iter().all(|&(dim, amount)| amount <= self.get(row, dim))
    }

    /// How often these amounts fit into a row.
    pub(crate) fn times(&self, row: usize, amounts: &Amounts) -> u32 {
        let times = |&(dim, amount): &(DimId, i64)| self.get(row, dim).max(0) / amount.max(1);
        let least = amounts.0.iter().map(times).min().unwrap_or(0);
        u32::try_from(least).unwrap_or(u32::MAX)
    }

    /// Sets everything to zero.
    pub(crate) fn clear(&mut self) {
        self.fill(0);
    }

    /// Sets every cell.
    pub(crate) fn fill(&mut self, amount: i64) {
        for column in &mut self.columns {
            column.fill(amount);
        }
    }

    /// Adds one row of another table to a row of this one.
    pub(crate) fn add_row(&mut self, row: usize, other: &Columns, other_row: usize) {
        for (column, theirs) in self.columns.iter_mut().zip(&other.columns) {
            column[row] = column[row].wrapping_add(theirs[other_row]);
        }
    }

    /// Takes one row of another table away from a row of this one.
    pub(crate) fn sub_row(&mut self, row: usize, other: &Columns, other_row: usize) {
        for (column, theirs) in self.columns.iter_mut().zip(&other.columns) {
            column[row] = column[row].wrapping_sub(theirs[other_row]);
        }
    }

    /// The set (non-zero) cells of a row.
    pub(crate) fn row(&self, row: usize) -> Amounts {
        Amounts(
            self.columns
                .iter()
                .enumerate()
                .map(|(dim, column)| (DimId(dim as u16), column[row]))
                .filter(|&(_, amount)| amount != 0)
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amounts() -> impl Strategy<Value = Amounts> {
        prop::collection::vec((0u16..5, 0..=AMOUNT_MAX), 0..6)
            .prop_map(|pairs| Amounts::from_pairs(pairs.into_iter().map(|(dim, amount)| (DimId(dim), amount))))
    }

    proptest! {
        #[test]
        fn sub_is_the_inverse_of_add(list in prop::collection::vec(amounts(), 0..20)) {
            let mut columns = Columns::default();
            columns.reserve(3, 5);
            let before = columns.clone();
            for a in &list { columns.add(1, a); }
            for a in list.iter().rev() { columns.sub(1, a); }
            prop_assert_eq!(columns, before);
        }

        #[test]
        fn what_was_added_fits(a in amounts(), b in amounts()) {
            let mut columns = Columns::default();
            columns.reserve(1, 5);
            columns.add(0, &a);
            columns.add(0, &b);
            prop_assert!(columns.fits(0, &a) && columns.fits(0, &b));
            columns.sub(0, &a);
            prop_assert!(columns.fits(0, &b));
        }
    }

    #[test]
    fn only_requested_dimensions_count() {
        let mut columns = Columns::default();
        columns.reserve(1, 3);
        columns.add(0, &Amounts::from_pairs([(CPU, 1000)]));
        columns.sub(0, &Amounts::from_pairs([(MEMORY, 5)]));
        assert!(columns.fits(0, &Amounts::from_pairs([(CPU, 1000)])));
        assert!(!columns.fits(0, &Amounts::from_pairs([(CPU, 1000), (MEMORY, 1)])));
        assert!(
            !columns.fits(0, &Amounts::from_pairs([(DimId(9), 1)])),
            "a dimension nobody offers"
        );
    }
}
