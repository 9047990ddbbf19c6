//! The configuration file: read at the start, and again whenever it changes.
//!
//! The file's text is compared a few times a second's fraction: it is small, and this sees every way in which a file can
//! change, the swapped links of a mounted ConfigMap included.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use basalt_engine::{Conf, ConfError};

use crate::event_loop::Sink;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why a configuration cannot be put in force.
#[derive(Debug, thiserror::Error)]
pub enum ConfTrouble {
    /// The file cannot be read.
    #[error("reading the scheduler configuration {}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The built-in configuration has a fault: a defect of this program.
    #[error("the built-in scheduler configuration cannot be used: {source}")]
    BuiltIn {
        /// The fault.
        source: ConfError,
    },
    /// It says something that cannot be.
    #[error("the scheduler configuration {} cannot be used: {source}", path.display())]
    Bad {
        /// Which.
        path: PathBuf,
        /// What.
        source: ConfError,
    },
    /// It says something that is not understood, and that counts as an error here.
    #[error("the scheduler configuration {} is not understood: {}", path.display(), warnings.join("; "))]
    NotUnderstood {
        /// Which.
        path: PathBuf,
        /// What.
        warnings: Vec<String>,
    },
}

/// Makes the configuration that is in force where no file is named.
pub type BuiltInConf = fn() -> Result<Conf, ConfError>;

/// Where the configuration comes from. Clones share what they know.
#[derive(Debug, Clone, Default)]
pub struct ConfSource {
    path: Option<PathBuf>,
    strict: bool,
    /// The last one that could be used, and its text: a bad file puts it out of force in no life of the scheduler.
    good: Arc<Mutex<Option<(Conf, String)>>>,
}

impl ConfSource {
    /// From a file; none: the built-in one. If strict, what is not understood is an error.
    pub fn new(path: Option<PathBuf>, strict: bool) -> Self {
        let good = Arc::default();
        Self { path, strict, good }
    }

    fn good(&self) -> MutexGuard<'_, Option<(Conf, String)>> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the configuration, or takes `built_in`; returns the file's text too. If the file cannot be used any more, what it
    /// said before counts.
    pub fn load(&self, built_in: BuiltInConf) -> Result<(Conf, String), ConfTrouble> {
        match self.read_all(built_in) {
            Ok(found) => {
                *self.good() = Some(found.clone());
                Ok(found)
            }
            Err(trouble) => match self.good().clone() {
                Some(good) => {
                    tracing::error!("{trouble}; what it said before stays in force");
                    Ok(good)
                }
                None => Err(trouble),
            },
        }
    }

    fn read_all(&self, built_in: BuiltInConf) -> Result<(Conf, String), ConfTrouble> {
        let Some(path) = &self.path else {
            // The built-in one names what is still to come on purpose: no news for its user.
            let conf = Conf {
                warnings: Vec::new(),
                ..built_in().map_err(|source| ConfTrouble::BuiltIn { source })?
            };
            return Ok((conf, String::new()));
        };
        let text = std::fs::read_to_string(path).map_err(|source| ConfTrouble::Unreadable {
            path: path.clone(),
            source,
        })?;
        let conf = self.read(path, &text)?;
        Ok((conf, text))
    }

    fn read(&self, path: &Path, text: &str) -> Result<Conf, ConfTrouble> {
        let path = || path.to_owned();
        let conf = Conf::parse(text).map_err(|source| ConfTrouble::Bad { path: path(), source })?;
        if self.strict && !conf.warnings.is_empty() {
            return Err(ConfTrouble::NotUnderstood {
                path: path(),
                warnings: conf.warnings,
            });
        }
        Ok(conf)
    }

    /// Tells of every change of the file, for ever. `text` is what it said when it was read.
    pub(crate) async fn follow<N>(self, mut text: String, sink: Sink<N>, tell: fn(Result<Conf, ConfTrouble>) -> N) {
        let Some(path) = self.path.clone() else { return };
        let mut clock = tokio::time::interval(LOOK_EVERY);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut missing = false;
        loop {
            clock.tick().await;
            let news = match tokio::fs::read_to_string(&path).await {
                Ok(now) if now == text => {
                    missing = false;
                    continue;
                }
                Ok(now) => {
                    missing = false;
                    let news = self.read(&path, &now);
                    if let Ok(conf) = &news {
                        *self.good() = Some((conf.clone(), now.clone()));
                    }
                    text = now;
                    news
                }
                // Told once; a file that comes back as it was is no news.
                Err(_) if missing => continue,
                Err(source) => {
                    missing = true;
                    let path = path.clone();
                    Err(ConfTrouble::Unreadable { path, source })
                }
            };
            if !sink.send(tell(news)).await {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use basalt_engine::conf::SchedulingAction;

    use super::*;

    fn check(text: &str, strict: bool, expected: Result<usize, &str>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("volcano-scheduler.conf");
        std::fs::write(&path, text).expect("a file");
        let source = ConfSource::new(Some(path), strict);
        match (source.load(|| Ok(Conf::embedded())), expected) {
            (Ok((conf, read)), Ok(warnings)) => assert_eq!((conf.warnings.len(), read.as_str()), (warnings, text)),
            (Err(trouble), Err(part)) => assert!(trouble.to_string().contains(part), "{trouble}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn files_are_read_and_refused() {
        check("actions: allocate", false, Ok(0));
        check("actoins: allocate", false, Ok(1));
        check("actoins: allocate", true, Err("did you mean \"actions\"?"));
        check("actions: alocate", false, Err("did you mean \"allocate\"?"));
        check("[", false, Err("not valid YAML"));
    }

    #[test]
    fn a_file_that_was_good_and_is_not_any_more_leaves_what_it_said_in_force() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("volcano-scheduler.conf");
        let source = ConfSource::new(Some(path.clone()), false);
        let good = "actions: allocate";
        for text in [Some(good), Some("["), None] {
            match text {
                Some(text) => std::fs::write(&path, text).expect("a file"),
                None => std::fs::remove_file(&path).expect("the file goes"),
            }
            let (conf, read) = source.clone().load(|| Ok(Conf::embedded())).expect("what it said");
            assert_eq!(
                (conf.actions, read.as_str()),
                (vec![SchedulingAction::Allocate], good),
                "{text:?}"
            );
        }
    }

    #[test]
    fn an_absent_file_is_named() {
        let source = ConfSource::new(Some("/does/not/exist".into()), false);
        let trouble = source.load(|| Ok(Conf::embedded())).expect_err("no such file");
        assert!(trouble.to_string().contains("/does/not/exist"));
        let broken = ConfSource::default().load(|| Conf::parse("tiers: 3"));
        assert!(matches!(broken, Err(ConfTrouble::BuiltIn { .. })), "{broken:?}");
        let built_in = ConfSource::default()
            .load(|| Ok(Conf::embedded()))
            .expect("the built-in one");
        assert!(built_in.0.warnings.is_empty());
    }
}
