//! What can go wrong at this crate's border.

/// Why a node could not be served or created.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The template file is not a usable Node manifest.
    #[error("node template: {0}")]
    Template(String),
    /// A quantity on the command line or in the template is not one.
    #[error("node {dimension}: {value:?} is not a quantity: {why}")]
    Quantity {
        /// The resource, e.g. `cpu`.
        dimension: String,
        /// What was given.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// The existing nodes could not be listed.
    #[error("cannot list nodes: {0}")]
    List(#[source] Box<kube::Error>),
    /// A node could not be created.
    #[error("cannot create node {name}: {source}")]
    Create {
        /// The node's name.
        name: String,
        /// The server's answer.
        source: Box<kube::Error>,
    },
    /// Something could not be deleted.
    #[error("cannot delete {what}: {source}")]
    Delete {
        /// What it is.
        what: String,
        /// The server's answer.
        source: Box<kube::Error>,
    },
    /// A watch stream ended, which it never does while the process lives.
    #[error("the watch on {0} ended")]
    WatchEnded(&'static str),
    /// This machine cannot be a node.
    #[error("this machine as a node: {what}: {source}")]
    Local {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}
