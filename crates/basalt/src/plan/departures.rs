//! `scenarios/DEPARTURES.md`: scenarios that show what we do otherwise on purpose.

use std::path::Path;

use anyhow::Context;

/// Files that may fail, and must: a departure that passes is no departure.
#[derive(Debug, Default)]
pub(super) struct Departures(Vec<String>);

impl Departures {
    /// Reads the table's first column: `area/NN-name.yaml`, or a beginning of that, in back-ticks.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
        let files = rows
            .filter_map(|row| row.split_once('`'))
            .map(|(file, _)| file.to_owned());
        Self(files.collect())
    }

    /// Whether a file is listed.
    pub(super) fn has(&self, file: &Path) -> bool {
        let mut names = file.components().rev().map(|part| part.as_os_str().to_string_lossy());
        let (Some(name), Some(area)) = (names.next(), names.next()) else {
            return false;
        };
        let full = format!("{area}/{name}");
        self.0.iter().any(|listed| {
            full.strip_prefix(listed.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_a_file_or_its_number() {
        let list =
            Departures::parse("# text\n| file | why |\n|---|---|\n| `capacity/15` | closed |\n| `a/b.yaml` | x |\n");
        for (file, listed) in [
            ("/x/capacity/15-job-in-a-closed-queue.yaml", true),
            ("/x/capacity/150-other.yaml", false),
            ("/x/other/15-job.yaml", false),
            ("a/b.yaml", true),
            ("b.yaml", false),
        ] {
            assert_eq!(list.has(Path::new(file)), listed, "{file}");
        }
    }
}
