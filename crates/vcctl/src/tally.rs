//! Commands on several objects: all are tried, and the exit status says whether all went well.

use crate::error::CliError;
use crate::session::Session;

/// How many of several went wrong so far.
#[derive(Debug)]
pub(crate) struct Tally {
    all: usize,
    failed: usize,
}

impl Tally {
    pub(crate) fn of(all: usize) -> Self {
        Self { all, failed: 0 }
    }

    /// Takes the outcome of one. A failure among several is told and counted; that of a lone one is the command's own.
    pub(crate) fn take<T>(
        &mut self,
        outcome: Result<T, CliError>,
        session: &mut Session<'_>,
    ) -> Result<Option<T>, CliError> {
        match outcome {
            Ok(done) => Ok(Some(done)),
            Err(error) if self.all == 1 => Err(error),
            Err(error) => {
                session.tell_error(&error)?;
                self.failed += 1;
                Ok(None)
            }
        }
    }

    /// The outcome of all.
    pub(crate) fn end(self) -> Result<(), CliError> {
        let Self { all, failed } = self;
        match failed {
            0 => Ok(()),
            failed => Err(CliError::Several { failed, all }),
        }
    }
}
