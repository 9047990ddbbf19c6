//! Checking an object against a schema, with the words of Kubernetes' own validator.

use super::{Additional, Id, ListType, Node, Schema, Type, path::Path, values};
use crate::field_error::FieldError;
use basalt_api::quantity::Quantity;
use serde_json::{Map, Value};

/// More errors than this help nobody, and an object can hold very many.
const ERRORS_MAX: usize = 100;

impl Schema {
    /// Everything that is wrong with an object, at most 100 findings.
    pub fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.check(self.root, object, &Path::Root, &mut errors);
        errors.truncate(ERRORS_MAX);
        errors
    }

    fn check(&self, id: Id, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
        if errors.len() >= ERRORS_MAX {
            return;
        }
        let node = self.node(id);
        if value.is_null() && (node.nullable || node.go_type) {
            return;
        }
        if let Some(wrong) = type_error(node, value, path) {
            errors.push(wrong);
            return;
        }
        check_enum(node, value, path, errors);
        match value {
            Value::Object(fields) => self.check_object(node, fields, path, errors),
            Value::Array(items) => self.check_array(node, items, path, errors),
            Value::String(text) => check_string(node, text, path, errors),
            Value::Number(number) => check_number(node, number, path, errors),
            Value::Bool(_) | Value::Null => {}
        }
        self.check_junctors(node, value, path, errors);
    }

    fn check_object(&self, node: &Node, fields: &Map<String, Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
        if !node.go_type {
            for name in node.required.iter().filter(|name| !fields.contains_key(*name)) {
                errors.push(FieldError::required(path.child(name), ""));
            }
        }
        let limits = &node.limits;
        if let Some(least) = limits.min_properties.filter(|least| (fields.len() as u64) < *least) {
            let words = format!("{path} in body should have at least {least} properties");
            errors.push(FieldError::invalid(
                path.to_string(),
                Value::from(fields.clone()),
                words,
            ));
        }
        if let Some(most) = limits.max_properties.filter(|most| fields.len() as u64 > *most) {
            errors.push(FieldError::too_many(path.to_string(), fields.len(), most));
        }
        for (name, value) in fields {
            if let Some(&property) = node.properties.get(name) {
                self.check(property, value, &Path::Field(path, name), errors);
            } else if let Additional::Schema(additional) = node.additional {
                self.check(additional, value, &Path::Field(path, name), errors);
            }
        }
    }

    fn check_array(&self, node: &Node, items: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
        let limits = &node.limits;
        if let Some(least) = limits.min_items.filter(|least| (items.len() as u64) < *least) {
            let words = format!("{path} in body should have at least {least} items");
            errors.push(FieldError::invalid(path.to_string(), items.len(), words));
        }
        if let Some(most) = limits.max_items.filter(|most| items.len() as u64 > *most) {
            errors.push(FieldError::too_many(path.to_string(), items.len(), most));
        }
        if limits.unique_items && values::first_repeated(items.iter()).is_some() {
            let words = format!("{path} in body shouldn't contain duplicates");
            errors.push(FieldError::invalid(
                path.to_string(),
                Value::from(items.to_vec()),
                words,
            ));
        }
        if let Some(schema) = node.items {
            for (position, item) in items.iter().enumerate() {
                self.check(schema, item, &Path::Item(path, position), errors);
            }
        }
        match node.list_type {
            ListType::Atomic => {}
            ListType::Set => check_unique(items, path, errors),
            ListType::Map => self.check_list_map(node, items, path, errors),
        }
    }

    fn check_list_map(&self, node: &Node, items: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
        let item_schema = node.items.map(|id| self.node(id));
        let mut keys = Vec::with_capacity(items.len());
        for item in items {
            let Some(fields) = item.as_object() else { return };
            let mut entry = Map::new();
            for name in &node.list_keys {
                let default = || {
                    let property = item_schema?.properties.get(name)?;
                    self.node(*property).default.as_ref()
                };
                if let Some(value) = fields.get(name).or_else(default) {
                    entry.insert(name.clone(), value.clone());
                }
            }
            keys.push(Value::Object(entry));
        }
        check_unique(&keys, path, errors);
    }

    fn passes(&self, id: Id, value: &Value, path: &Path<'_>) -> Result<(), Vec<FieldError>> {
        let mut errors = Vec::new();
        self.check(id, value, path, &mut errors);
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    fn check_junctors(&self, node: &Node, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
        let complain = |words: &str| FieldError::invalid("", "", format!("\"{path}\" {words}"));
        let tries = |ids: &[Id]| -> Vec<Result<(), Vec<FieldError>>> {
            ids.iter().map(|&id| self.passes(id, value, path)).collect()
        };
        if !node.any_of.is_empty() {
            let results = tries(&node.any_of);
            if results.iter().all(Result::is_err) {
                errors.push(complain("must validate at least one schema (anyOf)"));
                errors.extend(fewest_errors(results));
            }
        }
        if !node.one_of.is_empty() {
            let results = tries(&node.one_of);
            match results.iter().filter(|result| result.is_ok()).count() {
                1 => {}
                0 => {
                    errors.push(complain(
                        "must validate one and only one schema (oneOf). Found none valid",
                    ));
                    errors.extend(fewest_errors(results));
                }
                found => errors.push(complain(&format!(
                    "must validate one and only one schema (oneOf). Found {found} valid alternatives"
                ))),
            }
        }
        let all = tries(&node.all_of);
        if all.iter().any(Result::is_err) {
            errors.extend(all.into_iter().filter_map(Result::err).flatten());
            errors.push(complain("must validate all the schemas (allOf)"));
        }
        if node.not.is_some_and(|not| self.passes(not, value, path).is_ok()) {
            errors.push(complain("must not validate the schema (not)"));
        }
    }
}

