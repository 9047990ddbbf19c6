//! Lists of quantities in objects that nobody has promised anything about.

use basalt_api::Quantity;
use basalt_api::fraction::Fraction;
use basalt_api::json::{list_at, value_or_null};
use basalt_api::quantity::Format;
use serde_json::Value;

use crate::read::brief;

/// Amounts count no further than this (10^23 units): hundreds of thousands of them can be added up.
const NANO_MAX: i128 = 10_i128.pow(32);

/// Whether a text can be the name of a resource: `cpu`, or `nvidia.com/gpu`.
pub(crate) fn is_resource(name: &str) -> bool {
    const NAME_MAX: usize = 63;
    const DOMAIN_MAX: usize = 253;
    let (domain, name) = match name.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, name),
    };
    let ends = |part: &str, edge: fn(&u8) -> bool| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge)
    };
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let label = |part: &str| {
        let lower = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        ends(part, lower) && part.bytes().all(|byte| lower(&byte) || byte == b'-')
    };
    name.len() <= NAME_MAX
        && ends(name, u8::is_ascii_alphanumeric)
        && name.bytes().all(inner)
        && domain.is_none_or(|domain| domain.len() <= DOMAIN_MAX && domain.split('.').all(label))
}

/// The entries of a map; none if it is something else.
pub(crate) fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
}

/// A quantity as it may be written: text or number.
pub(crate) fn quantity(value: &Value) -> Result<Quantity, String> {
    let text = match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        other => return Err(format!("{} is not a quantity", brief(other))),
    };
    text.map_err(|error| error.to_string())
}

/// The amounts of a list that can be read, held within what can be added up.
pub(crate) fn amounts(list: &Value) -> impl Iterator<Item = (&str, Quantity)> {
    entries(list).filter_map(|(dimension, written)| Some((dimension, bounded(quantity(written).ok()?))))
}

/// The amount of one dimension of a list, if it is set and can be read.
pub(crate) fn amount(list: &Value, dimension: &str) -> Option<Quantity> {
    list.get(dimension)
        .and_then(|written| quantity(written).ok())
        .map(bounded)
}

fn bounded(amount: Quantity) -> Quantity {
    let nano = amount.nano().clamp(-NANO_MAX, NANO_MAX);
    Quantity::from_nano(nano, amount.format()).unwrap_or(amount)
}

/// The dimensions of which a queue is guaranteed a share of the cluster, and the share in billionths.
pub(crate) fn shares(queue: &Value) -> impl Iterator<Item = (&str, i128)> {
    let percentage = value_or_null(queue, "/spec/guarantee/percentage");
    let share = quantity(value_or_null(percentage, "/value")).ok().map(Fraction::new);
    let share = share.filter(|share| share.is_share()).map(|share| share.value().nano());
    let named = list_at(percentage, "/dimensions").iter().filter_map(Value::as_str);
    named.filter_map(move |dimension| Some((dimension, share?)))
}

/// So many billionths of an amount, held within the type.
pub(crate) fn share_of(share: i128, amount: i128) -> i128 {
    const ONE: i128 = 1_000_000_000;
    let whole = (amount / ONE).saturating_mul(share);
    whole.saturating_add((amount % ONE).saturating_mul(share) / ONE)
}

/// A sum in words, written as `like` is.
pub(crate) fn written(nano: i128, like: Format) -> String {
    match Quantity::from_nano(nano, like) {
        Some(quantity) => quantity.to_string(),
        None => format!("{nano}n"),
    }
}
