//! What pods use, counted as a resource quota counts it: that is what `minResources` holds.

use basalt_api::quantity::{Format, Quantity, ResourceList};
use basalt_api::slim::{PodSpec, limit, request};

/// Usage of one pod: `cpu` and `requests.cpu` (memory and storage alike), `limits.cpu`, `pods`,
/// `count/pods`, and extended resources both bare and as requests.
pub(crate) fn of_pod(spec: &PodSpec) -> ResourceList {
    let one = Quantity::from_units(1, Format::DecimalSi);
    let mut usage = ResourceList::from([("pods".to_owned(), one), ("count/pods".to_owned(), one)]);
    for (name, amount) in request(spec) {
        usage.insert(format!("requests.{name}"), amount);
        usage.insert(name, amount);
    }
    for (name, amount) in limit(spec) {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(format!("limits.{name}"), amount);
        }
    }
    usage
}

/// Adds `count` times `usage`; what is too much to count stays at the largest amount there is.
pub(crate) fn add(sum: &mut ResourceList, usage: &ResourceList, count: u64) {
    if count == 0 {
        return;
    }
    for (name, amount) in usage {
        let many = amount.saturating_mul(count);
        let entry = sum.entry(name.clone()).or_insert(Quantity::ZERO);
        *entry = entry.saturating_add(many);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_counted_is_the_largest_amount_and_not_that_of_one_pod() {
        let largest = Quantity::parse("100000000000000000000000000000").expect("10^29");
        let pod = Quantity::parse("100E").expect("a quantity");
        let mut sum = ResourceList::new();
        add(&mut sum, &ResourceList::from([("cpu".to_owned(), pod)]), 3);
        assert_eq!(sum["cpu"], Quantity::parse("300E").expect("a quantity"));
        add(&mut sum, &ResourceList::from([("cpu".to_owned(), pod)]), u64::MAX);
        assert_eq!(sum["cpu"], largest);
    }
}
