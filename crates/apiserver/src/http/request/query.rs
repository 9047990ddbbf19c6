//! The parameters of a request, read from the query of its URL.

use basalt_apimachinery::table::Include;

use crate::http::request::path::{URL_MAX, unescape};
use crate::http::response::status::{ApiError, ApiResult};

/// The parameters of a request. Unknown parameters are ignored, as Kubernetes does.
#[derive(Debug, Default, Clone)]
pub(crate) struct Query {
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) limit: u64,
    pub(crate) continue_token: String,
    pub(crate) resource_version: String,
    pub(crate) resource_version_match: String,
    pub(crate) watch: bool,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation: Option<String>,
    pub(crate) include_object: Include,
}

/// What happens to fields that the schema does not know.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

impl Query {
    /// Reads the part of the URL after `?`.
    pub(crate) fn parse(text: Option<&str>) -> ApiResult<Query> {
        let mut query = Query::default();
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return Ok(query);
        };
        if text.len() > URL_MAX {
            return Err(ApiError::new(414, "RequestURITooLong", "request URI too long"));
        }
        for pair in text.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            query.set(&unescape(key, true)?, unescape(value, true)?.into_owned())?;
        }
        Ok(query)
    }

    fn set(&mut self, key: &str, value: String) -> ApiResult<()> {
        match key {
            "labelSelector" => self.label_selector = value,
            "fieldSelector" => self.field_selector = value,
            "limit" => self.limit = parse_number(key, &value)?,
            "continue" => self.continue_token = value,
            "resourceVersion" => self.resource_version = value,
            "resourceVersionMatch" => self.resource_version_match = value,
            "watch" => self.watch = parse_boolean(&value),
            "allowWatchBookmarks" => self.bookmarks = parse_boolean(&value),
            "sendInitialEvents" => self.send_initial_events = Some(parse_boolean(&value)),
            "timeoutSeconds" => self.timeout_seconds = Some(parse_number(key, &value)?),
            "dryRun" => self.dry_run = parse_dry_run(&value)?,
            "fieldValidation" => self.field_validation = parse_field_validation(&value)?,
            "gracePeriodSeconds" => self.grace_period_seconds = Some(parse_number(key, &value)?.cast_signed()),
            "propagationPolicy" => self.propagation = Some(value),
            "orphanDependents" if parse_boolean(&value) => self.propagation = Some("Orphan".to_owned()),
            "includeObject" => self.include_object = Include::parse(&value).unwrap_or_default(),
            _ => {}
        }
        Ok(())
    }
}

/// Returns whether a parameter is on: every value but those that mean false, as Kubernetes reads them.
pub(crate) fn parse_boolean(value: &str) -> bool {
    !matches!(value, "false" | "0" | "False" | "FALSE" | "f" | "F")
}

fn parse_number(key: &str, value: &str) -> ApiResult<u64> {
    if value.is_empty() {
        return Ok(0);
    }
    let fits = |number: &u64| *number <= i64::MAX.cast_unsigned();
    value
        .parse()
        .ok()
        .filter(fits)
        .ok_or_else(|| ApiError::bad_request(format!("invalid {key}: {value:?} is not a number")))
}

fn parse_dry_run(value: &str) -> ApiResult<bool> {
    match value {
        "All" => Ok(true),
        "" => Ok(false),
        other => Err(ApiError::new(
            422,
            "Invalid",
            format!("dryRun: Unsupported value: \"{other}\": supported values: \"All\""),
        )),
    }
}

fn parse_field_validation(value: &str) -> ApiResult<FieldValidation> {
    match value {
        "Ignore" => Ok(FieldValidation::Ignore),
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Strict" => Ok(FieldValidation::Strict),
        other => Err(ApiError::new(
            422,
            "Invalid",
            format!(
                "fieldValidation: Unsupported value: \"{other}\": supported values: \"Ignore\", \"Strict\", \"Warn\""
            ),
        )),
    }
}
