//! Names of queues, as arguments or by flag.

use clap::Args;

/// One queue.
#[derive(Debug, Clone, Args)]
pub(crate) struct Name {
    /// Name of the queue
    #[arg(value_name = "NAME", required_unless_present = "name_flag", value_parser = checked)]
    name: Option<String>,
    /// The same, by flag
    #[arg(long = "name", short = 'n', value_name = "NAME", conflicts_with = "name", value_parser = checked)]
    name_flag: Option<String>,
}

impl Name {
    pub(crate) fn take(self) -> String {
        self.name.or(self.name_flag).unwrap_or_default()
    }
}

/// One queue, or none in particular.
#[derive(Debug, Clone, Args)]
pub(crate) struct MaybeName {
    /// Name of the queue
    #[arg(value_name = "NAME", value_parser = checked)]
    name: Option<String>,
    /// The same, by flag
    #[arg(long = "name", short = 'n', value_name = "NAME", conflicts_with = "name", value_parser = checked)]
    name_flag: Option<String>,
}

impl MaybeName {
    pub(crate) fn take(self) -> Option<String> {
        self.name.or(self.name_flag)
    }
}

/// One queue or several.
#[derive(Debug, Clone, Args)]
pub(crate) struct Names {
    /// Names of queues
    #[arg(value_name = "NAME", required_unless_present = "name_flags", value_parser = checked)]
    names: Vec<String>,
    /// The same, by flag
    #[arg(long = "name", short = 'n', value_name = "NAME", conflicts_with = "names", value_parser = checked)]
    name_flags: Vec<String>,
}

impl Names {
    /// Each name once, in the order given.
    pub(crate) fn take(self) -> Vec<String> {
        let mut seen = std::collections::BTreeSet::new();
        let all = self.names.into_iter().chain(self.name_flags);
        all.filter(|name| seen.insert(name.clone())).collect()
    }
}

/// A name becomes part of an address, so it must not be able to change that.
fn checked(name: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let good = name.len() <= 253 && name.chars().all(fits) && ends(name.chars().next()) && ends(name.chars().last());
    if good {
        Ok(name.to_owned())
    } else {
        Err(
            "a queue's name has small letters, digits, '-' and '.', and begins and ends with a letter or digit"
                .to_owned(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_change_an_address() {
        for good in ["a", "team-1.vision", "0", &"x".repeat(253)] {
            assert!(checked(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "a/b",
            "..",
            "a?x=1",
            "A",
            "a_b",
            "-a",
            "a-",
            "a b",
            "größe",
            &"x".repeat(254),
        ] {
            assert!(checked(bad).is_err(), "{bad}");
        }
    }
}
