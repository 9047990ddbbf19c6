//! Amounts of resources as whole numbers, and the table of their names.

use std::collections::BTreeMap;

use basalt_api::quantity::{Format, Quantity, ResourceList};

/// A name of a resource as a small number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dimension(u32);

/// No amount counts for more: the sum over 2,000 nodes of this size still fits, and sums are held at the largest number.
const EACH_MAX: i64 = 1 << 52;
/// Nobody asks for more: that is compared with sums, and never added to another.
const ASK_MAX: i64 = 1 << 62;

/// The names of all resources that were met.
#[derive(Clone, Debug, Default)]
pub struct Dimensions {
    names: Vec<String>,
    known: BTreeMap<String, Dimension>,
}

impl Dimensions {
    /// The dimension of that name, which is entered if it is new.
    pub fn enter(&mut self, name: &str) -> Dimension {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        let dimension = Dimension(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(name.to_owned());
        self.known.insert(name.to_owned(), dimension);
        dimension
    }

    /// The dimension of that name; nothing where nobody offers it or asks for it.
    pub fn find(&self, name: &str) -> Option<Dimension> {
        self.known.get(name).copied()
    }

    /// The dimensions of these names, each as [`Dimensions::find`] has it.
    pub fn find_all(&self, names: impl Iterator<Item = impl AsRef<str>>) -> Vec<Option<Dimension>> {
        names.map(|name| self.find(name.as_ref())).collect()
    }

    /// Its name.
    pub fn name(&self, dimension: Dimension) -> &str {
        let place = usize::try_from(dimension.0).unwrap_or(usize::MAX);
        self.names.get(place).map_or("", String::as_str)
    }

    /// What a node offers, or a pod asks for. What is offered is rounded down, what is asked for up.
    pub fn row(&mut self, list: &ResourceList, offered: bool) -> Row {
        let mut amounts: Vec<(Dimension, i64)> = list
            .iter()
            .map(|(name, quantity)| (self.enter(name), whole(name, *quantity, !offered)))
            .filter(|(_, amount)| *amount != 0)
            .collect();
        amounts.sort_unstable();
        Row(amounts)
    }

    /// The amounts of a row as quantities, by name.
    pub fn list(&self, row: &Row) -> ResourceList {
        let each = row.0.iter().map(|(dimension, amount)| {
            let name = self.name(*dimension);
            (name.to_owned(), quantity(name, *amount))
        });
        each.collect()
    }
}

/// Thousandths of a core, and whole units of everything else.
pub fn whole(name: &str, quantity: Quantity, up: bool) -> i64 {
    within(name, quantity, up, EACH_MAX)
}

/// The same for all that a queue asks for: many nodes together may be more than any one.
pub fn asked(name: &str, quantity: Quantity) -> i64 {
    within(name, quantity, true, ASK_MAX)
}

fn within(name: &str, quantity: Quantity, up: bool, most: i64) -> i64 {
    let unit: i128 = if name == "cpu" { 1_000_000 } else { 1_000_000_000 };
    let nano = quantity.nano();
    let down = nano.div_euclid(unit);
    let amount = down.saturating_add(i128::from(up && nano.rem_euclid(unit) != 0));
    let amount = amount.clamp(-i128::from(most), i128::from(most));
    i64::try_from(amount).unwrap_or(most)
}

/// The way back.
pub fn quantity(name: &str, amount: i64) -> Quantity {
    if name == "cpu" {
        return Quantity::from_milli(amount);
    }
    let bytes = name == "memory" || name == "ephemeral-storage" || name.starts_with("hugepages-");
    let format = if bytes { Format::BinarySi } else { Format::DecimalSi };
    Quantity::from_units(amount, format)
}

/// Amounts by dimension, in order; those that are not named are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row(Vec<(Dimension, i64)>);

impl Row {
    /// One amount.
    pub fn get(&self, dimension: Option<Dimension>) -> i64 {
        let place = dimension.and_then(|dimension| self.0.binary_search_by_key(&dimension, |entry| entry.0).ok());
        place.and_then(|place| self.0.get(place)).map_or(0, |entry| entry.1)
    }

    /// Sets one amount.
    pub fn set(&mut self, dimension: Dimension, amount: i64) {
        match self.0.binary_search_by_key(&dimension, |entry| entry.0) {
            Ok(place) if amount == 0 => drop(self.0.remove(place)),
            Ok(place) => {
                if let Some(entry) = self.0.get_mut(place) {
                    entry.1 = amount;
                }
            }
            Err(_) if amount == 0 => {}
            Err(place) => self.0.insert(place, (dimension, amount)),
        }
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Row) {
        for (dimension, amount) in &other.0 {
            let sum = self.get(Some(*dimension)).saturating_add(*amount);
            self.set(*dimension, sum);
        }
    }

    /// Takes away what was added.
    pub fn subtract(&mut self, other: &Row) {
        for (dimension, amount) in &other.0 {
            let rest = self.get(Some(*dimension)).saturating_sub(*amount);
            self.set(*dimension, rest);
        }
    }

    /// All amounts that are not 0.
    pub fn iter(&self) -> impl Iterator<Item = (Dimension, i64)> {
        self.0.iter().copied()
    }

    /// The same amounts, none of them below 0.
    #[must_use]
    pub fn not_negative(mut self) -> Self {
        self.0.retain(|(_, amount)| *amount > 0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_whole_numbers() {
        let check = |name: &str, text: &str, up: bool, expected: i64| {
            let quantity = Quantity::parse(text).expect("a quantity");
            assert_eq!(whole(name, quantity, up), expected, "{name} {text}");
        };
        check("cpu", "2", true, 2_000);
        check("cpu", "1500u", true, 2);
        check("cpu", "1500u", false, 1);
        check("memory", "1Ki", true, 1_024);
        check("memory", "100m", true, 1);
        check("memory", "100m", false, 0);
        check("nvidia.com/gpu", "8", true, 8);
        check("memory", "999E", false, EACH_MAX);
        let asks = |text: &str| asked("memory", Quantity::parse(text).expect("a quantity"));
        assert_eq!([asks("6Pi"), asks("999E")], [6 << 50, ASK_MAX]);
        assert_eq!(quantity("memory", 1 << 30).to_string(), "1Gi");
        assert_eq!(quantity("cpu", 1_500).to_string(), "1500m");
        assert_eq!(quantity("nvidia.com/gpu", 8).to_string(), "8");
    }

    #[test]
    fn rows_add_up_and_down() {
        let mut names = Dimensions::default();
        let mut row = |cpu: &str, memory: &str| {
            let list = [("cpu", cpu), ("memory", memory)];
            let list = list.map(|(name, text)| (name.to_owned(), Quantity::parse(text).expect("a quantity")));
            names.row(&list.into(), false)
        };
        let (a, b) = (row("1", "0"), row("2", "5"));
        let mut sum = a.clone();
        sum.add(&b);
        assert_eq!(sum.iter().map(|(_, amount)| amount).collect::<Vec<_>>(), [3_000, 5]);
        sum.subtract(&b);
        assert_eq!(sum, a);
        sum.subtract(&b);
        assert_eq!(sum.not_negative(), Row::default());
        assert_eq!(names.list(&b).len(), 2);
    }
}
