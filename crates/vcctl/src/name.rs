//! Names of queues and jobs, as arguments or by flag; and what may be a name at all.

/// The arguments that name one object, one or none, and several, with the shorthand that Volcano has for that kind.
macro_rules! named {
    ($noun:literal, $short:literal) => {
        use clap::Args;

        /// One object.
        #[derive(Debug, Clone, Args)]
        pub(crate) struct Name {
            #[arg(value_name = "NAME", help = concat!("Name of the ", $noun), required_unless_present = "name_flag", value_parser = super::checked)]
            name: Option<String>,
            /// The same, by flag
            #[arg(long = "name", short = $short, value_name = "NAME", conflicts_with = "name", value_parser = super::checked)]
            name_flag: Option<String>,
        }

        impl Name {
            pub(crate) fn take(self) -> String {
                self.name.or(self.name_flag).unwrap_or_default()
            }
        }

        /// One object, or none in particular.
        #[derive(Debug, Clone, Args)]
        pub(crate) struct MaybeName {
            #[arg(value_name = "NAME", help = concat!("Name of the ", $noun), value_parser = super::checked)]
            name: Option<String>,
            /// The same, by flag
            #[arg(long = "name", short = $short, value_name = "NAME", conflicts_with = "name", value_parser = super::checked)]
            name_flag: Option<String>,
        }

        impl MaybeName {
            pub(crate) fn take(self) -> Option<String> {
                self.name.or(self.name_flag)
            }
        }

        /// One object or several.
        #[derive(Debug, Clone, Args)]
        pub(crate) struct Names {
            #[arg(value_name = "NAME", help = concat!("Names of ", $noun, "s"), required_unless_present = "name_flag", value_parser = super::checked)]
            name: Vec<String>,
            /// The same, by flag
            #[arg(long = "name", short = $short, value_name = "NAME", conflicts_with = "name", value_parser = super::checked)]
            name_flag: Vec<String>,
        }

        impl Names {
            /// Each name once, in the order given.
            pub(crate) fn take(self) -> Vec<String> {
                let mut seen = std::collections::BTreeSet::new();
                let all = self.name.into_iter().chain(self.name_flag);
                all.filter(|name| seen.insert(name.clone())).collect()
            }
        }
    };
}

/// Of queues: `-n` is the name.
pub(crate) mod queue {
    named!("queue", 'n');
}

/// Of jobs: `-N` is the name, for `-n` is the namespace.
pub(crate) mod job {
    named!("job", 'N');
}

/// A name becomes part of an address, so it must not be able to change that.
pub(crate) fn checked(name: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let good = name.len() <= 253 && name.chars().all(fits) && ends(name.chars().next()) && ends(name.chars().last());
    if good {
        Ok(name.to_owned())
    } else {
        Err("a name has small letters, digits, '-' and '.', and begins and ends with a letter or digit".to_owned())
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
