//! Resource lists as flags write them: `cpu=1000m,memory=100Mi`.

use std::collections::BTreeMap;

use basalt_api::quantity::Quantity;
use serde_json::{Map, Value};

/// Amounts by resource name, as the API writes them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Resources(pub(crate) Map<String, Value>);

impl std::str::FromStr for Resources {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut list = Map::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((name, amount)) = part.split_once('=') else {
                return Err(format!("{part:?} is not of the form name=amount, for example cpu=500m"));
            };
            let (name, amount) = (name.trim(), amount.trim());
            if name.is_empty() {
                return Err(format!("{part:?} has no resource name"));
            }
            let quantity = Quantity::parse(amount).map_err(|why| format!("{name}: {why}"))?;
            if list.insert(name.to_owned(), quantity.to_string().into()).is_some() {
                return Err(format!("{name} is given twice"));
            }
        }
        Ok(Self(list))
    }
}

impl Resources {
    /// As JSON, or nothing if nothing was given.
    pub(crate) fn json(self) -> Option<Value> {
        (!self.0.is_empty()).then_some(Value::Object(self.0))
    }
}

/// What a flag changes in a resource list: amounts are set, `memory-` takes one away, `none` takes all away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Changes(Option<Map<String, Value>>);

impl std::str::FromStr for Changes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(None));
        }
        let parts = text.split(',').map(str::trim);
        let (removed, set): (Vec<&str>, Vec<&str>) = parts.partition(|part| part.ends_with('-') && !part.contains('='));
        let Resources(mut changes) = set.join(",").parse()?;
        for name in removed {
            let name = name.trim_end_matches('-');
            if name.is_empty() || changes.insert(name.to_owned(), Value::Null).is_some() {
                return Err(format!("{text:?} names {name:?} twice, or nothing"));
            }
        }
        if changes.is_empty() {
            return Err(
                "nothing is given; cpu=64,memory=256Gi sets, memory- takes away, none takes all away".to_owned(),
            );
        }
        Ok(Self(Some(changes)))
    }
}

impl Changes {
    /// As a merge patch of the list.
    pub(crate) fn patch(self) -> Value {
        self.0.map_or(Value::Null, Value::Object)
    }
}

/// An amount of an object's resource list, if it is there and makes sense.
pub(crate) fn amount(list: &Value, resource: &str) -> Option<Quantity> {
    match list.get(resource)? {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// A resource list of an object with each amount in its canonical spelling; what makes no sense stays as it is.
pub(crate) fn canonical(list: &Value) -> Value {
    let Some(entries) = list.as_object() else {
        return Value::Object(Map::new());
    };
    let one = |(name, raw): (&String, &Value)| {
        let amount = amount(list, name).map_or_else(|| raw.clone(), |amount| amount.to_string().into());
        (name.clone(), amount)
    };
    Value::Object(entries.iter().map(one).collect())
}

/// A resource list of an object on one line: `cpu=4,memory=8Gi`.
pub(crate) fn show(list: &Value) -> String {
    let list = canonical(list);
    let mut parts: Vec<String> = list
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, amount)| match amount {
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        })
        .collect();
    parts.sort();
    parts.join(",")
}

/// The sum of resource lists.
pub(crate) fn sum<'a>(lists: impl IntoIterator<Item = &'a Value>) -> Value {
    let mut sums: BTreeMap<&str, Quantity> = BTreeMap::new();
    for list in lists {
        for name in list.as_object().into_iter().flat_map(Map::keys) {
            let Some(more) = amount(list, name) else { continue };
            let sum = sums.get(name.as_str()).map_or(more, |sum| sum.saturating_add(more));
            sums.insert(name, sum);
        }
    }
    let entries = sums
        .into_iter()
        .map(|(name, sum)| (name.to_owned(), sum.to_string().into()));
    Value::Object(entries.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_are_read_and_shown() {
        let read = |text: &str| text.parse::<Resources>();
        assert_eq!(read("").unwrap().json(), None);
        let list = read("cpu=1000m, memory=0.5Gi,nvidia.com/gpu=1")
            .unwrap()
            .json()
            .unwrap();
        assert_eq!(list, json!({"cpu": "1", "memory": "512Mi", "nvidia.com/gpu": "1"}));
        assert_eq!(show(&list), "cpu=1,memory=512Mi,nvidia.com/gpu=1");
        assert_eq!(show(&json!({"cpu": 4})), "cpu=4");
        assert_eq!(
            show(&json!({"memory": "1024Mi", "cpu": "2000m", "x": "odd", "y": null})),
            "cpu=2,memory=1Gi,x=odd,y=null"
        );
        assert_eq!(canonical(&json!("odd")), json!({}));
        let lists = [
            json!({"cpu": "1500m", "x": "odd"}),
            Value::Null,
            json!({"cpu": "500m", "memory": "1Gi"}),
        ];
        assert_eq!(sum(&lists), json!({"cpu": "2", "memory": "1Gi"}));
        assert_eq!(show(&Value::Null), "");
        assert_eq!(amount(&list, "cpu").map(Quantity::nano), Some(1_000_000_000));
        assert_eq!(
            amount(&json!({"cpu": 4}), "cpu").map(|q| q.to_string()).as_deref(),
            Some("4")
        );
        assert_eq!(amount(&json!({"cpu": "x"}), "cpu"), None);
        assert_eq!(amount(&Value::Null, "cpu"), None);
        for bad in ["cpu", "cpu=", "=1", "cpu=2c", "cpu=1,cpu=2"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn changes_are_merge_patches() {
        let read = |text: &str| text.parse::<Changes>().map(Changes::patch);
        assert_eq!(read("cpu=2000m").unwrap(), json!({"cpu": "2"}));
        assert_eq!(read("cpu=2,memory-").unwrap(), json!({"cpu": "2", "memory": null}));
        assert_eq!(read("none").unwrap(), Value::Null);
        for bad in ["", ",", "-", "cpu=1,cpu-", "cpu-,cpu-", "cpu=-", "cpu=1-", "none,cpu=1"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
