//! Why a bound pod does not run.

/// What stands in the way of a pod, before its shim has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Something is not there yet: the pod waits, and is looked at again when it may be there.
    Waits {
        /// What its containers wait for: `ContainerCreating`, `CreateContainerConfigError`.
        waiting: &'static str,
        /// The reason of the event: `FailedMount`, `Failed`.
        event: &'static str,
        /// In words.
        message: String,
    },
    /// It will never run here: the pod fails.
    Refused {
        /// `status.reason`, and the reason of the event.
        reason: &'static str,
        /// In words.
        message: String,
    },
}

impl Trouble {
    /// A volume whose contents are not there yet.
    pub(crate) fn mount(message: String) -> Self {
        Self::Waits {
            waiting: "ContainerCreating",
            event: "FailedMount",
            message,
        }
    }

    /// A reference in a container that leads nowhere yet.
    pub(crate) fn config(message: String) -> Self {
        Self::Waits {
            waiting: "CreateContainerConfigError",
            event: "Failed",
            message,
        }
    }

    /// A pod that will never run here.
    pub(crate) fn refused(reason: &'static str, message: String) -> Self {
        Self::Refused { reason, message }
    }
}
