//! Sums of resources that can be taken back exactly.

use std::collections::BTreeMap;

use basalt_api::quantity::ResourceList;

/// Billionths by resource.
pub(super) type Amounts = BTreeMap<String, i128>;

/// No amount counts for more: 100,000 of them add up without leaving the type.
const EACH_MAX: i128 = 10_i128.pow(33);

/// The amounts of a list.
pub(super) fn amounts(list: &ResourceList) -> Amounts {
    list.iter()
        .map(|(name, quantity)| (name.clone(), quantity.nano().clamp(-EACH_MAX, EACH_MAX)))
        .collect()
}

/// Adds to a sum.
pub(super) fn sum_up(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let total = sum.entry(name.clone()).or_default();
        *total = total.saturating_add(*amount);
    }
}

/// Takes back from a sum what was added to it.
pub(super) fn subtract(sum: &mut Amounts, less: &Amounts) {
    for (name, amount) in less {
        if let Some(total) = sum.get_mut(name) {
            *total = total.saturating_sub(*amount);
            if *total == 0 {
                sum.remove(name);
            }
        }
    }
}