fn fewest_errors(results: Vec<Result<(), Vec<FieldError>>>) -> Vec<FieldError> {
    results
        .into_iter()
        .filter_map(Result::err)
        .min_by_key(Vec::len)
        .unwrap_or_default()
}

fn check_unique(entries: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for position in values::repeated(entries) {
        if let Some(entry) = entries.get(position) {
            errors.push(FieldError::duplicate(path.index(position), entry.clone()));
        }
    }
}

fn type_error(node: &Node, value: &Value, path: &Path<'_>) -> Option<FieldError> {
    let actual = values::type_name(value);
    let wrong = |wanted: &str| {
        let words = format!("{path} in body must be of type {wanted}: {actual:?}");
        Some(FieldError::type_invalid(path.to_string(), actual, words))
    };
    if node.quantity {
        return quantity_error(value, path);
    }
    if node.int_or_string {
        let fits = value.is_string() || values::is_integer(value);
        return if fits { None } else { wrong("integer,string") };
    }
    let wanted = node.kind?;
    let fits = match wanted {
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Boolean => value.is_boolean(),
        Type::Number => value.is_number(),
        Type::Integer => values::is_integer(value),
    };
    if fits { None } else { wrong(wanted.name()) }
}

fn quantity_error(value: &Value, path: &Path<'_>) -> Option<FieldError> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let wrong = Quantity::parse(&text).is_err();
    let words = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    wrong.then(|| FieldError::type_invalid(path.to_string(), value.clone(), words))
}

fn check_enum(node: &Node, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if node.allowed.is_empty() || node.allowed.iter().any(|allowed| values::equal(allowed, value)) {
        return;
    }
    let words = |allowed: &Value| allowed.as_str().map_or_else(|| allowed.to_string(), str::to_owned);
    let allowed: Vec<String> = node.allowed.iter().map(words).collect();
    errors.push(FieldError::not_supported(path.to_string(), value.clone(), &allowed));
}

fn check_string(node: &Node, text: &str, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let limits = &node.limits;
    let length = text.chars().count() as u64;
    if let Some(most) = limits.max_length.filter(|most| length > *most) {
        errors.push(FieldError::too_long(path.to_string(), most));
    }
    if let Some(least) = limits.min_length.filter(|least| length < *least) {
        let words = format!("{path} in body should be at least {least} chars long");
        errors.push(FieldError::invalid(path.to_string(), text, words));
    }
    if let Some(pattern) = limits.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        errors.push(FieldError::invalid(
            path.to_string(),
            text,
            format!("{path} in body should match '{pattern}'"),
        ));
    }
    if let Some(format) = node
        .format
        .as_deref()
        .filter(|format| !values::has_format(text, format))
    {
        let words = format!("{path} in body must be of type {format}: {text:?}");
        errors.push(FieldError::type_invalid(path.to_string(), text, words));
    }
}

fn check_number(node: &Node, number: &serde_json::Number, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let limits = &node.limits;
    let have = number.as_f64().unwrap_or(f64::NAN);
    let mut complain = |words: String| {
        errors.push(FieldError::invalid(
            path.to_string(),
            Value::Number(number.clone()),
            format!("{path} in body {words}"),
        ));
    };
    if let Some((limit, exclusive)) = limits.minimum
        && (have < limit || exclusive && have <= limit)
    {
        let words = if exclusive {
            "should be greater than"
        } else {
            "should be greater than or equal to"
        };
        complain(format!("{words} {limit}"));
    }
    if let Some((limit, exclusive)) = limits.maximum
        && (have > limit || exclusive && have >= limit)
    {
        let words = if exclusive {
            "should be less than"
        } else {
            "should be less than or equal to"
        };
        complain(format!("{words} {limit}"));
    }
    if let Some(factor) = limits.multiple_of {
        let ratio = have / factor;
        if (ratio - ratio.round()).abs() > 1e-9 {
            complain(format!("should be a multiple of {factor}"));
        }
    }
    // The largest 64-bit integer is no float: 2^63 is the first that does not fit.
    let fits = match node.format.as_deref() {
        Some("int32") => (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&have),
        Some("int64") => number.is_i64() || (i64::MIN as f64..i64::MAX as f64).contains(&have),
        _ => true,
    };
    if let Some(format) = node.format.as_deref().filter(|_| !fits) {
        complain(format!("must be of type integer with format {format}"));
    }
}
