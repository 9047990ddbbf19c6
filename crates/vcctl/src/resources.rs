//! Resource lists as flags write them: `cpu=1000m,memory=100Mi`.

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

/// A resource list of an object on one line: `cpu=4,memory=8Gi`.
pub(crate) fn show(list: &Value) -> String {
    let Some(list) = list.as_object() else {
        return String::new();
    };
    let mut parts: Vec<String> = list
        .iter()
        .map(|(name, amount)| match amount {
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        })
        .collect();
    parts.sort();
    parts.join(",")
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
        assert_eq!(show(&Value::Null), "");
        for bad in ["cpu", "cpu=", "=1", "cpu=2c", "cpu=1,cpu=2"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
